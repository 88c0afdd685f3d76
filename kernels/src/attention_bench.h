// What the attention benches share on the host's side: parameters, placement of caches, the reference, the gates.
#pragma once

#include <kb/kernels/attention.h>
#include <kb/kernels/bench.h>

#include <string>
#include <vector>

namespace kb::attention {

/// Parameters of all attention benches, without those that only some have. `placement` is the default order.
std::vector<ParamSpec> common_params(const char* default_placement);

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

/// Tokens `tokens` (global numbers) of head `head` of k or v as a dense run of rows [count, d]; transposed blocks of K
/// as [d, count].
void copy_tokens(const LogicalTensor& cache, const Problem& problem, std::int64_t head,
                 const std::vector<std::int64_t>& tokens, bool transposed, std::uint8_t* to);

/// Compares, dumps the four tensors, and fills in result.numerics.
void check(BenchContext& ctx, const Problem& problem, const Inputs& inputs, const LogicalTensor& o, bool causal,
           BenchResult& result);

/// Edges of a plan as routes between ranks.
void add_routes(const ReductionPlan& plan, GridLevel level, const std::vector<std::uint32_t>& rank_of_cell,
                std::vector<QueueRoute>& routes);

/// Counters that attention reports beside the summary's own.
void add_counters(const LaunchResult& launch, BenchResult& result);

}  // namespace kb::attention
