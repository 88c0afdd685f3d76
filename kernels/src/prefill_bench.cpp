#include "attention_bench.h"
#include "benches.h"

#include <kb/kernels/collectives/queue_set.h>
#include <kb/kernels/prefill.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {

using namespace attention;

/// (query block, tile) pairs that are computed for one head.
std::int64_t computed_tiles(const std::vector<QueryBlock>& blocks, const TokenPlacement& keys, std::int64_t tile,
                            bool causal) {
  std::int64_t n = 0;
  for (std::uint32_t owner = 0; owner < keys.pes(); ++owner)
    for (const auto& t : keys.tiles(owner, tile)) {
      const KeySpan span = keys_of(keys, owner, t);
      for (const auto& b : blocks) n += visible(b, span, causal) ? 1 : 0;
    }
  return n;
}

class PrefillShortBench : public Bench {
 public:
  std::string name() const override { return "gqa-prefill-short"; }

  std::string doc() const override {
    return "GQA prefill, short context: each KV head lives on a group of PEs of one cube\n"
           "Homes as in gqa-decode-short. The group's PEs take the head's query blocks round-robin and read K and V "
           "from their owners; tiles after a block's last query are skipped, boundary tiles masked. P is not used.";
  }

  std::vector<ParamSpec> params() const override { return prefill_params("round_robin"); }

  BenchResult run(BenchContext& ctx) const override {
    const Params& params = ctx.params();
    const MachineInfo& machine = ctx.machine();
    Problem problem = problem_of(params);
    const PrefillShape shape = prefill_shape_of(ctx, name(), problem);
    const HeadHomes homes = homes_of(ctx, name(), problem.h_kv, cubes_of(ctx, name()));
    const std::uint32_t members = homes.group_size();
    const TokenPlacement placement(token_order_from_name(params.word("placement")), problem.s_kv, members,
                                   static_cast<std::uint64_t>(params.integer("request_id")));
    PrefillShortArgs args{problem, homes, placement, shape.q_block, shape.causal, {}, {}, {}, {}};

    LaunchOptions options;
    const Inputs inputs = make_inputs(ctx, problem);
    std::vector<std::pair<std::uint32_t, Shape>> q_shards, cache_shards;
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
        q_shards.emplace_back(rank, query_shard(problem, heads, args.query_blocks(cell)));
        cache_shards.emplace_back(rank,
                                  Shape{static_cast<std::int64_t>(heads.size()), placement.count(cell), problem.d});
      }
    }
    Host& host = ctx.host();
    args.q = host.allocate("q", problem.dtype, Space::hbm, q_shards);
    args.k = host.allocate("k", problem.dtype, Space::hbm, cache_shards);
    args.v = host.allocate("v", problem.dtype, Space::hbm, cache_shards);
    args.o = host.allocate("o", problem.dtype, Space::hbm, q_shards);
    for (std::size_t i = 0; ctx.with_data() && i < home_of.size(); ++i) {
      const auto& [cell, heads] = home_of[i];
      const auto tiles = placement.tiles(cell, problem.tile);
      write_shard(host, args.q, i, pack_queries(inputs.q, problem, heads, args.query_blocks(cell)));
      write_shard(host, args.k, i, pack_cache(inputs.k, problem, heads, placement, cell, tiles, problem.k_transposed));
      write_shard(host, args.v, i, pack_cache(inputs.v, problem, heads, placement, cell, tiles, false));
    }

    BenchResult result = launch_attention(ctx, "gqa_prefill_short", prefill_short, args, options);
    std::int64_t tiles = 0, query_blocks = 0;
    for (std::uint32_t cell = 0; cell < members; ++cell) {
      tiles += computed_tiles(args.query_blocks(cell), placement, problem.tile, shape.causal);
      query_blocks += static_cast<std::int64_t>(args.query_blocks(cell).size());
    }
    result.extra.emplace_back("pes_per_head", static_cast<std::int64_t>(members));
    result.extra.emplace_back("turns", (problem.h_kv + homes.slots() - 1) / homes.slots());
    result.extra.emplace_back("query_blocks_per_head", query_blocks);
    result.extra.emplace_back("tiles_computed_per_head", tiles);
    if (ctx.with_data()) {
      LogicalTensor o(Shape{problem.h_q(), problem.t_q, problem.d}, problem.dtype);
      for (std::size_t i = 0; i < home_of.size(); ++i)
        unpack_queries(read_shard(host, args.o, i), problem, home_of[i].heads, args.query_blocks(home_of[i].cell), o);
      check(ctx, problem, inputs, o, shape.causal, result);
    }
    for (const Tensor* t : {&args.q, &args.k, &args.v, &args.o}) host.free(*t);
    return result;
  }
};

class PrefillLongBench : public Bench {
 public:
  std::string name() const override { return "gqa-prefill-long"; }

