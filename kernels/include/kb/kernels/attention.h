// Parts that all attention kernels share: the running state of online softmax, and the loops over KV tiles in each
// variant's command stream (spec 6).
#pragma once

#include <kb/kernels/context.h>
#include <kb/kernels/reduction.h>
#include <kb/kernels/token_placement.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kb::attention {

/// The command stream that folds KV tiles into the state (spec 6.2).
enum class Variant : std::uint8_t { primitive, opt2, hybrid, composite, composite_extended };
const char* name_of(Variant v);
/// Throws InputError.
Variant variant_from_name(const std::string& name);
/// composite and composite_extended work on chunks of the local sequence, the others on tiles.
constexpr bool is_chunked(Variant v) {
  return v == Variant::composite || v == Variant::composite_extended;
}

/// Sizes of one attention problem. Queries are the last t_q positions of the context.
struct Problem {
  std::int64_t h_kv = 1;      // KV heads
  std::int64_t g = 8;         // query heads per KV head
  std::int64_t d = 128;       // head dimension
  std::int64_t t_q = 1;       // query positions
  std::int64_t s_kv = 4096;   // context
  std::int64_t tile = 64;     // KV tokens per step
  DType dtype = DType::f16;   // storage
  bool k_transposed = false;  // blocks of K lie as [d, tokens] instead of [tokens, d]
  Variant variant = Variant::hybrid;

  /// Factor on the scores, 1 / sqrt(d).
  double scale() const;
  std::int64_t h_q() const { return h_kv * g; }
  std::int64_t q_start() const { return s_kv - t_q; }
};

/// Running maximum and sum [rows, 1] and output [rows, d] of online softmax, all f32 in TCM.
struct State {
  tl::Handle m, l, o;
};

/// Allocates a state; reset() gives it its start: m = -inf, l = 0, O = 0.
State make_state(tl::Context& tl, std::int64_t rows, std::int64_t d);
void reset(tl::Context& tl, const State& state);

/// K and V of a run of tokens, both dense, in HBM or (as TCM offsets) in TCM.
struct KvTile {
  std::uint64_t k_addr = 0;
  std::uint64_t v_addr = 0;
  std::int64_t count = 0;  // tokens
  bool in_tcm = false;
  std::optional<tl::CausalWindow> mask;  // boundary tiles only
};

/// One step of online softmax: a KV tile for the queries q [rows, d] with their state.
struct Step {
  tl::Handle q;
  State state;
  KvTile tile;
};

/// Carries out steps in order. All variants give the same result up to rounding:
///   primitive           17 single ops per step (two more with a mask, two less for a tile in TCM)
///   opt2                two composites per step, two score buffers in turn
///   hybrid              two GEMM composites per step, softmax merge as kernel math, two score buffers in turn
///   composite           as hybrid, one score buffer (tiles are chunks)
///   composite_extended  as opt2, one score buffer (tiles are chunks)
void fold(tl::Context& tl, const Problem& problem, const std::vector<Step>& steps);
/// The same for one set of queries.
void fold(tl::Context& tl, const Problem& problem, const tl::Handle& q, const State& state,
          const std::vector<KvTile>& tiles);

/// Merges another partial result into `state` by log-sum-exp.
void merge(tl::Context& tl, const State& state, const tl::Handle& m, const tl::Handle& l, const tl::Handle& o);

/// O / l in the storage type. A row that saw no key has l = 0 and O = 0; since every other row has l >= 1 (its largest
/// score contributes exp(0)), dividing by max(l, 1e-30) leaves it at 0 and changes no other row.
tl::Handle normalised(tl::Context& tl, const State& state, DType dtype);

/// Adds up the states of a plan's cells at its root. `cell` is this PE's; directions are those of `level`. The other
/// cells send their state, three messages each, and keep nothing.
void reduce(tl::Context& tl, const ReductionPlan& plan, std::uint32_t cell, GridLevel level, const State& state);

/// Tokens per chunk for `local` tokens: the largest equal piece whose scores (f32) and probabilities take at most
/// three quarters of scratch; the rest is for queries, state and reductions. 16,384 tokens for 8 rows in f16 and 1 MiB.
std::int64_t chunk_tokens(const Problem& problem, std::int64_t rows, std::int64_t local, std::uint64_t scratch_bytes);

/// The pieces in which a PE's local tokens are processed: tiles within segments, or chunks of the whole.
std::vector<TokenBlock> blocks_of(const Problem& problem, std::int64_t rows, const TokenPlacement& placement,
                                  std::uint32_t pe, std::uint64_t scratch_bytes);

}  // namespace kb::attention
