#include "rms_norm.h"

#include <kb/kernels/launch.h>

#include <cmath>
#include <vector>

namespace {

constexpr double kEpsilon = 1e-5;
constexpr std::int64_t kRowsPerBlock = 32;

// ---- the kernel: plain C++ that issues commands to the PE it runs on ---------------------------------------------

/// y = x / sqrt(mean(x^2) + epsilon), row by row; blocks of rows pass through scratch.
void rms_norm(kb::tl::Context& tl, const kb::Tensor& x, const kb::Tensor& y) {
  const kb::Shard& in = x.shards[0];
  const std::int64_t rows = in.shape[0], cols = in.shape[1];
  for (std::int64_t row = 0; row < rows; row += kRowsPerBlock) {
    const auto scope = tl.scratch_scope("block");
    const kb::Shape block{std::min(kRowsPerBlock, rows - row), cols};
    const std::uint64_t offset = static_cast<std::uint64_t>(row * cols) * kb::size_of(x.dtype);
    const auto values = tl.cast(tl.load(in.addr + offset, block, x.dtype), kb::DType::f32);
    const auto mean_square = tl.sum(values * values, 1) * (1.0 / static_cast<double>(cols));
    const auto normal = values * tl.rsqrt(mean_square + kEpsilon);
    tl.store(y.shards[0].addr + offset, tl.cast(normal, y.dtype));
  }
}

// ---- the bench: allocates, launches, checks ------------------------------------------------------------------------

class RmsNormBench : public kb::Bench {
 public:
  std::string name() const override { return "rms_norm"; }
  std::string doc() const override { return "root-mean-square normalisation of the rows of x [rows, cols] on one PE"; }
  std::vector<kb::ParamSpec> params() const override {
    return {kb::int_param("rows", 128, 1, 1 << 20, "rows of x"), kb::int_param("cols", 256, 1, 4096, "columns of x"),
            kb::inputs_param()};
  }

  kb::BenchResult run(kb::BenchContext& context) const override {
    const kb::Shape shape{context.params().integer("rows"), context.params().integer("cols")};
    const kb::LogicalTensor x =
        context.input("x", shape, kb::DType::f16, kb::input_kind_from_name(context.params().word("inputs")));
    kb::Host& host = context.host();
    const kb::Tensor in = host.allocate("x", kb::DType::f16, kb::Space::hbm, {{0, shape}});
    const kb::Tensor out = host.allocate("y", kb::DType::f16, kb::Space::hbm, {{0, shape}});
    if (context.with_data()) host.write(in, 0, x.bytes(), x.size_bytes());

    kb::LaunchOptions options;
    options.pes = {0};
    kb::BenchResult result;
    result.launches.push_back({"rms_norm", host.launch(kb::tl::bind_kernel("rms_norm", rms_norm, in, out), options)});
    result.latency_ns = kb::ns_from_ps(result.launches[0].result.latency());
    result.verdict = kb::bound_sentence(result.launches[0].result);

    if (context.with_data()) {
      kb::LogicalTensor y(shape, kb::DType::f16);
      host.read(out, 0, y.bytes(), y.size_bytes());
      context.output("y", y);
      result.numerics = kb::compare(y, reference(x), 1e-3);
    }
    host.free(in);
    host.free(out);
    return result;
  }

 private:
  static std::vector<double> reference(const kb::LogicalTensor& x) {
    const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
    std::vector<double> y(static_cast<std::size_t>(rows * cols));
    for (std::int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (std::int64_t col = 0; col < cols; ++col) sum += x.at(row * cols + col) * x.at(row * cols + col);
      const double factor = 1 / std::sqrt(sum / static_cast<double>(cols) + kEpsilon);
      for (std::int64_t col = 0; col < cols; ++col)
        y[static_cast<std::size_t>(row * cols + col)] = x.at(row * cols + col) * factor;
    }
    return y;
  }
};

}  // namespace

std::unique_ptr<kb::Bench> make_rms_norm_bench() {
  return std::make_unique<RmsNormBench>();
}
