// What the attention benches share on the host's side: parameters, placement of caches, the reference, the gates.
#pragma once

#include <kb/kernels/bench.h>
#include <kb/kernels/launch.h>
#include <kb/kernels/prefill.h>

#include <array>
#include <string>
#include <vector>

namespace kb::attention {

/// Parameters of the decode benches, and of the prefill benches (with T_q, q_block and causal, without the variants
/// that work on chunks).
std::vector<ParamSpec> decode_params();
std::vector<ParamSpec> prefill_params(const char* default_placement);

/// Throws InputError unless 1 <= C <= cubes of a SIP (and P <= PEs of a cube).
std::uint32_t cubes_of(const BenchContext& ctx, const std::string& bench);
std::uint32_t pes_of(const BenchContext& ctx, const std::string& bench);
/// Throws InputError unless kv_per_cube is 1, 2, 4 or 8, divides the PEs of a cube, and leaves groups that are
/// connected in the cube's grid.
HeadHomes homes_of(const BenchContext& ctx, const std::string& bench, std::int64_t h_kv, std::uint32_t cubes);
/// T_q, q_block and causal; throws InputError for T_q > S_kv and blocks of more than 256 rows.
struct PrefillShape {
  std::int64_t q_block = 16;
  bool causal = true;
};
PrefillShape prefill_shape_of(const BenchContext& ctx, const std::string& bench, Problem& problem);

/// Reads the common parameters; t_q stays 1 where the bench has none.
Problem problem_of(const Params& params);

/// Logical inputs: q [H_q, T_q, d], k and v [H_kv, S_kv, d].
struct Inputs {
  LogicalTensor q, k, v;
};
Inputs make_inputs(BenchContext& ctx, const Problem& problem);

/// Attention in double precision from the stored inputs, [H_q, T_q, d]; position q_start + t sees the keys up to
/// itself when causal. A query that sees no key gives 0.
std::vector<double> reference(BenchContext& ctx, const Problem& problem, const Inputs& inputs, bool causal);

/// Largest relative RMSE that spec 6.4 allows.
double tolerance(DType dtype, InputKind kind, bool user_inputs);

/// A PE's tokens of some heads of k or v, cut into blocks: bytes of the shard [heads, local tokens, d].
std::vector<std::uint8_t> pack_cache(const LogicalTensor& cache, const Problem& problem,
                                     const std::vector<std::int64_t>& heads, const TokenPlacement& placement,
                                     std::uint32_t place, const std::vector<TokenBlock>& blocks, bool transposed);

/// A PE's query blocks of some heads: each block [G x count, d]. Shape of the shard, q's bytes, and o back into its
/// logical form.
Shape query_shard(const Problem& problem, const std::vector<std::int64_t>& heads,
                  const std::vector<QueryBlock>& blocks);
std::vector<std::uint8_t> pack_queries(const LogicalTensor& q, const Problem& problem,
                                       const std::vector<std::int64_t>& heads, const std::vector<QueryBlock>& blocks);
void unpack_queries(const std::vector<std::uint8_t>& bytes, const Problem& problem,
                    const std::vector<std::int64_t>& heads, const std::vector<QueryBlock>& blocks, LogicalTensor& o);

/// Writes a shard, unless it is empty.
void write_shard(Host& host, const Tensor& tensor, std::size_t shard, const std::vector<std::uint8_t>& bytes);
std::vector<std::uint8_t> read_shard(Host& host, const Tensor& tensor, std::size_t shard);

/// The PE that is done last, which the latency is the latency of; on a tie the lowest rank.
const PeStats& critical_pe(const LaunchResult& launch);

/// The parts of a breakdown in the order of LatencyPart, as attention calls them.
inline constexpr std::array<const char*, kLatencyParts> kPartNames{"reduction", "gemm",     "math",
                                                                   "kv_dma",    "dispatch", "idle"};

/// Latency, breakdown, verdict and counters of a launch.
void describe(const MachineInfo& machine, Mode mode, const LaunchResult& launch, BenchResult& result);

/// Runs a kernel and fills in the parts of a result that all attention benches have.
template <typename Kernel, typename Args>
BenchResult launch_attention(BenchContext& ctx, const char* name, Kernel kernel, const Args& args,
                             const LaunchOptions& options) {
  BenchResult result;
  ctx.progress(name);
  result.launches.push_back({name, ctx.host().launch(tl::bind_kernel(name, kernel, args), options)});
  describe(ctx.machine(), ctx.mode(), result.launches.back().result, result);
  return result;
}

/// Compares, dumps the four tensors, and fills in result.numerics.
void check(BenchContext& ctx, const Problem& problem, const Inputs& inputs, const LogicalTensor& o, bool causal,
           BenchResult& result);

/// Edges of a plan as routes between ranks.
void add_routes(const ReductionPlan& plan, GridLevel level, const std::vector<std::uint32_t>& rank_of_cell,
                std::vector<QueueRoute>& routes);

}  // namespace kb::attention
