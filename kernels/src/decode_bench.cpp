#include "attention_bench.h"
#include "benches.h"

#include <kb/kernels/decode.h>

namespace kb {

namespace {

using namespace attention;

ReductionPlan plan_of(const Params& params, const NeighbourGrid& grid) {
  return params.word("reduce") == "tree" ? ReductionPlan::tree(grid) : ReductionPlan::chain(grid);
}

std::vector<std::int64_t> all_heads(const Problem& problem) {
  std::vector<std::int64_t> heads;
  for (std::int64_t h = 0; h < problem.h_kv; ++h) heads.push_back(h);
  return heads;
}

/// The one query position as a block, for the packing of q and o.
std::vector<QueryBlock> one_query(const Problem& problem) {
  return {{0, 1, problem.q_start(), 1}};
}

class DecodeLongBench : public Bench {
 public:
  std::string name() const override { return "gqa-decode-long"; }

  std::string doc() const override {
    return "GQA decode, long context: the cache of every KV head lies on all C x P PEs\n"
           "Each PE folds its tokens into a partial (m, l, O); partial results are merged in each cube, then between "
           "cubes, over neighbours; the root stores o.";
  }

  std::vector<ParamSpec> params() const override { return decode_params(); }

  BenchResult run(BenchContext& ctx) const override {
    const Params& params = ctx.params();
    const MachineInfo& machine = ctx.machine();
    const Problem problem = problem_of(params);
    const std::uint32_t cubes = cubes_of(ctx, name()), pes = pes_of(ctx, name());
    const TokenPlacement placement(token_order_from_name(params.word("placement")), problem.s_kv, cubes * pes,
                                   static_cast<std::uint64_t>(params.integer("request_id")));
    const ReductionPlan in_cube = plan_of(params, {machine.pe_cols, pes});
    const ReductionPlan between = plan_of(params, {machine.cube_cols, cubes});

    LaunchOptions options;
    std::vector<std::uint32_t> roots;
    for (std::uint32_t c = 0; c < cubes; ++c) {
      std::vector<std::uint32_t> members;
      for (std::uint32_t p = 0; p < pes; ++p) members.push_back(c * machine.pes_per_cube + p);
      options.pes.insert(options.pes.end(), members.begin(), members.end());
      roots.push_back(members[in_cube.root()]);
      add_routes(in_cube, GridLevel::pe, members, options.queues);
    }
    add_routes(between, GridLevel::cube, roots, options.queues);
    const std::uint32_t root = roots[between.root()];

    const Inputs inputs = make_inputs(ctx, problem);
    const std::vector<std::int64_t> heads = all_heads(problem);
    const std::vector<QueryBlock> query = one_query(problem);
    std::vector<std::pair<std::uint32_t, Shape>> q_shards, cache_shards;
    for (std::uint32_t i = 0; i < options.pes.size(); ++i) {
      q_shards.emplace_back(options.pes[i], query_shard(problem, heads, query));
      cache_shards.emplace_back(options.pes[i], Shape{problem.h_kv, placement.count(i), problem.d});
    }
    DecodeLongArgs args{problem, placement, pes, in_cube, between, {}, {}, {}, {}};
    Host& host = ctx.host();
    args.q = host.allocate("q", problem.dtype, Space::hbm, q_shards);
    args.k = host.allocate("k", problem.dtype, Space::hbm, cache_shards);
    args.v = host.allocate("v", problem.dtype, Space::hbm, cache_shards);
    args.o = host.allocate("o", problem.dtype, Space::hbm, {{root, query_shard(problem, heads, query)}});
    for (std::uint32_t i = 0; ctx.with_data() && i < options.pes.size(); ++i) {
      const auto blocks = blocks_of(problem, problem.g, placement, i, machine.scratch_bytes);
      write_shard(host, args.q, i, pack_queries(inputs.q, problem, heads, query));
      write_shard(host, args.k, i, pack_cache(inputs.k, problem, heads, placement, i, blocks, problem.k_transposed));
      write_shard(host, args.v, i, pack_cache(inputs.v, problem, heads, placement, i, blocks, false));
    }

    BenchResult result = launch_attention(ctx, "gqa_decode_long", decode_long, args, options);
    result.extra.emplace_back("reduction_rounds_in_cube", static_cast<std::int64_t>(in_cube.rounds().size()));
    result.extra.emplace_back("reduction_rounds_between_cubes", static_cast<std::int64_t>(between.rounds().size()));
    result.extra.emplace_back("reduction_in_cube", in_cube.str());
    result.extra.emplace_back("reduction_between_cubes", between.str());
    result.extra.emplace_back("root", static_cast<std::int64_t>(root));
    if (ctx.with_data()) {
      LogicalTensor o(Shape{problem.h_q(), 1, problem.d}, problem.dtype);
      unpack_queries(read_shard(host, args.o, 0), problem, heads, query, o);
      check(ctx, problem, inputs, o, false, result);
    }
    for (const Tensor* t : {&args.q, &args.k, &args.v, &args.o}) host.free(*t);
    return result;
  }
};

class DecodeShortBench : public Bench {
 public:
  std::string name() const override { return "gqa-decode-short"; }

