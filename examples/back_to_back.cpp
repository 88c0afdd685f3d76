// Two machines joined by their inter-SIP ports: a kernel on the left one reads and writes memory of the right one.
#include "check.h"

#include <kb/kernels/launch.h>
#include <kb/platform/platform.h>

#include <systemc>
#include <vector>

namespace {

constexpr char kPort[] = "tray.sip0.io.ual_ep";

/// there = there + here, elementwise.
void add_to(kb::tl::Context& tl, const kb::Tensor& here, std::uint64_t there) {
  const kb::Shard& mine = here.shards[0];
  tl.store(there, tl.load(there, mine.shape, here.dtype) + tl.load(mine.addr, mine.shape, here.dtype));
}

std::vector<float> read(kb::Platform& platform, const kb::Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shards[0].shape.numel()));
  platform.host().read(tensor, 0, values.data(), values.size() * sizeof(float));
  return values;
}

kb::Tensor filled(kb::Platform& platform, const char* name, float value) {
  const kb::Tensor tensor = platform.host().allocate(name, kb::DType::f32, kb::Space::hbm, {{0, kb::Shape{32, 32}}});
  const std::vector<float> values(1024, value);
  platform.host().write(tensor, 0, values.data(), values.size() * sizeof(float));
  return tensor;
}

}  // namespace

int sc_main(int, char*[]) {
  kb::SystemConfig config = kb::load_config(TOPOLOGIES "/one_cube.yaml");
  config.open.inter_sip = {kPort};
  kb::PlatformOptions options;
  options.mode = kb::Mode::data;
  kb::Platform left("left", config, options);
  kb::Platform right("right", config, options);
  left.inter_sip(kPort).outward.bind(right.inter_sip(kPort).inward);
  right.inter_sip(kPort).outward.bind(left.inter_sip(kPort).inward);

  const kb::Tensor here = filled(left, "here", 1.5f);
  const kb::Tensor there = filled(right, "there", 40.5f);
  // Each machine has one SIP of its own, so it sees the other one's as SIP 1. Kernels use virtual addresses.
  const std::uint64_t other_sip = std::uint64_t{1} << 47;
  const std::uint64_t window = left.map(other_sip + right.physical_address(there), 4096, "right.there");

  Checks checks;
  left.host().launch(kb::tl::bind_kernel("add_to", add_to, here, window), {{0}, {}});
  std::size_t right_values = 0;
  for (const float value : read(right, there)) right_values += value == 42.0f;
  checks.equal<std::size_t>("elements of there", right_values, 1024);

  // One flit across: the DMA's issue 2 ns; the request's way 8 (UCIe), 8 (PHY), 5 (ual_ep), 5 (inter-SIP) and the same
  // on the other side, twice with the way back; the flit over links of 1, 1, 2, 1, 2, 2 ns there and 2, 2, 1, 2, 1, 1
  // ns here, after 8 ns in its pseudo channel.
  const kb::Host::DirectTransfer one_flit{0, false, window, 256};
  checks.equal<kb::Ps>("a read of 256 B, ps", left.host().run_transfers({one_flit}).latency(),
                       2'000 + 2 * 2 * (8'000 + 8'000 + 5'000 + 5'000) + 18'000 + 8'000);
  left.check_conservation();
  right.check_conservation();
  return checks.exit_code();
}
