// Prefill kernels: many query positions per head, causal, against a KV cache that is spread over PEs or cubes (spec 6).
#pragma once

#include <kb/kernels/decode.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb::attention {

/// Consecutive local queries of a PE that are processed together: tokens [local, local + count) of its queries, at
/// positions first, first + stride, ... of the sequence. Its rows are [G, count] flattened.
struct QueryBlock {
  std::int64_t local = 0;
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t last() const { return first + (count - 1) * stride; }
};

/// Positions of the keys of a tile.
struct KeySpan {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
  std::int64_t last() const { return first + (count - 1) * stride; }
};

/// Whether a query block sees any key of the tile, and the mask it needs where it does not see all.
bool visible(const QueryBlock& queries, const KeySpan& keys, bool causal);
std::optional<tl::CausalWindow> mask_of(const QueryBlock& queries, const KeySpan& keys, bool causal);
/// Keys of a local tile.
KeySpan keys_of(const TokenPlacement& placement, std::uint32_t place, const TokenBlock& tile);

/// Short prefill: homes as in short decode; a head's PEs take its query blocks round-robin and read K and V from
/// their owners, tile by tile, beginning with their own. No reduction.
///
/// k, v: [heads of the slot, local tokens, d] on each PE. q, o: per head the PE's query blocks one after the other,
/// each [G x count, d].
struct PrefillShortArgs {
  Problem problem;
  HeadHomes homes;
  TokenPlacement placement;  // KV over the PEs of a group
  std::int64_t q_block = 16;
  bool causal = true;
  Tensor q, k, v, o;

  /// Query blocks of the `cell`-th PE of a group.
  std::vector<QueryBlock> query_blocks(std::uint32_t cell) const;
};

void prefill_short(tl::Context& tl, const PrefillShortArgs& args);

/// Which KV blocks travel how far around a ring of ranks. Rank r owns block r; a block moves from rank to rank + 1
/// (mod ranks), to the last rank that needs it.
class RingSchedule {
 public:
  /// Queries are the last queries.tokens() positions of the context and are placed by their own index.
  RingSchedule(const TokenPlacement& keys, const TokenPlacement& queries, bool causal);

  std::uint32_t ranks() const { return keys_.pes(); }
  /// Whether rank r computes on block b: both have tokens and, when causal, the block's first position is at or before
  /// the rank's last query.
  bool needed(std::uint32_t rank, std::uint32_t block) const;
  /// Number of moves of a block: it reaches ranks block + 1 .. block + reach (mod ranks).
  std::uint32_t reach(std::uint32_t block) const;
  /// The rank's block of ring step `step`; 0 is its own.
  std::uint32_t block_at(std::uint32_t rank, std::uint32_t step) const { return (rank + ranks() - step) % ranks(); }

  /// Over all ranks, per head.
  std::uint64_t computations() const;
  std::uint64_t transfers() const;

 private:
  TokenPlacement keys_, queries_;
  bool causal_;
  std::vector<std::uint32_t> reach_;
};

/// Long prefill: head h on PE h mod P of each of C cubes, the sequence over the cubes. KV blocks move around the ring
/// of cubes in sub-blocks of `tile` tokens; each is received (loaded, on its own rank), forwarded and used for every
/// resident query block. The running state and the queries of the head in hand live in TCM.
///
/// Per PE, heads being those with h mod P = pe, tokens those of the PE's rank:
/// q, o [heads, query blocks one after the other each [G x count, d]]; k, v [heads, local tokens, d], K in tiles where
/// it is transposed. In TCM: q_tcm, o_acc [G x local queries, d], m, l [G x local queries, 1], ring [4, 2 x tile x d].
struct PrefillLongArgs {
  Problem problem;
  TokenPlacement keys, queries;             // over ranks
  std::vector<std::uint32_t> rank_of_cube;  // snake order
  std::uint32_t pes = 1;                    // P
  std::int64_t q_block = 16;
  bool causal = true;
  Tensor q, k, v, o;
  Tensor q_tcm, m, l, o_acc, ring;

  std::vector<QueryBlock> query_blocks(std::uint32_t rank) const;
  /// Heads of PE `pe`.
  std::vector<std::int64_t> heads(std::uint32_t pe) const;
};

/// Sub-blocks that are in a PE's TCM at any time.
inline constexpr std::int64_t kRingBuffers = 4;

void prefill_long(tl::Context& tl, const PrefillLongArgs& args);

}  // namespace kb::attention
