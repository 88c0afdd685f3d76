// A machine's fabric without PEs, and initiators that make traffic on it.
#pragma once

#include <kb/platform/config.h>
#include <kb/platform/fabric_builder.h>
#include <kb/platform/machine.h>
#include <kb/tlm_if/payload_pool.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <systemc>
#include <tlm>
#include <utility>
#include <vector>

namespace kb::test {

/// The tray with its fabric; `attach` runs in its scope after the fabric is built.
class Tray : public sc_core::sc_module {
 public:
  // The name is a parameter because it keeps the module's scope open for as long as it lives.
  explicit Tray(const SystemConfig& config, const FabricOptions& options = {},
                const sc_core::sc_module_name& name = "tray")
      : sc_core::sc_module(name), fabric(config, options) {}
  Fabric fabric;
};

/// One transfer and what came of it.
struct Transfer {
  bool write = false;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Ps at = 0;                 // BEGIN_REQ
  unsigned char* data = nullptr;
  VirtualChannel vc = VirtualChannel::compute;
  bool after_previous = false;  // not at `at` but when the transfer before it has ended

  Ps begun = -1;
  Ps first = -1;             // BEGIN_RESP
  Ps end = -1;               // last byte of a read, response of a write
  Ps left = -1;              // last byte of a write off the initiator's link
  Ps path = 0;               // uncontended time
  tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
};

/// A DMA without a PE: sends transfers at their times, any number outstanding, early completion of responses.
class Traffic : public sc_core::sc_module,
                public tlm::tlm_bw_transport_if<>,
                public TrainListener,
                public DepartureListener {
 public:
  tlm::tlm_initiator_socket<> socket{"socket"};
  std::vector<Transfer> transfers;
  std::uint32_t index = 0;  // of the PE that it stands for
  bool with_extension = true;

  explicit Traffic(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    SC_HAS_PROCESS(Traffic);
    SC_METHOD(run);
    sensitive << wake_;
  }
  ~Traffic() override { pool.out(); }

  PayloadPool pool;
  bool done() const {
    return next_ == transfers.size() &&
           std::all_of(transfers.begin(), transfers.end(), [](const Transfer& t) { return t.end >= 0; });
  }
  Ps makespan() const {
    Ps last = 0;
    for (const auto& t : transfers) last = std::max(last, t.end);
    return last;
  }

 private:
  void run() {
    while (next_ < transfers.size()) {
      Transfer& t = transfers[next_];
      if (t.after_previous && next_ > 0) {
        if (transfers[next_ - 1].end < 0) return;  // woken again by its end
        t.at = transfers[next_ - 1].end;
      }
      if (t.at > now_ps()) {
        wake_.notify(to_sc_time(t.at - now_ps()));
        return;
      }
      ++next_;
      send(t);
    }
  }

  void send(Transfer& t) {
    auto& trans = pool.take(t.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, t.address, t.bytes, t.data);
    TransferExtension& ext = PayloadPool::extension(trans);
    ext.lane = index;
    ext.issuer = index;
    ext.vc = t.vc;
    ext.serial = next_;
    if (!t.write) ext.listener = this;
    if (t.write) ext.departure = this;
    t.begun = now_ps();
    live_.emplace_back(&trans, &t);
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    if (socket->nb_transport_fw(trans, phase, delay) == tlm::TLM_COMPLETED) {
      t.first = now_ps() + to_ps(delay);
      finish(trans, t.first);
    }
  }

  Transfer& of(const tlm::tlm_generic_payload& trans) {
    return *std::find_if(live_.begin(), live_.end(), [&](const auto& l) { return l.first == &trans; })->second;
  }
  void finish(tlm::tlm_generic_payload& trans, Ps at) {
    Transfer& t = of(trans);
    t.end = at;
    t.status = trans.get_response_status();
    t.path = PayloadPool::extension(trans).path_ps;
    live_.erase(std::find_if(live_.begin(), live_.end(), [&](const auto& l) { return l.first == &trans; }));
    trans.release();
    wake_.notify(to_sc_time(std::max<Ps>(0, at - now_ps())));
  }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;
    Transfer& t = of(trans);
    const TransferExtension& ext = PayloadPool::extension(trans);
    t.first = now_ps() + to_ps(delay);
    if (t.write || trans.is_response_error() || t.bytes == 0)
      finish(trans, t.first);
    else if (ext.complete)
      finish(trans, ext.train.tail());
    return tlm::TLM_COMPLETED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override { ++invalidations; }
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override {
    if (ext.complete) finish(trans, ext.train.tail());
  }
  void data_left(tlm::tlm_generic_payload& trans, Ps when) override { of(trans).left = when; }

  sc_core::sc_event wake_;
  std::size_t next_ = 0;
  std::vector<std::pair<tlm::tlm_generic_payload*, Transfer*>> live_;

 public:
  int invalidations = 0;
};

/// A tray with a Traffic in place of each PE.
class TrafficTray : public sc_core::sc_module {
 public:
  explicit TrafficTray(const SystemConfig& config, FabricOptions options = {},
                       const sc_core::sc_module_name& name = "tray")
      : sc_core::sc_module(name), traffic(config.total_pes(), nullptr) {
    options.make_pe = [this](const char* pe, const PeAttachment& at) {
      auto t = std::make_unique<Traffic>(pe);
      t->index = at.id.pe;
      t->socket.bind(*at.dma);
      traffic[at.rank] = t.get();
      return t;
    };
    fabric = std::make_unique<Fabric>(config, options);
  }

  /// Runs until nothing is left to do and returns the end of the last transfer. Call once.
  Ps run() {
    sc_core::sc_start();
    Ps last = 0;
    for (const Traffic* t : traffic) last = std::max(last, t->makespan());
    return last;
  }
  void read(std::uint32_t rank, std::uint64_t address, std::uint64_t bytes, Ps at = 0) {
    Transfer t;
    t.address = address;
    t.bytes = bytes;
    t.at = at;
    traffic[rank]->transfers.push_back(t);
  }
  void write(std::uint32_t rank, std::uint64_t address, std::uint64_t bytes, Ps at = 0) {
    Transfer t;
    t.write = true;
    t.address = address;
    t.bytes = bytes;
    t.at = at;
    traffic[rank]->transfers.push_back(t);
  }
  std::uint64_t hbm(std::uint32_t sip, std::uint32_t cube, std::uint32_t slice, std::uint64_t offset = 0) const {
    return fabric->addresses().hbm(sip, cube, slice, offset);
  }
  std::uint32_t rank(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe) const {
    const SystemConfig& c = fabric->config();
    return (sip * c.cubes_per_sip() + cube) * c.pes_per_cube() + pe;
  }

  std::vector<Traffic*> traffic;
  std::unique_ptr<Fabric> fabric;
};

/// The machine of topologies/<name>.yaml.
inline SystemConfig machine(const std::string& name, const std::vector<Override>& overrides = {}) {
  return load_config(std::string(KB_SOURCE_DIR) + "/topologies/" + name + ".yaml", overrides);
}

}  // namespace kb::test
