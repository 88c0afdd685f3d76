// An AT memory of your own, with its own latency, takes the place of an HBM slice.
#include "check.h"

#include <kb/kernels/launch.h>
#include <kb/platform/kernel_scope.h>
#include <kb/platform/platform.h>

#include <tlm_utils/peq_with_get.h>
#include <tlm_utils/simple_target_socket.h>
#include <cstring>
#include <memory>
#include <systemc>
#include <vector>

namespace {

/// Takes a request at once and answers `latency` later, any number in flight. It knows nothing of kernbench.
class Memory : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Memory> socket{"socket"};

  SC_HAS_PROCESS(Memory);
  Memory(const sc_core::sc_module_name& name, const sc_core::sc_time& latency)
      : sc_module(name), latency_(latency), bytes_(1 << 24) {
    socket.register_nb_transport_fw(this, &Memory::nb_transport_fw);
    socket.register_transport_dbg(this, &Memory::access);
    SC_THREAD(respond);
  }

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
    if (phase == tlm::END_RESP) {
      response_ended_.notify(delay);
      return tlm::TLM_COMPLETED;
    }
    trans.acquire();
    requests_.notify(trans, delay + latency_);
    phase = tlm::END_REQ;
    return tlm::TLM_UPDATED;
  }

  void respond() {
    for (;;) {
      wait(requests_.get_event());
      while (tlm::tlm_generic_payload* trans = requests_.get_next_transaction()) {
        trans->set_response_status(access(*trans) == trans->get_data_length() ? tlm::TLM_OK_RESPONSE
                                                                              : tlm::TLM_ADDRESS_ERROR_RESPONSE);
        tlm::tlm_phase phase = tlm::BEGIN_RESP;
        sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
        if (socket->nb_transport_bw(*trans, phase, delay) == tlm::TLM_ACCEPTED) wait(response_ended_);
        trans->release();
      }
    }
  }

  // Tensors are read and written through transport_dbg, transactions move data by the same function.
  unsigned access(tlm::tlm_generic_payload& trans) {
    const std::uint64_t address = trans.get_address();
    const unsigned length = trans.get_data_length();
    if (address > bytes_.size() || length > bytes_.size() - address) return 0;
    if (trans.is_read()) std::memcpy(trans.get_data_ptr(), bytes_.data() + address, length);
    if (trans.is_write()) std::memcpy(bytes_.data() + address, trans.get_data_ptr(), length);
    return length;
  }

  const sc_core::sc_time latency_;
  std::vector<unsigned char> bytes_;
  tlm_utils::peq_with_get<tlm::tlm_generic_payload> requests_{"requests"};
  sc_core::sc_event response_ended_;
};

/// One read of 16 KiB and then one write, through the same PE.
void increment(kb::tl::Context& tl, const kb::Tensor& x) {
  const kb::Shard& shard = x.shards[0];
  tl.store(shard.addr, tl.load(shard.addr, shard.shape, x.dtype) + 1.0);
}

/// Latency of the kernel with a memory of that latency on the slice; 0: with the built-in one.
kb::Ps run(int latency_ns, Checks& checks) {
  kb::KernelScope simulation;  // several simulations follow one another in this process
  kb::SystemConfig config = kb::load_config(TOPOLOGIES "/one_pe.yaml");
  if (latency_ns != 0) config.open.hbm = {"tray.sip0.cube0.hbm0"};
  kb::PlatformOptions options;
  options.mode = kb::Mode::data;

  kb::Platform platform("tray", config, options);
  std::unique_ptr<Memory> memory;
  if (latency_ns != 0) {
    memory = std::make_unique<Memory>("memory", sc_core::sc_time(latency_ns, sc_core::SC_NS));
    platform.hbm("tray.sip0.cube0.hbm0").bind(memory->socket);
  }

  kb::Host& host = platform.host();
  const kb::Tensor x = host.allocate("x", kb::DType::f32, kb::Space::hbm, {{0, kb::Shape{64, 64}}});
  std::vector<float> values(4096, 41.0f);
  host.write(x, 0, values.data(), values.size() * sizeof(float));
  const kb::LaunchResult launch = host.launch(kb::tl::bind_kernel("increment", increment, x));
  host.read(x, 0, values.data(), values.size() * sizeof(float));
  checks.equal("first and last element", values.front() + values.back(), 84.0f);
  platform.check_conservation();
  return launch.latency();
}

}  // namespace

int sc_main(int, char*[]) {
  Checks checks;
  const kb::Ps built_in = run(0, checks);
  // A burst of 256 B takes a pseudo channel of 32 GB/s 8 ns: the built-in slice answers as a memory of 8 ns does.
  checks.equal("latency with 8 ns, ps", run(8, checks), built_in);
  // 92 ns more for the read and for the write.
  checks.equal("latency with 100 ns, ps", run(100, checks), built_in + 2 * 92'000);
  return checks.exit_code();
}
