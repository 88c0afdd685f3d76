// Pooled memory manager for generic payloads with our extension attached.
#pragma once

#include <kb/tlm_if/extensions.h>
#include <kb/tlm_if/packet.h>

#include <tlm>
#include <vector>

namespace kb {

/// Hands out generic payloads, each with a TransferExtension of its own, with reference count 1. A payload
/// comes back by itself when its last reference is released, and is fully reset (response status, address,
/// DMI hint, byte enables, extension), since tlm_generic_payload::reset() keeps most of that.
class PayloadPool : public tlm::tlm_mm_interface {
 public:
  PayloadPool() = default;
  PayloadPool(const PayloadPool&) = delete;
  PayloadPool& operator=(const PayloadPool&) = delete;
  ~PayloadPool() override;

  /// `length` bytes at `data`; `data` may be null in runs without data: it then points at zeroed bytes of the
  /// pool, so that data_ptr is always valid for `length` bytes, and the extension says timing_only.
  tlm::tlm_generic_payload& take(tlm::tlm_command command, std::uint64_t address, std::uint64_t length,
                                 unsigned char* data = nullptr);
  void free(tlm::tlm_generic_payload* trans) override;

  std::size_t out() const { return out_; }

  static TransferExtension& extension(tlm::tlm_generic_payload& trans) {
    return *trans.get_extension<TransferExtension>();
  }

 private:
  std::vector<tlm::tlm_generic_payload*> owned_;
  std::vector<tlm::tlm_generic_payload*> free_;
  std::vector<std::vector<unsigned char>> blank_;  // shared zero bytes, growing by new blocks
  std::size_t out_ = 0;
};

}  // namespace kb
