#include "attention_bench.h"

#include <kb/tlm_if/errors.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kb::attention {

namespace {

std::vector<ParamSpec> common_params(std::vector<std::string> variants, const char* default_placement) {
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 34;
  return {
      int_param("H_kv", 1, 1, 1024, "KV heads"),
      int_param("G", 8, 1, 1024, "query heads per KV head (H_q / H_kv)"),
      int_param("d", 128, 1, 4096, "head dimension"),
      word_param("dtype", "f16", {"f16", "bf16", "f32"}, "storage type of q, k, v and o"),
      int_param("S_kv", 4096, 1, kMaxTokens, "context, in tokens"),
      int_param("C", 1, 1, 1024, "the first C cubes take part"),
      int_param("P", 1, 1, 1024, "the first P PEs of each cube take part (short cases: all PEs do)"),
      word_param("variant", "hybrid", std::move(variants),
                 "command stream. primitive: single ops; opt2: two composites per tile; hybrid: GEMM composites with "
                 "the softmax merge as kernel math; composite, composite_extended: as hybrid and opt2 over chunks of "
                 "the local sequence"),
      int_param("tile", 64, 1, 1 << 20, "KV tokens per step of the kernel's loop"),
      word_param("reduce", "tree", {"tree", "chain"}, "how partial results reach the root"),
      word_param("placement", default_placement, {"round_robin", "contiguous", "zigzag"},
                 "which PE (prefill-long: which cube) holds which token"),
      int_param("request_id", 0, 0, std::numeric_limits<std::int64_t>::max(),
                "rotates the round-robin start: the first token lies on PE request_id mod N"),
      word_param("k_layout", "sd", {"sd", "ds"}, "K as [S, d], or transposed beforehand, [d, S]"),
      int_param("kv_per_cube", 1, 1, 8, "KV heads per cube at a time: 1 2 4 8 (short cases)"),
      inputs_param(),
  };
}

[[noreturn]] void refuse(const std::string& bench, const std::string& parameter, std::int64_t found,
                         const std::string& allowed) {
  throw InputError("bench " + bench + ", parameter " + parameter + ": found " + std::to_string(found) +
                   "; allowed: " + allowed);
}

}  // namespace

std::vector<ParamSpec> decode_params() {
  return common_params({"primitive", "opt2", "hybrid", "composite", "composite_extended"}, "round_robin");
}

std::vector<ParamSpec> prefill_params(const char* default_placement) {
  std::vector<ParamSpec> all = common_params({"primitive", "hybrid", "opt2"}, default_placement);
  all.push_back(int_param("T_q", 64, 1, std::int64_t{1} << 34, "query positions: the last T_q of the context"));
  all.push_back(int_param("q_block", 16, 1, 256, "query positions per block; G x q_block <= 256 rows"));
  all.push_back(flag_param("causal", true, "a query sees the keys up to its own position only"));
  return all;
}

std::uint32_t cubes_of(const BenchContext& ctx, const std::string& bench) {
  const std::int64_t cubes = ctx.params().integer("C");
  if (cubes > ctx.machine().cubes_per_sip())
    refuse(bench, "C", cubes,
           "1 .. " + std::to_string(ctx.machine().cubes_per_sip()) + " on this topology (cubes of one SIP)");
  return static_cast<std::uint32_t>(cubes);
}

std::uint32_t pes_of(const BenchContext& ctx, const std::string& bench) {
  const std::int64_t pes = ctx.params().integer("P");
  if (pes > ctx.machine().pes_per_cube)
    refuse(bench, "P", pes, "1 .. " + std::to_string(ctx.machine().pes_per_cube) + " on this topology");
  return static_cast<std::uint32_t>(pes);
}

HeadHomes homes_of(const BenchContext& ctx, const std::string& bench, std::int64_t h_kv, std::uint32_t cubes) {
  const std::int64_t per_cube = ctx.params().integer("kv_per_cube");
  const std::uint32_t pes = ctx.machine().pes_per_cube, cols = ctx.machine().pe_cols;
  if (per_cube != 1 && per_cube != 2 && per_cube != 4 && per_cube != 8)
    refuse(bench, "kv_per_cube", per_cube, "1 2 4 8");
  const auto heads = static_cast<std::uint32_t>(per_cube);
  if (pes % heads != 0)
    refuse(bench, "kv_per_cube", per_cube, "what divides the " + std::to_string(pes) + " PEs of a cube");
  const std::uint32_t members = pes / heads;
  if (members % cols != 0 && cols % members != 0)
    refuse(bench, "kv_per_cube", per_cube,
           "groups that fill rows of the " + std::to_string(cols) + "-wide PE grid, or divide them");
  return {h_kv, cubes, heads, pes};
}

