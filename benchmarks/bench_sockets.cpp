// How fast the simulator handles transactions at a base-protocol socket: a bare four-phase initiator and target, and
// the same initiator at a memory of this library. The second must reach half of the first.
#include <kb/modules/memory/memory_controller.h>
#include <kb/platform/kernel_scope.h>
#include <kb/tlm_if/payload_pool.h>

#include <benchmark/benchmark.h>
#include <cstring>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

using namespace kb;

namespace {

constexpr std::uint64_t kBytes = 64;

/// One read after the other, each by four phases where the target lets it.
class Initiator : public sc_core::sc_module, tlm::tlm_bw_transport_if<> {
 public:
  tlm::tlm_initiator_socket<> socket{"socket"};
  std::uint64_t left;

  SC_HAS_PROCESS(Initiator);
  Initiator(const sc_core::sc_module_name& name, std::uint64_t count) : sc_module(name), left(count) {
    socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    SC_METHOD(request);
    sensitive << next_;
    SC_METHOD(end_response);
    sensitive << end_;
    dont_initialize();
  }

 private:
  void request() {
    if (left == 0) return;
    trans_ = &pool_.take(tlm::TLM_READ_COMMAND, (left * kBytes) % (1 << 20), kBytes, data_);
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(*trans_, phase, delay);
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::BEGIN_RESP) end_.notify(delay);
    return tlm::TLM_ACCEPTED;
  }
  void end_response() {
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(*trans_, phase, delay);
    trans_->release();
    --left;
    next_.notify(sc_core::SC_ZERO_TIME);
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  PayloadPool pool_;
  tlm::tlm_generic_payload* trans_ = nullptr;
  unsigned char data_[kBytes] = {};
  sc_core::sc_event next_, end_;
};

/// END_REQ after 1 ns, BEGIN_RESP 8 ns later.
class Target : public sc_core::sc_module, tlm::tlm_fw_transport_if<> {
 public:
  tlm::tlm_target_socket<> socket{"socket"};

  SC_HAS_PROCESS(Target);
  explicit Target(const sc_core::sc_module_name& name) : sc_module(name), bytes_(1 << 20) {
    socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    SC_METHOD(end_request);
    sensitive << end_request_;
    dont_initialize();
    SC_METHOD(respond);
    sensitive << respond_;
    dont_initialize();
  }

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::END_RESP) {
      trans.release();
      return tlm::TLM_COMPLETED;
    }
    trans.acquire();
    trans_ = &trans;
    end_request_.notify(delay + accept_);
    return tlm::TLM_ACCEPTED;
  }
  void end_request() {
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_bw(*trans_, phase, delay);
    respond_.notify(latency_);
  }
  void respond() {
    std::memcpy(trans_->get_data_ptr(), bytes_.data() + trans_->get_address(), trans_->get_data_length());
    trans_->set_response_status(tlm::TLM_OK_RESPONSE);
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_bw(*trans_, phase, delay);
  }
  void b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) override {}
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }

  const sc_core::sc_time accept_{1, sc_core::SC_NS}, latency_{8, sc_core::SC_NS};
  std::vector<unsigned char> bytes_;
  tlm::tlm_generic_payload* trans_ = nullptr;
  sc_core::sc_event end_request_, respond_;
};

constexpr std::uint64_t kTransactions = 200'000;

void run(benchmark::State& state, Initiator& initiator) {
  sc_core::sc_start();
  if (initiator.left != 0) state.SkipWithError("transactions were left over");
}

void bare_pair(benchmark::State& state) {
  for (auto _ : state) {
    KernelScope kernel;
    Initiator initiator("initiator", kTransactions);
    Target target("target");
    initiator.socket.bind(target.socket);
    run(state, initiator);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kTransactions));
}

void memory_controller(benchmark::State& state) {
  for (auto _ : state) {
    KernelScope kernel;
    FabricContext context;
    MemoryControllerParams params = MemoryControllerParams::of(HbmParams{});
    params.title = "memory";
    Initiator initiator("initiator", kTransactions);
    MemoryController memory("memory", context, params);
    initiator.socket.bind(memory.socket);
    run(state, initiator);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kTransactions));
}

BENCHMARK(bare_pair)->Unit(benchmark::kMillisecond);
BENCHMARK(memory_controller)->Unit(benchmark::kMillisecond);

}  // namespace

// SystemC owns main.
int sc_main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
