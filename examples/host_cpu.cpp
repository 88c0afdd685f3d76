// A host CPU model of your own drives the machine: it writes a tensor through the host port, launches a kernel on it,
// and reads the result back. Everything it does is an ordinary blocking transaction of the TLM-2.0 base protocol.
#include "check.h"

#include <kb/kernels/launch.h>
#include <kb/platform/platform.h>

#include <tlm_utils/simple_initiator_socket.h>
#include <systemc>
#include <vector>

namespace {

/// y = 2 x + 1, on one PE: one DMA read, two passes of the vector engine, one DMA write.
void scale_and_shift(kb::tl::Context& tl, const kb::Tensor& x, const kb::Tensor& y) {
  const auto values = tl.load(x.shards[0].addr, x.shards[0].shape, x.dtype);
  tl.store(y.shards[0].addr, values * 2.0 + 1.0);
}

class HostCpu : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<HostCpu> port{"port"};
  Checks checks;

  SC_HAS_PROCESS(HostCpu);
  HostCpu(const sc_core::sc_module_name& name, kb::Platform& platform) : sc_module(name), platform_(platform) {
    SC_THREAD(run);
  }

 private:
  void run() {
    // The host's runtime places tensors; the CPU moves their bytes.
    kb::Host& host = platform_.host();
    const kb::Shape shape{64, 64};
    const kb::Tensor x = host.allocate("x", kb::DType::f32, kb::Space::hbm, {{0, shape}});
    const kb::Tensor y = host.allocate("y", kb::DType::f32, kb::Space::hbm, {{0, shape}});

    std::vector<float> values(4096);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const sc_core::sc_time write_time = transfer(tlm::TLM_WRITE_COMMAND, platform_.physical_address(x), values);

    const kb::LaunchResult launch = host.launch(kb::tl::bind_kernel("scale_and_shift", scale_and_shift, x, y));
    transfer(tlm::TLM_READ_COMMAND, platform_.physical_address(y), values);

    std::size_t right = 0;
    for (std::size_t i = 0; i < values.size(); ++i) right += values[i] == 2.0f * static_cast<float>(i) + 1.0f;
    checks.equal<std::size_t>("elements of y = 2 x + 1", right, values.size());
    // 64 flits of 256 B. Down: pcie_ep 5, PHY 8, UCIe port 8; the first flit over links of 2, 1, 2, 1 and 1 ns, the
    // others behind it at 2 ns each; the last one's pseudo channel takes 8. The response pays the overheads: 183 ns.
    checks.equal("the host's write", write_time, sc_core::sc_time(21 + 7 + 63 * 2 + 8 + 21, sc_core::SC_NS));
    std::cout << "the kernel took " << kb::ns_from_ps(launch.latency()) << " ns\n";
    sc_core::sc_stop();
  }

  sc_core::sc_time transfer(tlm::tlm_command command, std::uint64_t address, std::vector<float>& data) {
    const auto bytes = static_cast<unsigned>(data.size() * sizeof(float));
    tlm::tlm_generic_payload trans;
    trans.set_command(command);
    trans.set_address(address);
    trans.set_data_ptr(reinterpret_cast<unsigned char*>(data.data()));
    trans.set_data_length(bytes);
    trans.set_streaming_width(bytes);
    const sc_core::sc_time start = sc_core::sc_time_stamp();
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    port->b_transport(trans, delay);
    if (!trans.is_response_ok()) SC_REPORT_ERROR(name(), trans.get_response_string().c_str());
    return sc_core::sc_time_stamp() + delay - start;
  }

  kb::Platform& platform_;
};

}  // namespace

int sc_main(int, char*[]) {
  kb::SystemConfig config = kb::load_config(TOPOLOGIES "/one_pe.yaml");
  config.open.host_port = true;
  kb::PlatformOptions options;
  options.mode = kb::Mode::data;  // tensors have values

  kb::Platform platform("tray", config, options);
  HostCpu cpu("host_cpu", platform);
  cpu.port.bind(platform.host_port());
  sc_core::sc_start();
  return cpu.checks.exit_code();
}
