#include <kb/tlm_if/payload_pool.h>

#include <kb/tlm_if/errors.h>

#include <string>

namespace kb {

namespace {

/// A memory port lends a payload an extension of its own while a target has it. When a run ends in between, that one
/// may be gone before the payload, which must not free it.
class PooledPayload : public tlm::tlm_generic_payload {
 public:
  explicit PooledPayload(tlm::tlm_mm_interface* pool) : tlm::tlm_generic_payload(pool) { set_extension(own_); }
  // By its index: the typed call would look at the extension that it replaces. The base frees `own_` then.
  ~PooledPayload() override { set_extension(TransferExtension::ID, own_); }

 private:
  TransferExtension* own_ = new TransferExtension;
};

}  // namespace

PayloadPool::~PayloadPool() {
  for (auto* t : owned_) delete t;
}

tlm::tlm_generic_payload& PayloadPool::take(tlm::tlm_command command, std::uint64_t address, std::uint64_t length,
                                            unsigned char* data) {
  if (length > 0xffffffffull)
    throw ModelError("transaction at address " + std::to_string(address) + ": found " + std::to_string(length) +
                     " bytes; allowed: at most 2^32 - 1 in one transaction");
  if (free_.empty()) {
    auto* t = new PooledPayload(this);
    owned_.push_back(t);
    free_.push_back(t);
  }
  tlm::tlm_generic_payload* t = free_.back();
  free_.pop_back();
  const bool filler = data == nullptr;
  if (filler) {
    // A new block rather than a longer one: payloads in flight still point into the old.
    if (blank_.empty() || blank_.back().size() < length) blank_.emplace_back(length);
    data = blank_.back().data();
  }
  t->set_command(command);
  t->set_address(address);
  t->set_data_ptr(data);
  t->set_data_length(static_cast<unsigned>(length));
  t->set_streaming_width(static_cast<unsigned>(length));
  t->set_byte_enable_ptr(nullptr);
  t->set_byte_enable_length(0);
  t->set_dmi_allowed(false);
  t->set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  t->set_gp_option(tlm::TLM_MIN_PAYLOAD);
  extension(*t).reset();
  extension(*t).timing_only = filler;
  t->acquire();
  ++out_;
  return *t;
}

void PayloadPool::free(tlm::tlm_generic_payload* trans) {
  trans->reset();
  free_.push_back(trans);
  --out_;
}

}  // namespace kb
