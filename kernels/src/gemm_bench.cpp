#include "benches.h"

#include <kb/kernels/gemm_kernel.h>
#include <kb/kernels/launch.h>
#include <kb/tlm_if/errors.h>

namespace kb {

namespace {

constexpr std::int64_t kMaxDim = std::int64_t{1} << 20;

/// rel. RMSE allowed for C, by the type that it is stored in; integers are exact.
double gemm_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16: return 1e-3;
    case DType::bf16: return 1e-2;
    case DType::f32: return 5e-6;
    case DType::i8:
    case DType::i32: return 0;
  }
  return 0;
}

/// C in double precision from the stored operands; A and B start at the given elements.
void multiply(const LogicalTensor& a, std::int64_t a_first, const LogicalTensor& b, std::int64_t b_first,
              std::int64_t m, std::int64_t k, std::int64_t n, double* c) {
  std::vector<double> b_values(static_cast<std::size_t>(k * n));
  for (std::int64_t i = 0; i < k * n; ++i) b_values[static_cast<std::size_t>(i)] = b.at(b_first + i);
  for (std::int64_t row = 0; row < m; ++row) {
    double* out = c + row * n;
    for (std::int64_t col = 0; col < n; ++col) out[col] = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const double factor = a.at(a_first + row * k + i);
      const double* line = b_values.data() + i * n;
      for (std::int64_t col = 0; col < n; ++col) out[col] += factor * line[col];
    }
  }
}

class GemmBench : public Bench {
 public:
  std::string name() const override { return "gemm"; }

  std::string doc() const override {
    return "matrix product C[M,N] = A[M,K] x B[K,N] on each of the first PEs, operands in its own HBM slice\n"
           "composite: one command, tiled by the scheduler; `variant` says which operands are loaded into scratch "
           "first instead of being streamed.\n"
           "async_tiled: a kernel loop of lazy tile loads and dots (`variant` has no effect: every tile is loaded).";
  }

  std::vector<ParamSpec> params() const override {
    return {int_param("M", 512, 1, kMaxDim, "rows of A and C"),
            int_param("K", 512, 1, kMaxDim, "columns of A, rows of B"),
            int_param("N", 512, 1, kMaxDim, "columns of B and C"),
            word_param("variant", "ref_ref", {"ref_ref", "load_ref", "load_load"},
                       "operands A_B of the composite: ref = streamed from HBM, load = loaded into scratch first"),
            word_param("issue", "composite", {"composite", "async_tiled"}, "how the kernel issues the work"),
            word_param("dtype", "f16", {"f16", "bf16", "f32", "i8"}, "type of A, B and C (C of i8: i32)"),
            int_param("pes", 1, 1, 1 << 20, "the first PEs in rank order, each with operands of its own"),
            inputs_param()};
  }

  BenchResult run(BenchContext& ctx) const override {
    const Params& p = ctx.params();
    GemmArgs args;
    args.m = p.integer("M");
    args.k = p.integer("K");
    args.n = p.integer("N");
    args.dtype = *dtype_from_name(p.word("dtype"));
    const std::string variant = p.word("variant");
    args.variant = variant == "ref_ref"    ? GemmVariant::ref_ref
                   : variant == "load_ref" ? GemmVariant::load_ref
                                           : GemmVariant::load_load;
    const bool tiled = p.word("issue") == "async_tiled";
    const std::int64_t pes = p.integer("pes");
    const InputKind kind = input_kind_from_name(p.word("inputs"));
    if (pes > ctx.machine().total_pes())
      throw InputError("bench gemm, parameter pes: found " + std::to_string(pes) + "; allowed: 1 .. " +
                       std::to_string(ctx.machine().total_pes()) + " on this topology");

    // One PE's problem is two-dimensional; several are stacked.
    const auto logical = [pes](std::int64_t rows, std::int64_t cols) {
      return pes == 1 ? Shape{rows, cols} : Shape{pes, rows, cols};
    };
    const LogicalTensor a = ctx.input("a", logical(args.m, args.k), args.dtype, kind, 4.0);
    const LogicalTensor b = ctx.input("b", logical(args.k, args.n), args.dtype, kind, 1.0);
    const Blocks blocks{tiled, ctx.machine().tile[0], ctx.machine().tile[1], ctx.machine().tile[2]};
    args.a = place(ctx, "a", a, pes, args.m, args.k, tiled ? blocks.tm : 0, blocks.tk);
    args.b = place(ctx, "b", b, pes, args.k, args.n, tiled ? blocks.tk : 0, blocks.tn);
    const LogicalTensor c_shape(logical(args.m, args.n), args.out_dtype(), false);
    args.c = place(ctx, "c", c_shape, pes, args.m, args.n, 0, 0);

    LaunchOptions options;
    for (std::uint32_t rank = 0; rank < pes; ++rank) options.pes.push_back(rank);
    ctx.progress("gemm");
    BenchResult result;
    result.launches.push_back(
        {"gemm", tiled ? ctx.host().launch(tl::bind_kernel("gemm_async_tiled", gemm_async_tiled, args), options)
                       : ctx.host().launch(tl::bind_kernel("gemm_composite", gemm_composite, args), options)});
    const LaunchResult& launch = result.launches.back().result;
    result.latency_ns = ns_from_ps(launch.latency());
    const double seconds_e9 = result.latency_ns;
    if (seconds_e9 > 0 && ctx.mode() != Mode::emit)
      result.extra.emplace_back("tflops", 2e-3 * static_cast<double>(pes) * static_cast<double>(args.m) *
                                              static_cast<double>(args.k) * static_cast<double>(args.n) / seconds_e9);
    result.verdict = bound_sentence(launch);
    if (ctx.with_data()) check(ctx, args, a, b, pes, tiled, blocks, result);
    for (const Tensor* t : {&args.a, &args.b, &args.c}) ctx.host().free(*t);
    return result;
  }