PrefillShape prefill_shape_of(const BenchContext& ctx, const std::string& bench, Problem& problem) {
  const Params& params = ctx.params();
  problem.t_q = params.integer("T_q");
  if (problem.t_q > problem.s_kv) refuse(bench, "T_q", problem.t_q, "1 .. S_kv = " + std::to_string(problem.s_kv));
  const std::int64_t q_block = params.integer("q_block");
  if (problem.g * q_block > 256)
    refuse(bench, "q_block", q_block, "G x q_block <= 256 rows, G = " + std::to_string(problem.g));
  return {q_block, params.flag("causal")};
}

Problem problem_of(const Params& params) {
  Problem p;
  p.h_kv = params.integer("H_kv");
  p.g = params.integer("G");
  p.d = params.integer("d");
  p.s_kv = params.integer("S_kv");
  p.tile = params.integer("tile");
  p.dtype = *dtype_from_name(params.word("dtype"));
  p.k_transposed = params.word("k_layout") == "ds";
  p.variant = variant_from_name(params.word("variant"));
  return p;
}

Inputs make_inputs(BenchContext& ctx, const Problem& p) {
  const InputKind kind = input_kind_from_name(ctx.params().word("inputs"));
  // Peaky scores: four times the queries.
  return {ctx.input("q", Shape{p.h_q(), p.t_q, p.d}, p.dtype, kind, 4.0),
          ctx.input("k", Shape{p.h_kv, p.s_kv, p.d}, p.dtype, kind, 1.0),
          ctx.input("v", Shape{p.h_kv, p.s_kv, p.d}, p.dtype, kind, 1.0)};
}

std::vector<double> reference(BenchContext& ctx, const Problem& p, const Inputs& inputs, bool causal) {
  const auto d = static_cast<std::size_t>(p.d);
  const auto s_kv = static_cast<std::size_t>(p.s_kv);
  std::vector<double> out(static_cast<std::size_t>(p.h_q() * p.t_q) * d);
  std::vector<float> k(s_kv * d), v(s_kv * d);
  std::vector<double> q(d), score(s_kv);
  const double scale = p.scale();
  for (std::int64_t head = 0; head < p.h_kv; ++head) {
    ctx.progress("reference", static_cast<double>(head) / static_cast<double>(p.h_kv));
    const std::int64_t first = head * p.s_kv * p.d;
    for (std::size_t i = 0; i < s_kv * d; ++i) {
      k[i] = static_cast<float>(inputs.k.at(first + static_cast<std::int64_t>(i)));
      v[i] = static_cast<float>(inputs.v.at(first + static_cast<std::int64_t>(i)));
    }
    for (std::int64_t row = head * p.g * p.t_q; row < (head + 1) * p.g * p.t_q; ++row) {
      const std::int64_t position = p.q_start() + row % p.t_q;
      const auto visible = static_cast<std::size_t>(causal ? std::min(p.s_kv, position + 1) : p.s_kv);
      for (std::size_t i = 0; i < d; ++i) q[i] = inputs.q.at(row * p.d + static_cast<std::int64_t>(i));
      double largest = -std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < visible; ++s) {
        double sum = 0;
        for (std::size_t i = 0; i < d; ++i) sum += q[i] * static_cast<double>(k[s * d + i]);
        score[s] = sum * scale;
        largest = std::max(largest, score[s]);
      }
      double* o = out.data() + static_cast<std::size_t>(row) * d;
      double weights = 0;
      for (std::size_t s = 0; s < visible; ++s) {
        const double weight = std::exp(score[s] - largest);
        weights += weight;
        for (std::size_t i = 0; i < d; ++i) o[i] += weight * static_cast<double>(v[s * d + i]);
      }
      if (visible > 0)
        for (std::size_t i = 0; i < d; ++i) o[i] /= weights;
    }
  }
  return out;
}

double tolerance(DType dtype, InputKind kind, bool user_inputs) {
  switch (dtype) {
    case DType::f16: return 5e-4;
    case DType::bf16: return 4e-3;
    default: break;
  }
  // A user's own inputs may be as uneven as partial results whose maxima differ by 200.
  if (user_inputs) return 1e-4;
  return kind == InputKind::peaky ? 1.5e-5 : 5e-6;
}

