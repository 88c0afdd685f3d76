#include "attention_bench.h"
#include "benches.h"

#include <kb/kernels/decode.h>
#include <kb/kernels/launch.h>
#include <kb/kernels/placement.h>
#include <kb/tlm_if/errors.h>

namespace kb {

namespace {

using namespace attention;

class DecodeLongBench : public Bench {
 public:
  std::string name() const override { return "gqa-decode-long"; }

  std::string doc() const override {
    return "GQA decode, long context: the cache of every KV head lies on all C x P PEs\n"
           "Each PE folds its tokens into a partial (m, l, O); partial results are merged in each cube, then between "
           "cubes, over neighbours; the root stores o.";
  }

  std::vector<ParamSpec> params() const override { return common_params("round_robin"); }

  BenchResult run(BenchContext& ctx) const override {
    const Params& params = ctx.params();
    const Problem problem = problem_of(params);
    const auto cubes = static_cast<std::uint32_t>(params.integer("C"));
    const auto pes = static_cast<std::uint32_t>(params.integer("P"));
    const MachineInfo& machine = ctx.machine();
    if (cubes > machine.cubes_per_sip())
      throw InputError("bench gqa-decode-long, parameter C: found " + std::to_string(cubes) + "; allowed: 1 .. " +
                       std::to_string(machine.cubes_per_sip()) + " on this topology (cubes of one SIP)");
    if (pes > machine.pes_per_cube)
      throw InputError("bench gqa-decode-long, parameter P: found " + std::to_string(pes) + "; allowed: 1 .. " +
                       std::to_string(machine.pes_per_cube) + " on this topology");

    const TokenPlacement placement(token_order_from_name(params.word("placement")), problem.s_kv, cubes * pes,
                                   static_cast<std::uint64_t>(params.integer("request_id")));
    const auto plan = [tree = params.word("reduce") == "tree"](const NeighbourGrid& grid) {
      return tree ? ReductionPlan::tree(grid) : ReductionPlan::chain(grid);
    };
    const ReductionPlan in_cube = plan(NeighbourGrid{machine.pe_cols, pes});
    const ReductionPlan between = plan(NeighbourGrid{machine.cube_cols, cubes});

    LaunchOptions options;
    const auto rank = [&machine](std::uint32_t cube, std::uint32_t pe) { return cube * machine.pes_per_cube + pe; };
    std::vector<std::uint32_t> roots;
    for (std::uint32_t c = 0; c < cubes; ++c) {
      std::vector<std::uint32_t> members;
      for (std::uint32_t p = 0; p < pes; ++p) members.push_back(rank(c, p));
      options.pes.insert(options.pes.end(), members.begin(), members.end());
      roots.push_back(members[in_cube.root()]);
      add_routes(in_cube, GridLevel::pe, members, options.queues);
    }
    add_routes(between, GridLevel::cube, roots, options.queues);
    const std::uint32_t root = roots[between.root()];

    const Inputs inputs = make_inputs(ctx, problem);
    const std::int64_t rows = problem.g;
    std::vector<std::pair<std::uint32_t, Shape>> cache_shards;
    for (std::uint32_t i = 0; i < options.pes.size(); ++i)
      cache_shards.emplace_back(options.pes[i], Shape{problem.h_kv, placement.count(i), problem.d});
    const Shape flat{problem.h_q(), problem.d};
    DecodeLongArgs args{problem, placement, pes, in_cube, between, {}, {}, {}, {}};
    const Placement q_placement(flat, Split::replicate, options.pes);
    args.q = empty(ctx.host(), "q", problem.dtype, q_placement);
    args.k = ctx.host().allocate("k", problem.dtype, Space::hbm, cache_shards);
    args.v = ctx.host().allocate("v", problem.dtype, Space::hbm, cache_shards);
    args.o = ctx.host().allocate("o", problem.dtype, Space::hbm, {{root, flat}});
    if (ctx.with_data()) {
      for (std::size_t i = 0; i < options.pes.size(); ++i)
        ctx.host().write(args.q, i, inputs.q.bytes(), inputs.q.size_bytes());
      for (std::uint32_t i = 0; i < options.pes.size(); ++i) {
        const auto blocks = blocks_of(problem, rows, placement, i, machine.scratch_bytes);
        write_cache(ctx, problem, inputs.k, args.k, placement, i, blocks, problem.k_transposed);
        write_cache(ctx, problem, inputs.v, args.v, placement, i, blocks, false);
      }
    }

    BenchResult result;
    ctx.progress("decode");
    result.launches.push_back(
        {"decode-long", ctx.host().launch(tl::bind_kernel("gqa_decode_long", decode_long, args), options)});
    const LaunchResult& launch = result.launches.back().result;
    result.latency_ns = ns_from_ps(launch.latency());
    result.verdict = bound_sentence(launch);
    add_counters(launch, result);
    result.extra.emplace_back("reduction_rounds_in_cube", static_cast<std::int64_t>(in_cube.rounds().size()));
    result.extra.emplace_back("reduction_rounds_between_cubes", static_cast<std::int64_t>(between.rounds().size()));
    result.extra.emplace_back("reduction_in_cube", in_cube.str());
    result.extra.emplace_back("reduction_between_cubes", between.str());
    result.extra.emplace_back("root", static_cast<std::int64_t>(root));

    if (ctx.with_data()) {
      LogicalTensor o(Shape{problem.h_q(), 1, problem.d}, problem.dtype);
      ctx.host().read(args.o, 0, o.bytes(), o.size_bytes());
      check(ctx, problem, inputs, o, false, result);
    }
    for (const Tensor* t : {&args.q, &args.k, &args.v, &args.o}) ctx.host().free(*t);
    return result;
  }

 private:
  /// Writes PE `pe`'s tokens of all heads, block after block.
  static void write_cache(BenchContext& ctx, const Problem& problem, const LogicalTensor& cache, const Tensor& tensor,
                          const TokenPlacement& placement, std::uint32_t pe, const std::vector<TokenBlock>& blocks,
                          bool transposed) {
    const std::int64_t local = placement.count(pe);
    const auto row_bytes = static_cast<std::size_t>(problem.d) * size_of(problem.dtype);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(problem.h_kv * local) * row_bytes);
    if (bytes.empty()) return;
    for (std::int64_t head = 0; head < problem.h_kv; ++head) {
      for (const auto& b : blocks) {
        std::vector<std::int64_t> tokens;
        for (std::int64_t t = b.local; t < b.local + b.count; ++t) tokens.push_back(placement.global(pe, t));
        copy_tokens(cache, problem, head, tokens, transposed,
                    bytes.data() + static_cast<std::size_t>(head * local + b.local) * row_bytes);
      }
    }
    ctx.host().write(tensor, pe, bytes.data(), bytes.size());
  }
};

}  // namespace

std::unique_ptr<Bench> make_decode_long_bench() {
  return std::make_unique<DecodeLongBench>();
}

}  // namespace kb