 private:
  struct Blocks {
    bool tiled = false;
    std::int64_t tm = 0, tk = 0, tn = 0;
  };

  /// A shard of [rows, cols] per PE; blocked by tile_rows x tile_cols unless tile_rows is 0.
  static Tensor place(BenchContext& ctx, const std::string& name, const LogicalTensor& data, std::int64_t pes,
                      std::int64_t rows, std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols) {
    std::vector<std::pair<std::uint32_t, Shape>> shards;
    for (std::uint32_t rank = 0; rank < pes; ++rank) shards.emplace_back(rank, Shape{rows, cols});
    const Tensor tensor = ctx.host().allocate(name, data.dtype(), Space::hbm, shards);
    if (!data.has_data()) return tensor;
    const auto size = static_cast<std::size_t>(rows * cols) * size_of(data.dtype());
    for (std::int64_t i = 0; i < pes; ++i) {
      const std::int64_t first = i * rows * cols;
      if (tile_rows == 0) {
        ctx.host().write(tensor, static_cast<std::size_t>(i), data.element(first), size);
      } else {
        const LogicalTensor blocked = pack_blocked(data, first, rows, cols, tile_rows, tile_cols);
        ctx.host().write(tensor, static_cast<std::size_t>(i), blocked.bytes(), size);
      }
    }
    return tensor;
  }

  static void check(BenchContext& ctx, const GemmArgs& args, const LogicalTensor& a, const LogicalTensor& b,
                    std::int64_t pes, bool tiled, const Blocks& blocks, BenchResult& result) {
    const std::int64_t size = args.m * args.n;
    LogicalTensor c(pes == 1 ? Shape{args.m, args.n} : Shape{pes, args.m, args.n}, args.out_dtype());
    std::vector<double> reference(static_cast<std::size_t>(pes * size));
    for (std::int64_t i = 0; i < pes; ++i) {
      LogicalTensor one(Shape{args.m, args.n}, args.out_dtype());
      ctx.host().read(args.c, static_cast<std::size_t>(i), one.bytes(), one.size_bytes());
      if (tiled)
        unpack_blocked(one, c, i * size, args.m, args.n, blocks.tm, blocks.tn);
      else
        std::copy(one.bytes(), one.bytes() + one.size_bytes(), c.element(i * size));
      ctx.progress("reference", static_cast<double>(i) / static_cast<double>(pes));
      multiply(a, i * args.m * args.k, b, i * args.k * args.n, args.m, args.k, args.n, reference.data() + i * size);
    }
    result.numerics = compare(c, reference, gemm_tolerance(args.out_dtype()));
    ctx.output("a", a);
    ctx.output("b", b);
    ctx.output("c", c);
  }
};

}  // namespace

std::unique_ptr<Bench> make_gemm_bench() {
  return std::make_unique<GemmBench>();
}

}  // namespace kb