namespace {

/// Tokens (global numbers) of a head as a dense run of rows [count, d], or transposed, [d, count].
void copy_tokens(const LogicalTensor& cache, const Problem& p, std::int64_t head,
                 const std::vector<std::int64_t>& tokens, bool transposed, std::uint8_t* to) {
  const std::size_t element = size_of(cache.dtype());
  const auto d = static_cast<std::size_t>(p.d);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::uint8_t* row = cache.element((head * p.s_kv + tokens[t]) * p.d);
    if (!transposed) {
      std::memcpy(to + t * d * element, row, d * element);
      continue;
    }
    for (std::size_t i = 0; i < d; ++i) std::memcpy(to + (i * tokens.size() + t) * element, row + i * element, element);
  }
}

/// Calls `copy(logical row of [H_q, T_q], row of the shard)` for each query row of a shard.
template <typename Copy>
void for_each_query(const Problem& p, const std::vector<std::int64_t>& heads, const std::vector<QueryBlock>& blocks,
                    const Copy& copy) {
  std::int64_t row = 0;
  for (const std::int64_t head : heads)
    for (const auto& b : blocks)
      for (std::int64_t g = 0; g < p.g; ++g)
        for (std::int64_t t = 0; t < b.count; ++t)
          copy((head * p.g + g) * p.t_q + b.first - p.q_start() + t * b.stride, row++);
}

}  // namespace

std::vector<std::uint8_t> pack_cache(const LogicalTensor& cache, const Problem& p,
                                     const std::vector<std::int64_t>& heads, const TokenPlacement& placement,
                                     std::uint32_t place, const std::vector<TokenBlock>& blocks, bool transposed) {
  const std::int64_t local = placement.count(place);
  const std::size_t row_bytes = static_cast<std::size_t>(p.d) * size_of(p.dtype);
  std::vector<std::uint8_t> bytes(heads.size() * static_cast<std::size_t>(local) * row_bytes);
  std::vector<std::int64_t> tokens;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (const auto& b : blocks) {
      tokens.clear();
      for (std::int64_t t = b.local; t < b.local + b.count; ++t) tokens.push_back(placement.global(place, t));
      copy_tokens(cache, p, heads[h], tokens, transposed,
                  bytes.data() + (h * static_cast<std::size_t>(local) + static_cast<std::size_t>(b.local)) * row_bytes);
    }
  }
  return bytes;
}

Shape query_shard(const Problem& p, const std::vector<std::int64_t>& heads, const std::vector<QueryBlock>& blocks) {
  const std::int64_t queries = blocks.empty() ? 0 : blocks.back().local + blocks.back().count;
  return {static_cast<std::int64_t>(heads.size()), p.g * queries, p.d};
}

std::vector<std::uint8_t> pack_queries(const LogicalTensor& q, const Problem& p, const std::vector<std::int64_t>& heads,
                                       const std::vector<QueryBlock>& blocks) {
  const std::size_t row_bytes = static_cast<std::size_t>(p.d) * size_of(p.dtype);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(query_shard(p, heads, blocks).numel()) * size_of(p.dtype));
  for_each_query(p, heads, blocks, [&](std::int64_t logical, std::int64_t row) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(row) * row_bytes, q.element(logical * p.d), row_bytes);
  });
  return bytes;
}

void unpack_queries(const std::vector<std::uint8_t>& bytes, const Problem& p, const std::vector<std::int64_t>& heads,
                    const std::vector<QueryBlock>& blocks, LogicalTensor& o) {
  const std::size_t row_bytes = static_cast<std::size_t>(p.d) * size_of(p.dtype);
  for_each_query(p, heads, blocks, [&](std::int64_t logical, std::int64_t row) {
    std::memcpy(o.element(logical * p.d), bytes.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes);
  });
}

void write_shard(Host& host, const Tensor& tensor, std::size_t shard, const std::vector<std::uint8_t>& bytes) {
  if (!bytes.empty()) host.write(tensor, shard, bytes.data(), bytes.size());
}

std::vector<std::uint8_t> read_shard(Host& host, const Tensor& tensor, std::size_t shard) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.shards[shard].shape.numel()) * size_of(tensor.dtype));
  if (!bytes.empty()) host.read(tensor, shard, bytes.data(), bytes.size());
  return bytes;
}