  std::string doc() const override {
    return "GQA decode, short context: each KV head lives on a group of PEs of one cube\n"
           "A cube holds kv_per_cube heads, each on PEs / kv_per_cube consecutive PEs that split its tokens; more "
           "heads than the C cubes hold run in turns. P is not used.";
  }

  std::vector<ParamSpec> params() const override { return decode_params(); }

  BenchResult run(BenchContext& ctx) const override {
    const Params& params = ctx.params();
    const MachineInfo& machine = ctx.machine();
    const Problem problem = problem_of(params);
    const HeadHomes homes = homes_of(ctx, name(), problem.h_kv, cubes_of(ctx, name()));
    const std::uint32_t members = homes.group_size();
    const TokenPlacement placement(token_order_from_name(params.word("placement")), problem.s_kv, members,
                                   static_cast<std::uint64_t>(params.integer("request_id")));
    const ReductionPlan in_group = plan_of(params, {machine.pe_cols, members});

    LaunchOptions options;
    const Inputs inputs = make_inputs(ctx, problem);
    const std::vector<QueryBlock> query = one_query(problem);
    std::vector<std::pair<std::uint32_t, Shape>> q_shards, cache_shards, o_shards;
    struct Home {
      std::uint32_t cell = 0;
      std::vector<std::int64_t> heads;
    };
    std::vector<Home> home_of;
    for (std::uint32_t c = 0; c < homes.cubes; ++c) {
      for (std::uint32_t p = 0; p < machine.pes_per_cube; ++p) {
        const std::uint32_t rank = c * machine.pes_per_cube + p, cell = p % members;
        const std::vector<std::int64_t> heads = homes.heads(homes.slot(c, p));
        options.pes.push_back(rank);
        home_of.push_back({cell, heads});
        q_shards.emplace_back(rank, query_shard(problem, heads, query));
        cache_shards.emplace_back(rank,
                                  Shape{static_cast<std::int64_t>(heads.size()), placement.count(cell), problem.d});
        if (cell == in_group.root()) o_shards.emplace_back(rank, query_shard(problem, heads, query));
        if (cell == 0) {
          std::vector<std::uint32_t> ranks;
          for (std::uint32_t i = 0; i < members; ++i) ranks.push_back(rank + i);
          add_routes(in_group, GridLevel::pe, ranks, options.queues);
        }
      }
    }
    DecodeShortArgs args{problem, homes, placement, in_group, {}, {}, {}, {}};
    Host& host = ctx.host();
    args.q = host.allocate("q", problem.dtype, Space::hbm, q_shards);
    args.k = host.allocate("k", problem.dtype, Space::hbm, cache_shards);
    args.v = host.allocate("v", problem.dtype, Space::hbm, cache_shards);
    args.o = host.allocate("o", problem.dtype, Space::hbm, o_shards);
    for (std::size_t i = 0; ctx.with_data() && i < home_of.size(); ++i) {
      const auto& [cell, heads] = home_of[i];
      const auto blocks = blocks_of(problem, problem.g, placement, cell, machine.scratch_bytes);
      write_shard(host, args.q, i, pack_queries(inputs.q, problem, heads, query));
      write_shard(host, args.k, i, pack_cache(inputs.k, problem, heads, placement, cell, blocks, problem.k_transposed));
      write_shard(host, args.v, i, pack_cache(inputs.v, problem, heads, placement, cell, blocks, false));
    }

    BenchResult result = launch_attention(ctx, "gqa_decode_short", decode_short, args, options);
    result.extra.emplace_back("pes_per_head", static_cast<std::int64_t>(members));
    result.extra.emplace_back("turns", (problem.h_kv + homes.slots() - 1) / homes.slots());
    result.extra.emplace_back("reduction_rounds", static_cast<std::int64_t>(in_group.rounds().size()));
    result.extra.emplace_back("reduction", in_group.str());
    if (ctx.with_data()) {
      LogicalTensor o(Shape{problem.h_q(), 1, problem.d}, problem.dtype);
      std::size_t shard = 0;
      for (const auto& home : home_of)
        if (home.cell == in_group.root())
          unpack_queries(read_shard(host, args.o, shard++), problem, home.heads, query, o);
      check(ctx, problem, inputs, o, false, result);
    }
    for (const Tensor* t : {&args.q, &args.k, &args.v, &args.o}) host.free(*t);
    return result;
  }
};

}  // namespace

std::unique_ptr<Bench> make_decode_long_bench() {
  return std::make_unique<DecodeLongBench>();
}
std::unique_ptr<Bench> make_decode_short_bench() {
  return std::make_unique<DecodeShortBench>();
}

}  // namespace kb