  std::string doc() const override {
    return "GQA prefill, long context: the sequence lies on C cubes, KV blocks move around a ring of them\n"
           "Head h is worked on by PE h mod P of each cube. Cubes follow each other in snake order. A block moves as "
           "far as the last cube that needs it; steps that the causal mask hides whole are skipped.";
  }

  std::vector<ParamSpec> params() const override { return prefill_params("contiguous"); }

  BenchResult run(BenchContext& ctx) const override {
    const Params& params = ctx.params();
    const MachineInfo& machine = ctx.machine();
    Problem problem = problem_of(params);
    const PrefillShape shape = prefill_shape_of(ctx, name(), problem);
    const std::uint32_t cubes = cubes_of(ctx, name()), pes = pes_of(ctx, name());
    const TokenOrder order = token_order_from_name(params.word("placement"));
    const auto request = static_cast<std::uint64_t>(params.integer("request_id"));
    const std::vector<std::uint32_t> cube_of_rank = collectives::snake_cells(machine.cube_cols, cubes);
    PrefillLongArgs args{problem,
                         TokenPlacement(order, problem.s_kv, cubes, request),
                         TokenPlacement(order, problem.t_q, cubes, request),
                         std::vector<std::uint32_t>(cubes),
                         pes,
                         shape.q_block,
                         shape.causal,
                         {},
                         {},
                         {},
                         {},
                         {},
                         {},
                         {},
                         {},
                         {}};
    for (std::uint32_t r = 0; r < cubes; ++r) args.rank_of_cube[cube_of_rank[r]] = r;
    check_tcm(ctx, problem, order, cubes, request);

    const RingSchedule ring(args.keys, args.queries, shape.causal);
    collectives::QueueSet queues(machine);
    for (std::uint32_t p = 0; p < std::min<std::int64_t>(pes, problem.h_kv); ++p)
      for (std::uint32_t r = 0; r < cubes; ++r)
        if (link_used(ring, r))
          queues.connect(cube_of_rank[r] * machine.pes_per_cube + p, Direction::E,
                         cube_of_rank[(r + 1) % cubes] * machine.pes_per_cube + p, Direction::W);
    LaunchOptions options;
    options.queues = queues.routes();

    const Inputs inputs = make_inputs(ctx, problem);
    std::vector<std::pair<std::uint32_t, Shape>> q_shards, cache_shards, rows_d, rows_1, buffers;
    for (std::uint32_t c = 0; c < cubes; ++c) {
      const std::uint32_t r = args.rank_of_cube[c];
      const std::int64_t rows = problem.g * args.queries.count(r);
      for (std::uint32_t p = 0; p < pes; ++p) {
        const std::uint32_t rank = c * machine.pes_per_cube + p;
        const std::vector<std::int64_t> heads = args.heads(p);
        options.pes.push_back(rank);
        q_shards.emplace_back(rank, query_shard(problem, heads, args.query_blocks(r)));
        cache_shards.emplace_back(rank, Shape{static_cast<std::int64_t>(heads.size()), args.keys.count(r), problem.d});
        rows_d.emplace_back(rank, Shape{rows, problem.d});
        rows_1.emplace_back(rank, Shape{rows, 1});
        buffers.emplace_back(rank, Shape{kRingBuffers, 2 * problem.tile * problem.d});
      }
    }
    Host& host = ctx.host();
    args.q = host.allocate("q", problem.dtype, Space::hbm, q_shards);
    args.k = host.allocate("k", problem.dtype, Space::hbm, cache_shards);
    args.v = host.allocate("v", problem.dtype, Space::hbm, cache_shards);
    args.o = host.allocate("o", problem.dtype, Space::hbm, q_shards);
    args.q_tcm = host.allocate("q_tcm", problem.dtype, Space::tcm, rows_d);
    args.m = host.allocate("m", DType::f32, Space::tcm, rows_1);
    args.l = host.allocate("l", DType::f32, Space::tcm, rows_1);
    args.o_acc = host.allocate("o_acc", DType::f32, Space::tcm, rows_d);
    args.ring = host.allocate("ring", problem.dtype, Space::tcm, buffers);
    for (std::size_t i = 0; ctx.with_data() && i < options.pes.size(); ++i) {
      const auto [r, heads] = place_of(args, machine, options.pes[i]);
      const auto tiles = args.keys.tiles(r, problem.tile);
      write_shard(host, args.q, i, pack_queries(inputs.q, problem, heads, args.query_blocks(r)));
      write_shard(host, args.k, i, pack_cache(inputs.k, problem, heads, args.keys, r, tiles, problem.k_transposed));
      write_shard(host, args.v, i, pack_cache(inputs.v, problem, heads, args.keys, r, tiles, false));
    }

    BenchResult result = launch_attention(ctx, "gqa_prefill_long", prefill_long, args, options);
    std::int64_t tiles = 0;
    for (std::uint32_t r = 0; r < cubes; ++r)
      for (std::uint32_t b = 0; b < cubes; ++b)
        if (ring.needed(r, b)) {
          for (const auto& t : args.keys.tiles(b, problem.tile))
            for (const auto& q : args.query_blocks(r))
              tiles += visible(q, keys_of(args.keys, b, t), shape.causal) ? 1 : 0;
        }
    const auto computations = static_cast<std::int64_t>(ring.computations());
    result.extra.emplace_back("block_computations_per_head", computations);
    result.extra.emplace_back("block_computations_skipped_per_head",
                              static_cast<std::int64_t>(cubes) * cubes - computations);
    result.extra.emplace_back("block_transfers_per_head", static_cast<std::int64_t>(ring.transfers()));
    result.extra.emplace_back("tiles_computed_per_head", tiles);
    std::string routed;
    for (const auto& q : queues.routed())
      routed += (routed.empty() ? "" : "; ") + collectives::describe_path(machine, q.from, q.to);
    if (!routed.empty()) result.extra.emplace_back("links_over_several_hops", routed);
    if (ctx.with_data()) {
      LogicalTensor o(Shape{problem.h_q(), problem.t_q, problem.d}, problem.dtype);
      for (std::size_t i = 0; i < options.pes.size(); ++i) {
        const auto [r, heads] = place_of(args, machine, options.pes[i]);
        unpack_queries(read_shard(host, args.o, i), problem, heads, args.query_blocks(r), o);
      }
      check(ctx, problem, inputs, o, shape.causal, result);
    }
    for (const Tensor* t : {&args.q, &args.k, &args.v, &args.o, &args.q_tcm, &args.m, &args.l, &args.o_acc, &args.ring})
      host.free(*t);
    return result;
  }