void check(BenchContext& ctx, const Problem& problem, const Inputs& inputs, const LogicalTensor& o, bool causal,
           BenchResult& result) {
  const InputKind kind = input_kind_from_name(ctx.params().word("inputs"));
  result.numerics =
      compare(o, reference(ctx, problem, inputs, causal), tolerance(problem.dtype, kind, ctx.user_inputs()));
  ctx.output("q", inputs.q);
  ctx.output("k", inputs.k);
  ctx.output("v", inputs.v);
  ctx.output("o", o);
}

void add_routes(const ReductionPlan& plan, GridLevel level, const std::vector<std::uint32_t>& rank_of_cell,
                std::vector<QueueRoute>& routes) {
  for (const auto& round : plan.rounds())
    for (const auto& e : round)
      routes.push_back(neighbour_route(level, plan.grid(), e.from, e.to, rank_of_cell[e.from], rank_of_cell[e.to]));
}

const PeStats& critical_pe(const LaunchResult& launch) {
  return *std::max_element(launch.pes.begin(), launch.pes.end(),
                           [](const PeStats& x, const PeStats& y) { return x.done < y.done; });
}

namespace {

std::int64_t whole(std::uint64_t n) {
  return static_cast<std::int64_t>(n);
}

void add_commands(const LaunchResult& launch, BenchResult& result) {
  std::uint64_t sends = 0, most = 0, least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& pe : launch.pes) {
    std::uint64_t commands = 0;
    for (const std::uint64_t n : pe.dispatch.commands) commands += n;
    sends += pe.dispatch.commands[static_cast<std::size_t>(CommandKind::ipcq_send)];
    most = std::max(most, commands);
    least = std::min(least, commands);
  }
  result.extra.emplace_back("commands_per_pe_max", whole(most));
  result.extra.emplace_back("commands_per_pe_min", launch.pes.empty() ? 0 : whole(least));
  result.extra.emplace_back("queue_messages", whole(sends));
  std::uint64_t scratch = 0;
  for (const auto& pe : launch.pes) scratch = std::max(scratch, pe.scratch_peak_bytes);
  result.extra.emplace_back("scratch_peak_bytes", whole(scratch));
}

/// How fast K and V came: of the busiest PE over the whole run, and within the tile loops of composites.
struct ReadRates {
  double run_gbs = 0;
  double stream_gbs = 0;   // 0: nothing was streamed
  double message_gbs = 0;  // sent by the busiest PE, over the whole run
};
ReadRates read_rates(const LaunchResult& launch) {
  std::uint64_t most = 0, streamed = 0, sent = 0;
  Ps stream_ps = 0;
  for (const auto& pe : launch.pes) {
    most = std::max(most, pe.dma_read_bytes);
    sent = std::max(sent, pe.ipcq_bytes);
    streamed += pe.stream_bytes;
    stream_ps += pe.stream_ps;
  }
  const auto rate = [](std::uint64_t bytes, Ps time) {
    return time > 0 ? static_cast<double>(bytes) / ns_from_ps(time) : 0.0;
  };
  return {rate(most, launch.latency()), rate(streamed, stream_ps), rate(sent, launch.latency())};
}

ResultTable breakdown_table(const LaunchResult& launch) {
  ResultTable table{"latency_breakdown", {"part", "ns", "share"}, {}};
  const LatencySplit& split = critical_pe(launch).split;
  const double latency = ns_from_ps(launch.latency());
  Ps total = 0;
  const auto row = [&](const char* name, Ps part) {
    const double ns = ns_from_ps(part);
    table.rows.push_back({std::string(name), ns, latency > 0 ? ns / latency : 0.0});
  };
  for (std::size_t i = 0; i < kLatencyParts; ++i) {
    row(kPartNames[i], split[i]);
    total += split[i];
  }
  row("total", total);
  return table;
}

/// What is at work longest on the PE that is done last, whatever else is at work beside it: the breakdown counts the
/// DMA only where neither GEMM nor math hides it, but a DMA that never rests is what bounds the case. So does a link or
/// memory channel that never rests, wherever it is.
struct Limit {
  LatencyPart part = LatencyPart::idle;
  Ps time = 0;
};
Limit limit_of(const LaunchResult& launch) {
  const PeStats& pe = critical_pe(launch);
  LatencySplit time = pe.split;
  Ps& transfer = time[static_cast<std::size_t>(LatencyPart::transfer)];
  transfer = std::max(transfer, ps_from_ns(launch.bounds.memory_ns));
  const auto at_least = [&](LatencyPart part, EngineKind engine) {
    Ps& t = time[static_cast<std::size_t>(part)];
    t = std::max(t, pe.engines[static_cast<std::size_t>(engine)].busy);
  };
  at_least(LatencyPart::gemm, EngineKind::gemm);
  at_least(LatencyPart::math, EngineKind::math);
  at_least(LatencyPart::transfer, EngineKind::dma_read);
  at_least(LatencyPart::transfer, EngineKind::ipcq);
  at_least(LatencyPart::dispatch, EngineKind::cpu);
  const auto longest = std::max_element(time.begin(), time.end());
  return {static_cast<LatencyPart>(longest - time.begin()), *longest};
}

