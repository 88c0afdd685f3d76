#include "benches.h"

#include <kb/kernels/collectives/critical_path.h>
#include <kb/kernels/collectives/plan.h>
#include <kb/kernels/launch.h>
#include <kb/tlm_if/errors.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace kb {

namespace {

using collectives::Algo;
using collectives::Op;
using collectives::Plan;
using collectives::Span;

constexpr double kPeakyGain = 4.0;

/// Relative RMSE allowed for sums of up to 256 values of N(0, 1), rounded once per hop (spec 5.2).
double sum_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16: return 5e-3;
    case DType::bf16: return 4e-2;
    default: return 1e-6;
  }
}

/// Whole numbers up to this magnitude, and so sums of them, are exact.
double exact_limit(DType dtype) {
  return dtype == DType::f16 ? 2048.0 : dtype == DType::bf16 ? 256.0 : 16777216.0;
}

bool sums(Op op) {
  return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::reduce_to_root;
}

/// What the participants are to end with, in double precision, and how exactly.
struct Expectation {
  std::vector<double> row;  // the sum, the root's x, or the gathered chunks: n_elem
  double tolerance = 0;
};

Expectation expect(const Plan& plan, const LogicalTensor& x) {
  const std::int64_t n = plan.spec().n_elem, members = plan.size();
  Expectation e;
  e.row.assign(static_cast<std::size_t>(n), 0.0);
  if (!sums(plan.spec().op)) {
    for (std::int64_t i = 0; i < members; ++i) {
      const bool root = plan.participants()[static_cast<std::size_t>(i)] == plan.root();
      Span from = collectives::chunk(n, static_cast<std::uint32_t>(i), plan.size());
      if (plan.spec().op == Op::broadcast) from = root ? Span{0, n} : Span{0, 0};
      for (std::int64_t k = from.begin; k < from.end(); ++k) e.row[static_cast<std::size_t>(k)] = x.at(i * n + k);
    }
    return e;
  }
  bool exact = true;
  for (std::int64_t k = 0; k < n; ++k) {
    double magnitude = 0;
    for (std::int64_t i = 0; i < members; ++i) {
      const double value = x.at(i * n + k);
      e.row[static_cast<std::size_t>(k)] += value;
      magnitude += std::abs(value);
      exact = exact && value == std::floor(value);
    }
    exact = exact && magnitude <= exact_limit(plan.spec().dtype);
  }
  e.tolerance = exact || members == 1 ? 0.0 : sum_tolerance(plan.spec().dtype);
  return e;
}

/// The part of its vector that a participant has the result in.
Span result_span(const Plan& plan, std::uint32_t index) {
  switch (plan.spec().op) {
    case Op::reduce_scatter: return collectives::chunk(plan.spec().n_elem, index, plan.size());
    case Op::reduce_to_root:
      return plan.participants()[index] == plan.root() ? Span{0, plan.spec().n_elem} : Span{0, 0};
    default: return {0, plan.spec().n_elem};
  }
}

class AllreduceBench : public Bench {
 public:
  std::string name() const override { return "allreduce"; }

  std::string doc() const override {
    return "collective operations over the PE-to-PE queues: every rank has a vector of n_elem elements\n"
           "ring_1d: 2 (N-1) steps of a chunk along a ring in snake order\n"
           "mesh: rows, then columns to the root and back, at each level; tree: ceil(log2 N) rounds where the grid "
           "allows it\n"
           "hierarchical: `world` counts SIPs; PE 0 of each of their cubes reduces to the centre cube, the centres of "
           "the SIPs exchange, and back\n"
           "reduce_scatter and all_gather: chunk i of N, elements [i*n/N, (i+1)*n/N), belongs to participant i\n"
           "x is overwritten by y. In y what an operation does not define (other chunks, other ranks) is written as 0.";
  }

  std::vector<ParamSpec> params() const override {
    return {
        word_param("op", "all_reduce", collectives::kOpNames, "operation"),
        word_param("algo", "ring_1d", collectives::kAlgoNames, "algorithm"),
        int_param("n_elem", 1024, 1, std::int64_t{1} << 40, "elements of each participant's vector"),
        int_or_word_param("world", "all", 1, std::int64_t{1} << 20, {"all"},
                          "the first ranks in (sip, cube, pe) order; hierarchical: the first SIPs"),
        word_param("dtype", "f16", {"f16", "bf16", "f32"},
                   "type of the vectors and of what is sent; sums are f32, rounded once per hop"),
        word_param("payload", "tcm", {"tcm", "hbm"},
                   "where the vectors are; in hbm they are loaded and stored piece by piece"),
        word_param("buffer_kind", "topology", {"topology", "tcm", "sram", "hbm"},
                   "memory of the queue slots; topology: pe.ipcq.buffer_kind"),
        int_or_word_param("slots", "topology", 1, 1 << 20, {"topology"}, "slots per queue; topology: pe.ipcq.slots"),
        int_param("chunk_bytes", 65536, 4, std::int64_t{1} << 40, "largest message, bytes; larger chunks go in pieces"),
        int_param("root", 0, 0, std::int64_t{1} << 20,
                  "rank of the result or source of ring_1d and mesh; tree and hierarchical have their own"),
        inputs_param()};
  }

