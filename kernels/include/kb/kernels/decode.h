// Decode kernels: one query position per head against a KV cache that is spread over PEs (spec 6).
#pragma once

#include <kb/kernels/attention.h>

#include <cstdint>
#include <vector>

namespace kb::attention {

/// Long decode: every PE of `cubes` cubes x `pes` PEs holds its tokens of all KV heads; partial results are
/// reduced in each cube, then between the cubes' roots, and the root stores.
///
/// q: [H_q, d] on every PE. k, v: [H_kv, local tokens, d] on each PE, K in blocks as blocks_of() cuts them where it is
/// transposed. o: [H_q, d] on the root.
struct DecodeLongArgs {
  Problem problem;
  TokenPlacement placement;  // over cubes x pes, in (cube, PE) order
  std::uint32_t pes = 1;     // per cube
  ReductionPlan in_cube;     // over the PEs of a cube
  ReductionPlan between;     // over cubes
  Tensor q, k, v, o;
};

void decode_long(tl::Context& tl, const DecodeLongArgs& args);

/// Where the heads of the short cases live: a cube holds `kv_per_cube` heads at a time, each on a group of
/// consecutive PEs; head h is the (h / slots)-th of slot h mod slots, slots being counted through all cubes.
struct HeadHomes {
  std::int64_t h_kv = 1;
  std::uint32_t cubes = 1;
  std::uint32_t kv_per_cube = 1;
  std::uint32_t pes_per_cube = 1;

  std::uint32_t group_size() const { return pes_per_cube / kv_per_cube; }
  std::int64_t slots() const { return static_cast<std::int64_t>(cubes) * kv_per_cube; }
  std::int64_t slot(std::uint32_t cube, std::uint32_t pe) const {
    return static_cast<std::int64_t>(cube) * kv_per_cube + pe / group_size();
  }
  /// Heads that a slot works on, in order.
  std::vector<std::int64_t> heads(std::int64_t slot) const;
};

/// Short decode: a head's group of PEs splits its tokens; partial results are reduced in the group and its
/// root stores.
///
/// q: [heads of the slot x G, d] on every PE. k, v: [heads of the slot, local tokens, d]. o: as q, on the groups'
/// roots.
struct DecodeShortArgs {
  Problem problem;
  HeadHomes homes;
  TokenPlacement placement;  // over the PEs of a group
  ReductionPlan in_group;
  Tensor q, k, v, o;
};

void decode_short(tl::Context& tl, const DecodeShortArgs& args);

}  // namespace kb::attention