/// What bounds a case, for how much of its latency, and how near that is to what the hardware can do.
std::string limit_sentence(const MachineInfo& machine, const LaunchResult& launch, const ReadRates& rates) {
  const PeStats& pe = critical_pe(launch);
  const Limit limit = limit_of(launch);
  const auto percent = [](double part, double of) { return of > 0 ? 100 * part / of : 0.0; };
  const double share = percent(ns_from_ps(limit.time), ns_from_ps(launch.latency()));
  const double slice = machine.hbm_slice_bw_gbs;
  switch (limit.part) {
    case LatencyPart::reduction:
      return fmt::format(
          "limited by the reduction ({:.1f} % of the latency): PE {} has folded its own tokens and "
          "receives, merges and sends partial results",
          share, machine.rank_of(pe.id));
    case LatencyPart::gemm:
      return fmt::format("limited by GEMM ({:.1f} % of the latency): {:.1f} % of the MAC array's slots do useful work",
                         share, percent(static_cast<double>(pe.macs_useful), static_cast<double>(pe.macs_padded)));
    case LatencyPart::math:
      return fmt::format(
          "limited by the vector unit ({:.1f} % of the latency): softmax and rescaling, {} elements on "
          "the last PE",
          share, pe.math_elements);
    case LatencyPart::transfer: {
      if (rates.message_gbs > rates.run_gbs)
        return fmt::format(
            "limited by K/V messages ({:.1f} % of the latency): the busiest PE sends {:.1f} GB/s over the run, with {} "
            "slots of {} B to a queue",
            share, rates.message_gbs, machine.ipcq_slots, machine.ipcq_slot_bytes);
      const double rate = rates.stream_gbs > 0 ? rates.stream_gbs : rates.run_gbs;
      return fmt::format(
          "limited by K/V DMA ({:.1f} % of the latency): {} {:.1f} of the slice's {:.0f} GB/s ({:.1f} "
          "%) with pe.dma.outstanding {}",
          share, rates.stream_gbs > 0 ? "composites stream at" : "reads come at", rate, slice, percent(rate, slice),
          machine.dma_outstanding);
    }
    case LatencyPart::dispatch: {
      std::uint64_t commands = 0;
      for (const std::uint64_t n : pe.dispatch.commands) commands += n;
      return fmt::format("limited by dispatch ({:.1f} % of the latency): the cpu of PE {} issues {} commands", share,
                         machine.rank_of(pe.id), commands);
    }
    case LatencyPart::idle: break;
  }
  return fmt::format(
      "limited by latencies between engines ({:.1f} % of the latency): TCM accesses, scheduler "
      "overhead and waits that no work hides",
      share);
}

}  // namespace

void describe(const MachineInfo& machine, Mode mode, const LaunchResult& launch, BenchResult& result) {
  result.latency_ns = ns_from_ps(launch.latency());
  add_commands(launch, result);
  if (mode == Mode::emit || launch.pes.empty()) {
    result.verdict = bound_sentence(launch);
    return;
  }
  const ReadRates rates = read_rates(launch);
  const double slice = machine.hbm_slice_bw_gbs;
  result.extra.emplace_back("critical_pe", whole(machine.rank_of(critical_pe(launch).id)));
  result.extra.emplace_back("limited_by", std::string(kPartNames[static_cast<std::size_t>(limit_of(launch).part)]));
  result.extra.emplace_back("read_gbs_busiest_pe", rates.run_gbs);
  result.extra.emplace_back("read_share_of_slice", rates.run_gbs / slice);
  if (rates.stream_gbs > 0) {
    result.extra.emplace_back("stream_gbs_in_composites", rates.stream_gbs);
    result.extra.emplace_back("stream_share_of_slice", rates.stream_gbs / slice);
  }
  result.tables.push_back(breakdown_table(launch));
  result.verdict = limit_sentence(machine, launch, rates) + "; " + bound_sentence(launch);
}

}  // namespace kb::attention