  std::vector<std::pair<std::string, std::string>> topology_keys(const Params& p) const override {
    std::vector<std::pair<std::string, std::string>> keys;
    if (p.word("buffer_kind") != "topology") keys.emplace_back("pe.ipcq.buffer_kind", p.word("buffer_kind"));
    if (!p.word_instead("slots")) keys.emplace_back("pe.ipcq.slots", std::to_string(p.integer("slots")));
    return keys;
  }

  BenchResult run(BenchContext& ctx) const override {
    const Params& p = ctx.params();
    const MachineInfo& machine = ctx.machine();
    check_machine(p, machine);
    const Plan plan = plan_of(p, machine);
    const Space space = p.word("payload") == "hbm" ? Space::hbm : Space::tcm;
    check_scratch(plan, machine, space);

    const std::int64_t n = plan.spec().n_elem, members = plan.size();
    std::vector<std::pair<std::uint32_t, Shape>> shards;
    for (const std::uint32_t rank : plan.participants()) shards.emplace_back(rank, Shape{n});
    const Tensor vectors = ctx.host().allocate("x", plan.spec().dtype, space, shards);  // first: it may not fit
    const LogicalTensor x =
        ctx.input("x", Shape{members, n}, plan.spec().dtype, input_kind_from_name(p.word("inputs")), kPeakyGain);
    const std::size_t row_bytes = static_cast<std::size_t>(n) * size_of(plan.spec().dtype);
    if (ctx.with_data())
      for (std::int64_t i = 0; i < members; ++i)
        ctx.host().write(vectors, static_cast<std::size_t>(i), x.element(i * n), row_bytes);

    ctx.progress(std::string(collectives::name_of(plan.spec().algo)) + " " + collectives::name_of(plan.spec().op));
    BenchResult result;
    const auto kernel = tl::bind_kernel("allreduce", collectives::collective, plan, vectors);
    const collectives::TimedKernel timed(kernel, machine.total_pes());
    const LaunchOptions options = plan.launch_options();
    result.launches.push_back({"allreduce", ctx.host().launch(timed, options)});
    const LaunchResult& launch = result.launches.back().result;
    result.latency_ns = ns_from_ps(launch.latency());
    describe(machine, plan, ctx.mode(), result);
    if (ctx.mode() != Mode::emit)
      result.tables.push_back(split_table(collectives::critical_path(machine, options, launch, timed.timelines())));
    if (ctx.with_data()) check(ctx, plan, x, vectors, row_bytes, result);
    ctx.host().free(vectors);
    return result;
  }

 private:
  static collectives::Spec spec_of(const Params& p) {
    collectives::Spec spec;
    spec.op = collectives::op_from_name(p.word("op"));
    spec.algo = collectives::algo_from_name(p.word("algo"));
    spec.n_elem = p.integer("n_elem");
    spec.world = p.word_instead("world") ? 0 : static_cast<std::uint32_t>(p.integer("world"));
    spec.dtype = *dtype_from_name(p.word("dtype"));
    spec.chunk_bytes = static_cast<std::uint64_t>(p.integer("chunk_bytes"));
    spec.root = static_cast<std::uint32_t>(p.integer("root"));
    return spec;
  }

  /// A plan names what it refuses as the parameters are named.
  static Plan plan_of(const Params& p, const MachineInfo& machine) {
    try {
      return Plan::make(machine, spec_of(p));
    } catch (const InputError& e) {
      throw InputError(std::string("bench allreduce, parameter ") + e.what());
    }
  }

  /// Slots belong to the machine: the command line builds it with those that the bench asks for.
  static void check_machine(const Params& p, const MachineInfo& machine) {
    if (!p.word_instead("slots") && p.integer("slots") != machine.ipcq_slots)
      throw InputError(
          fmt::format("bench allreduce, parameter slots: found {} on a machine with pe.ipcq.slots = {}; "
                      "allowed: the machine's own number",
                      p.integer("slots"), machine.ipcq_slots));
  }

  static void check_scratch(const Plan& plan, const MachineInfo& machine, Space space) {
    const std::uint64_t vector_bytes = static_cast<std::uint64_t>(plan.spec().n_elem) * size_of(plan.spec().dtype);
    const std::uint64_t message = std::min(plan.spec().chunk_bytes, vector_bytes);
    const std::uint64_t most = machine.scratch_bytes / (space == Space::tcm ? 1 : 2);
    if (plan.size() > 1 && message > most)
      throw InputError(
          fmt::format("bench allreduce, parameter chunk_bytes: found messages of {} B; allowed: up to {} B, "
                      "{} of pe.tcm.scratch_bytes = {}",
                      message, most, space == Space::tcm ? "all" : "half", machine.scratch_bytes));
  }

