// An engine of your own takes the place of the built-in matrix engine, by its name under `impl:`.
#include "check.h"

#include <kb/kernels/launch.h>
#include <kb/modules/pe/gemm.h>
#include <kb/modules/pe/registry.h>
#include <kb/platform/platform.h>

#include <memory>
#include <systemc>
#include <vector>

namespace {

/// A systolic array of 64 x 64: a tile step streams its K rows through after filling the array, for every 64 x 64 piece
/// of the output. Everything but the time of a step stays as in the built-in engine.
class SystolicArray : public kb::Gemm {
 public:
  using kb::Gemm::Gemm;
  kb::Ps step_ps(std::int64_t m, std::int64_t k, std::int64_t n, kb::DType) const override {
    constexpr std::int64_t kSide = 64;
    const std::int64_t cycles = kb::ceil_div(m, kSide) * kb::ceil_div(n, kSide) * (k + kSide);
    return kb::cycles_ps(static_cast<double>(cycles), params().clock_ghz);
  }
};

struct Operands {
  kb::Tensor a, b, c;
};

void multiply(kb::tl::Context& tl, const Operands& t) {
  const auto ref = [&tl](const kb::Tensor& x) { return tl.ref(x.shards[0].addr, x.shards[0].shape, x.dtype); };
  tl.wait(tl.composite(kb::tl::gemm(ref(t.a), ref(t.b)).into(ref(t.c))));
}

}  // namespace

int sc_main(int, char*[]) {
  kb::PeRegistry registry;
  registry.gemm.add("systolic", [](const char* name, const kb::BoxContext& context) {
    return std::make_unique<SystolicArray>(name, context);
  });
  kb::PlatformOptions options;
  options.mode = kb::Mode::data;
  options.pe_registry = &registry;

  // The same as `pe: {gemm: {impl: systolic}}` in the topology file.
  const kb::SystemConfig config = kb::load_config(TOPOLOGIES "/one_pe.yaml", {{"pe.gemm.impl", "systolic"}});
  kb::Platform platform("tray", config, options);
  kb::Host& host = platform.host();

  // A counts up along k, B is 1: every element of C is 0 + 1 + ... + 255 = 32640, exact in f32.
  const auto tensor = [&host](const char* name, float (*value)(std::int64_t row, std::int64_t col)) {
    kb::Tensor t = host.allocate(name, kb::DType::f32, kb::Space::hbm, {{0, kb::Shape{256, 256}}});
    std::vector<float> data(256 * 256);
    for (std::int64_t i = 0; i < 256 * 256; ++i) data[static_cast<std::size_t>(i)] = value(i / 256, i % 256);
    host.write(t, 0, data.data(), data.size() * sizeof(float));
    return t;
  };
  const Operands t{tensor("a", [](std::int64_t, std::int64_t col) { return static_cast<float>(col); }),
                   tensor("b", [](std::int64_t, std::int64_t) { return 1.0f; }),
                   tensor("c", [](std::int64_t, std::int64_t) { return 0.0f; })};
  const kb::LaunchResult launch = host.launch(kb::tl::bind_kernel("multiply", multiply, t));

  Checks checks;
  std::vector<float> c(256 * 256);
  host.read(t.c, 0, c.data(), c.size() * sizeof(float));
  std::size_t right = 0;
  for (const float value : c) right += value == 32640.0f;
  checks.equal<std::size_t>("elements of C", right, c.size());

  // Tiles of 32 x 64 x 32: 8 * 4 * 8 steps of 64 + 64 cycles at 1 GHz.
  const kb::EngineTime& gemm = launch.pes[0].engines[static_cast<std::size_t>(kb::EngineKind::gemm)];
  checks.equal<kb::Ps>("the engine's busy time, ps", gemm.busy, 256 * 128'000);
  return checks.exit_code();
}
