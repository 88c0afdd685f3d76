#include <kb/kernels/decode.h>

namespace kb::attention {

using tl::Context;
using tl::Handle;

namespace {

/// Tiles of one KV head on this PE.
std::vector<KvTile> local_tiles(Context& tl, const Problem& p, const Tensor& k, const Tensor& v, std::int64_t head,
                                std::int64_t local, const std::vector<TokenBlock>& blocks) {
  const std::uint64_t k_base = tl.shard_of(k).addr, v_base = tl.shard_of(v).addr;
  std::vector<KvTile> tiles;
  for (const auto& b : blocks) {
    // A block's first byte is the same whichever way its elements lie.
    const auto at = static_cast<std::uint64_t>((head * local + b.local) * p.d) * size_of(p.dtype);
    tiles.push_back({k_base + at, v_base + at, b.count, false, {}});
  }
  return tiles;
}

}  // namespace

void decode_long(Context& tl, const DecodeLongArgs& args) {
  const Problem& p = args.problem;
  const std::uint32_t pe = tl.program_id(0), cube = tl.program_id(1);
  const std::uint32_t place = cube * args.pes + pe;
  const std::int64_t rows = p.g * p.t_q, local = args.placement.count(place);
  const bool cube_root = pe == args.in_cube.root(), root = cube_root && cube == args.between.root();
  const std::vector<TokenBlock> blocks = blocks_of(p, rows, args.placement, place, tl.scratch().capacity());
  const std::uint64_t q_base = tl.shard_of(args.q).addr;
  const std::uint64_t head_bytes = static_cast<std::uint64_t>(rows * p.d) * size_of(p.dtype);

  const State state = make_state(tl, rows, p.d);
  for (std::int64_t head = 0; head < p.h_kv; ++head) {
    const auto scope = tl.scratch_scope("head");
    const std::uint64_t q_at = static_cast<std::uint64_t>(head) * head_bytes;
    reset(tl, state);
    if (!blocks.empty()) {
      const Handle q = tl.load(q_base + q_at, {rows, p.d}, p.dtype);
      fold(tl, p, q, local_tiles(tl, p, args.k, args.v, head, local, blocks), state);
    }
    reduce(tl, args.in_cube, pe, GridLevel::pe, state);
    if (cube_root) reduce(tl, args.between, cube, GridLevel::cube, state);
    if (root) tl.store(tl.shard_of(args.o).addr + q_at, normalised(tl, state, p.dtype));
  }
}

}  // namespace kb::attention
