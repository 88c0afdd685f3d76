#include <kb/kernels/decode.h>

namespace kb::attention {

using tl::Context;

namespace {

/// Folds this PE's tokens of its `index`-th head into a state that starts anew. Without tokens the state keeps its
/// start and no query is loaded.
void fold_local(Context& tl, const Problem& p, const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t index,
                std::int64_t local, const std::vector<TokenBlock>& blocks, const State& state) {
  reset(tl, state);
  if (blocks.empty()) return;
  const std::int64_t rows = p.g * p.t_q;
  const std::uint64_t element = size_of(p.dtype);
  const std::uint64_t q_addr = tl.shard_of(q).addr + static_cast<std::uint64_t>(index * rows * p.d) * element;
  const std::uint64_t k_base = tl.shard_of(k).addr, v_base = tl.shard_of(v).addr;
  std::vector<KvTile> tiles;
  for (const auto& b : blocks) {
    // A block's first byte is the same whichever way its elements lie.
    const std::uint64_t at = static_cast<std::uint64_t>((index * local + b.local) * p.d) * element;
    tiles.push_back({k_base + at, v_base + at, b.count, false, {}});
  }
  fold(tl, p, tl.load(q_addr, {rows, p.d}, p.dtype), state, tiles);
}

void store_result(Context& tl, const Problem& p, const Tensor& o, std::int64_t index, const State& state) {
  const auto at = static_cast<std::uint64_t>(index * p.g * p.t_q * p.d) * size_of(p.dtype);
  tl.store(tl.shard_of(o).addr + at, normalised(tl, state, p.dtype));
}

}  // namespace

void decode_long(Context& tl, const DecodeLongArgs& args) {
  const Problem& p = args.problem;
  const std::uint32_t pe = tl.program_id(0), cube = tl.program_id(1), place = cube * args.pes + pe;
  const std::int64_t rows = p.g * p.t_q, local = args.placement.count(place);
  const bool cube_root = pe == args.in_cube.root(), root = cube_root && cube == args.between.root();
  const std::vector<TokenBlock> blocks = blocks_of(p, rows, args.placement, place, tl.scratch().capacity());

  const State state = make_state(tl, rows, p.d);
  for (std::int64_t head = 0; head < p.h_kv; ++head) {
    const auto scope = tl.scratch_scope("head");
    fold_local(tl, p, args.q, args.k, args.v, head, local, blocks, state);
    reduce(tl, args.in_cube, pe, GridLevel::pe, state);
    if (cube_root) reduce(tl, args.between, cube, GridLevel::cube, state);
    if (root) store_result(tl, p, args.o, head, state);
  }
}

std::vector<std::int64_t> HeadHomes::heads(std::int64_t slot) const {
  std::vector<std::int64_t> all;
  for (std::int64_t h = slot; h < h_kv; h += slots()) all.push_back(h);
  return all;
}

void decode_short(Context& tl, const DecodeShortArgs& args) {
  const Problem& p = args.problem;
  const std::uint32_t cell = tl.program_id(0) % args.homes.group_size();
  const std::int64_t rows = p.g * p.t_q, local = args.placement.count(cell);
  const auto heads =
      static_cast<std::int64_t>(args.homes.heads(args.homes.slot(tl.program_id(1), tl.program_id(0))).size());
  const std::vector<TokenBlock> blocks = blocks_of(p, rows, args.placement, cell, tl.scratch().capacity());

  const State state = make_state(tl, rows, p.d);
  for (std::int64_t index = 0; index < heads; ++index) {
    const auto scope = tl.scratch_scope("head");
    fold_local(tl, p, args.q, args.k, args.v, index, local, blocks, state);
    reduce(tl, args.in_group, cell, GridLevel::pe, state);
    if (cell == args.in_group.root()) store_result(tl, p, args.o, index, state);
  }
}

}  // namespace kb::attention
