#include <kb/kernels/prefill.h>

#include <algorithm>

namespace kb::attention {

using tl::Context;
using tl::Handle;
using tl::into;

bool visible(const QueryBlock& queries, const KeySpan& keys, bool causal) {
  return !causal || keys.first <= queries.last();
}

std::optional<tl::CausalWindow> mask_of(const QueryBlock& queries, const KeySpan& keys, bool causal) {
  if (!causal || keys.last() <= queries.first) return std::nullopt;
  return tl::CausalWindow{queries.first, keys.first, queries.count, queries.stride, keys.stride};
}

KeySpan keys_of(const TokenPlacement& placement, std::uint32_t place, const TokenBlock& tile) {
  const std::int64_t stride = placement.order() == TokenOrder::round_robin ? placement.pes() : 1;
  return {placement.global(place, tile.local), tile.count, stride};
}

// ---- short ----------------------------------------------------------------------------------------------------

std::vector<QueryBlock> PrefillShortArgs::query_blocks(std::uint32_t cell) const {
  std::vector<QueryBlock> all;
  const std::int64_t stride = static_cast<std::int64_t>(homes.group_size()) * q_block;
  std::int64_t local = 0;
  for (std::int64_t first = cell * q_block; first < problem.t_q; first += stride) {
    const std::int64_t count = std::min(q_block, problem.t_q - first);
    all.push_back({local, count, problem.q_start() + first, 1});
    local += count;
  }
  return all;
}

void prefill_short(Context& tl, const PrefillShortArgs& args) {
  const Problem& p = args.problem;
  const std::uint32_t pe = tl.program_id(0), members = args.homes.group_size(), cell = pe % members;
  const std::uint32_t group_rank = tl.rank() - cell;
  const auto heads = static_cast<std::int64_t>(args.homes.heads(args.homes.slot(tl.program_id(1), pe)).size());
  const std::vector<QueryBlock> blocks = args.query_blocks(cell);
  if (blocks.empty() || heads == 0) return;
  const std::int64_t queries = blocks.back().local + blocks.back().count;
  const std::uint64_t element = size_of(p.dtype);
  const std::uint64_t q_base = tl.shard_of(args.q).addr, o_base = tl.shard_of(args.o).addr;

  struct Owner {
    std::uint64_t k = 0, v = 0;
    std::int64_t local = 0;
    std::uint32_t cell = 0;
    std::vector<TokenBlock> tiles;
  };
  // Beginning with itself, so that the PEs of a group read from different owners.
  std::vector<Owner> owners;
  for (std::uint32_t i = 0; i < members; ++i) {
    const std::uint32_t owner = (cell + i) % members;
    const auto addr_of = [&](const Tensor& tensor) {
      for (const auto& shard : tensor.shards)
        if (shard.pe == group_rank + owner) return shard.addr;
      return std::uint64_t{0};
    };
    owners.push_back(
        {addr_of(args.k), addr_of(args.v), args.placement.count(owner), owner, args.placement.tiles(owner, p.tile)});
  }

  const State whole = make_state(tl, p.g * std::min(args.q_block, p.t_q), p.d);
  for (std::int64_t head = 0; head < heads; ++head) {
    for (const auto& block : blocks) {
      const auto scope = tl.scratch_scope("query block");
      const std::int64_t rows = p.g * block.count;
      const State state{tl.slice(whole.m, 0, {rows, 1}), tl.slice(whole.l, 0, {rows, 1}),
                        tl.slice(whole.o, 0, {rows, p.d})};
      const auto at = static_cast<std::uint64_t>((head * queries + block.local) * p.g * p.d) * element;
      const Handle q = tl.load(q_base + at, {rows, p.d}, p.dtype);
      reset(tl, state);
      std::vector<KvTile> tiles;
      for (const auto& owner : owners) {
        for (const auto& t : owner.tiles) {
          const KeySpan keys = keys_of(args.placement, owner.cell, t);
          if (!visible(block, keys, args.causal)) continue;
          const auto kv_at = static_cast<std::uint64_t>((head * owner.local + t.local) * p.d) * element;
          tiles.push_back({owner.k + kv_at, owner.v + kv_at, t.count, false, mask_of(block, keys, args.causal)});
        }
      }
      fold(tl, p, q, state, tiles);
      tl.store(o_base + at, normalised(tl, state, p.dtype));
    }
  }
}

// ---- long -----------------------------------------------------------------------------------------------------

RingSchedule::RingSchedule(const TokenPlacement& keys, const TokenPlacement& queries, bool causal)
    : keys_(keys), queries_(queries), causal_(causal) {
  for (std::uint32_t block = 0; block < ranks(); ++block) {
    std::uint32_t reach = 0;
    for (std::uint32_t step = 1; step < ranks(); ++step)
      if (needed((block + step) % ranks(), block)) reach = step;
    reach_.push_back(reach);
  }
}

bool RingSchedule::needed(std::uint32_t rank, std::uint32_t block) const {
  const std::int64_t mine = queries_.count(rank);
  if (mine == 0 || keys_.count(block) == 0) return false;
  const std::int64_t last_query = keys_.tokens() - queries_.tokens() + queries_.global(rank, mine - 1);
  return !causal_ || keys_.global(block, 0) <= last_query;
}

std::uint32_t RingSchedule::reach(std::uint32_t block) const {
  return reach_[block];
}

std::uint64_t RingSchedule::computations() const {
  std::uint64_t n = 0;
  for (std::uint32_t r = 0; r < ranks(); ++r)
    for (std::uint32_t b = 0; b < ranks(); ++b) n += needed(r, b) ? 1 : 0;
  return n;
}

std::uint64_t RingSchedule::transfers() const {
  std::uint64_t n = 0;
  for (const std::uint32_t r : reach_) n += r;
  return n;
}

std::vector<QueryBlock> PrefillLongArgs::query_blocks(std::uint32_t rank) const {
  std::vector<QueryBlock> all;
  const std::int64_t stride = queries.order() == TokenOrder::round_robin ? queries.pes() : 1;
  for (const auto& t : queries.tiles(rank, q_block))
    all.push_back({t.local, t.count, problem.q_start() + queries.global(rank, t.local), stride});
  return all;
}

std::vector<std::int64_t> PrefillLongArgs::heads(std::uint32_t pe) const {
  std::vector<std::int64_t> all;
  for (std::int64_t h = pe; h < problem.h_kv; h += pes) all.push_back(h);
  return all;
}

namespace {

/// A piece of KV that passes through a rank.
struct SubBlock {
  std::uint32_t block = 0;  // owner's rank
  TokenBlock tokens;
  bool own = false;  // loaded from HBM; otherwise received
  bool compute = false;
  bool forward = false;
};

std::vector<SubBlock> passing_through(const PrefillLongArgs& args, const RingSchedule& ring, std::uint32_t rank) {
  std::vector<SubBlock> all;
  for (std::uint32_t step = 0; step < ring.ranks(); ++step) {
    const std::uint32_t block = ring.block_at(rank, step);
    const bool compute = ring.needed(rank, block), forward = step < ring.reach(block);
    if (step == 0 ? !compute && !forward : step > ring.reach(block)) continue;
    for (const auto& t : args.keys.tiles(block, args.problem.tile))
      all.push_back({block, t, step == 0, compute, forward});
  }
  return all;
}

}  // namespace

void prefill_long(Context& tl, const PrefillLongArgs& args) {
  const Problem& p = args.problem;
  const std::uint32_t pe = tl.program_id(0), rank = args.rank_of_cube[tl.program_id(1)];
  const RingSchedule ring(args.keys, args.queries, args.causal);
  const std::vector<SubBlock> stream = passing_through(args, ring, rank);
  const std::vector<QueryBlock> blocks = args.query_blocks(rank);
  const std::int64_t queries = args.queries.count(rank), keys = args.keys.count(rank);
  const std::int64_t rows = p.g * queries, half = p.tile * p.d;
  const std::uint64_t element = size_of(p.dtype);
  const auto heads = static_cast<std::int64_t>(args.heads(pe).size());

  // Nothing is held for a rank without queries; it forwards only.
  Handle q_all;
  State all;
  if (queries > 0) {
    q_all = tl.resident(tl.shard_of(args.q_tcm).addr, {rows, p.d}, p.dtype);
    all = {tl.resident(tl.shard_of(args.m).addr, {rows, 1}, DType::f32),
           tl.resident(tl.shard_of(args.l).addr, {rows, 1}, DType::f32),
           tl.resident(tl.shard_of(args.o_acc).addr, {rows, p.d}, DType::f32)};
  }
  const std::uint64_t ring_base = tl.shard_of(args.ring).addr;

  for (std::int64_t head = 0; head < heads; ++head) {
    std::vector<Step> rows_of_block;  // queries and state of each query block, without a tile
    if (queries > 0) {
      const auto at = static_cast<std::uint64_t>(head * rows * p.d) * element;
      tl.load(tl.shard_of(args.q).addr + at, {rows, p.d}, p.dtype, into(q_all));
      reset(tl, all);
      for (const auto& b : blocks) {
        const std::int64_t first = p.g * b.local, n = p.g * b.count;
        rows_of_block.push_back(
            {tl.slice(q_all, first * p.d, {n, p.d}),
             {tl.slice(all.m, first, {n, 1}), tl.slice(all.l, first, {n, 1}), tl.slice(all.o, first * p.d, {n, p.d})},
             {}});
      }
    }

    // K and then V of a sub-block lie one after the other in its buffer, and travel as one message.
    const auto buffer_of = [&](std::size_t i) {
      return ring_base + static_cast<std::uint64_t>(static_cast<std::int64_t>(i) % kRingBuffers * 2 * half) * element;
    };
    const auto message_of = [&](std::size_t i) {
      return tl.resident(buffer_of(i), {2 * stream[i].tokens.count * p.d}, p.dtype);
    };
    std::vector<Handle> arriving(stream.size());
    const auto fetch = [&](std::size_t i) {
      const SubBlock& s = stream[i];
      const Handle message = message_of(i);
      const std::int64_t size = s.tokens.count * p.d;
      if (!s.own) {
        arriving[i] = tl.recv_async(Direction::W, message.shape(), p.dtype, into(message));
        return;
      }
      const auto at = static_cast<std::uint64_t>((head * keys + s.tokens.local) * p.d) * element;
      tl.load(tl.shard_of(args.k).addr + at, {size}, p.dtype, into(tl.slice(message, 0, {size})));
      arriving[i] = tl.load(tl.shard_of(args.v).addr + at, {size}, p.dtype, into(tl.slice(message, size, {size})));
    };
    // Two sub-blocks are under way while one is used and the commands of the one before may still run.
    constexpr std::size_t kAhead = 2;
    for (std::size_t i = 0; i < std::min(kAhead, stream.size()); ++i) fetch(i);
    for (std::size_t i = 0; i < stream.size(); ++i) {
      const SubBlock& s = stream[i];
      if (i + kAhead < stream.size()) fetch(i + kAhead);
      if (!s.own) tl.wait(arriving[i]);
      const Handle message = message_of(i);
      if (s.forward) tl.send(Direction::E, message, message.bytes() > tl.machine().ipcq_slot_bytes);
      if (!s.compute) continue;
      const KeySpan span = keys_of(args.keys, s.block, s.tokens);
      std::vector<Step> steps;
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        if (!visible(blocks[b], span, args.causal)) continue;
        Step step = rows_of_block[b];
        const std::uint64_t k_at = buffer_of(i);
        step.tile = {k_at, k_at + static_cast<std::uint64_t>(s.tokens.count * p.d) * element, s.tokens.count, true,
                     mask_of(blocks[b], span, args.causal)};
        steps.push_back(std::move(step));
      }
      fold(tl, p, steps);
    }

    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto scope = tl.scratch_scope("result");
      const auto at = static_cast<std::uint64_t>((head * queries + blocks[b].local) * p.g * p.d) * element;
      tl.store(tl.shard_of(args.o).addr + at, normalised(tl, rows_of_block[b].state, p.dtype));
    }
  }
}

}  // namespace kb::attention
