// Decode kernels: one query position per head against a KV cache spread over PEs (spec 6).
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

}  // namespace kb::attention