 private:
  struct Place {
    std::uint32_t ring_rank = 0;
    std::vector<std::int64_t> heads;
  };
  static Place place_of(const PrefillLongArgs& args, const MachineInfo& machine, std::uint32_t rank) {
    return {args.rank_of_cube[rank / machine.pes_per_cube], args.heads(rank % machine.pes_per_cube)};
  }

  /// Whether any block moves from ring rank r to the next.
  static bool link_used(const RingSchedule& ring, std::uint32_t r) {
    for (std::uint32_t step = 0; step + 1 < ring.ranks(); ++step)
      if (step < ring.reach(ring.block_at(r, step))) return true;
    return false;
  }

  /// TCM that a PE needs outside scratch: queries and state of one head on the fullest rank, and the ring buffers.
  static std::uint64_t tcm_needed(const Problem& p, TokenOrder order, std::uint32_t cubes, std::uint64_t request,
                                  std::int64_t t_q) {
    const TokenPlacement queries(order, t_q, cubes, request);
    std::int64_t most = 0;
    for (std::uint32_t r = 0; r < cubes; ++r) most = std::max(most, queries.count(r));
    const auto rows = static_cast<std::uint64_t>(p.g * most), d = static_cast<std::uint64_t>(p.d);
    const std::uint64_t element = size_of(p.dtype);
    const auto aligned = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
    return aligned(rows * d * element) + 2 * aligned(rows * 4) + aligned(rows * d * 4) +
           aligned(static_cast<std::uint64_t>(kRingBuffers * 2 * p.tile) * d * element);
  }

  static void check_tcm(const BenchContext& ctx, const Problem& p, TokenOrder order, std::uint32_t cubes,
                        std::uint64_t request) {
    const std::uint64_t room = ctx.machine().tcm_bytes - ctx.machine().scratch_bytes;
    const std::uint64_t needed = tcm_needed(p, order, cubes, request, p.t_q);
    if (needed <= room) return;
    // Largest T_q that fits, by bisection; 0 when not even the buffers do.
    std::int64_t fits = 0, fails = p.t_q;
    while (fails - fits > 1) {
      const std::int64_t middle = fits + (fails - fits) / 2;
      (tcm_needed(p, order, cubes, request, middle) <= room ? fits : fails) = middle;
    }
    throw InputError("bench gqa-prefill-long, parameter T_q: found " + std::to_string(p.t_q) + ", which needs " +
                     std::to_string(needed) + " B of TCM per PE beside scratch; allowed: " +
                     (fits == 0 ? "none; a smaller tile, d or G" : "1 .. " + std::to_string(fits)) + " (" +
                     std::to_string(room) + " B)");
  }
};

}  // namespace

std::unique_ptr<Bench> make_prefill_short_bench() {
  return std::make_unique<PrefillShortBench>();
}
std::unique_ptr<Bench> make_prefill_long_bench() {
  return std::make_unique<PrefillLongBench>();
}

}  // namespace kb