  static void describe(const MachineInfo& machine, const Plan& plan, Mode mode, BenchResult& result) {
    const collectives::AlphaBeta bound = collectives::alpha_beta(machine, plan);
    const auto whole = [](std::uint64_t v) { return static_cast<std::int64_t>(v); };
    auto& extra = result.extra;
    extra.emplace_back("participants", whole(plan.size()));
    extra.emplace_back("root", whole(plan.root()));
    extra.emplace_back("steps", whole(plan.steps()));
    extra.emplace_back("messages_per_rank", whole(bound.messages));
    extra.emplace_back("bytes_per_rank", whole(bound.bytes_per_rank));
    extra.emplace_back("bytes_total", whole(bound.bytes_total));
    extra.emplace_back("order", plan.order());
    extra.emplace_back("alpha_ns", bound.alpha_ns);
    extra.emplace_back("beta_gbs", bound.beta_gbs);
    extra.emplace_back("alpha_beta_bound_ns", bound.bound_ns);
    const auto routed = plan.queues().routed();
    extra.emplace_back("routed_pairs", whole(routed.size()));
    if (!routed.empty()) {
      ResultTable table{"routes", {"from", "to", "direction", "arrives_as", "path"}, {}};
      for (const QueueRoute& q : routed)
        table.rows.push_back({static_cast<std::int64_t>(q.from), static_cast<std::int64_t>(q.to),
                              std::string(name_of(q.direction)), std::string(name_of(q.arrives_as)),
                              collectives::describe_path(machine, q.from, q.to)});
      result.tables.push_back(std::move(table));
    }
    if (mode == Mode::emit) return;

    const double time = result.latency_ns;
    extra.emplace_back("bound_ratio", bound.bound_ns > 0 ? time / bound.bound_ns : 0.0);
    extra.emplace_back("bus_bandwidth_gbs", time > 0 ? static_cast<double>(bound.bytes_per_rank) / time : 0.0);
    if (time < bound.bound_ns)
      throw ModelError(
          fmt::format("allreduce: found a latency of {:.3f} ns below the alpha-beta bound of {:.3f} ns; allowed: at "
                      "least the bound",
                      time, bound.bound_ns));
    result.verdict =
        fmt::format("alpha-beta bound {:.3f} ns of {:.3f} ns ({:.1f} %): {} steps, {} B per rank at {:.1f} GB/s; {}",
                    bound.bound_ns, time, time > 0 ? 100 * bound.bound_ns / time : 100.0, plan.steps(),
                    bound.bytes_per_rank, bound.beta_gbs, bound_sentence(result.launches.back().result));
  }

  /// The latency by what the launch waited for; adds up to it.
  static ResultTable split_table(const collectives::PathSplit& split) {
    ResultTable table{"critical_path", {"part", "ns", "share"}, {}};
    const auto row = [&](const char* part, Ps ps) {
      const double share = split.total() > 0 ? static_cast<double>(ps) / static_cast<double>(split.total()) : 0.0;
      table.rows.push_back({std::string(part), ns_from_ps(ps), share});
    };
    row("links", split.links);
    row("slots", split.slots);
    row("math", split.math);
    row("dispatch", split.dispatch);
    if (split.memory > 0) row("memory", split.memory);
    row("total", split.total());
    return table;
  }

  static void check(BenchContext& ctx, const Plan& plan, const LogicalTensor& x, const Tensor& vectors,
                    std::size_t row_bytes, BenchResult& result) {
    const std::int64_t n = plan.spec().n_elem, members = plan.size();
    const Expectation expected = expect(plan, x);
    LogicalTensor y(Shape{members, n}, plan.spec().dtype);
    std::vector<double> reference(static_cast<std::size_t>(members * n), 0.0);
    LogicalTensor row(Shape{n}, plan.spec().dtype);
    for (std::int64_t i = 0; i < members; ++i) {
      const Span span = result_span(plan, static_cast<std::uint32_t>(i));
      if (span.count == 0) continue;
      ctx.host().read(vectors, static_cast<std::size_t>(i), row.bytes(), row_bytes);
      std::copy(row.element(span.begin),
                row.element(span.begin) + static_cast<std::size_t>(span.count) * size_of(row.dtype()),
                y.element(i * n + span.begin));
      std::copy(expected.row.begin() + span.begin, expected.row.begin() + span.end(),
                reference.begin() + i * n + span.begin);
    }
    result.numerics = compare(y, reference, expected.tolerance);
    ctx.output("x", x);
    ctx.output("y", y);
  }
};

}  // namespace

std::unique_ptr<Bench> make_allreduce_bench() {
  return std::make_unique<AllreduceBench>();
}

}  // namespace kb
