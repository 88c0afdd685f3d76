// The breakdown of attention's latency: adds up, and agrees with what the op log says happened.
#include "session.h"

#include <kb/traces/op_log_reader.h>

#include <set>

using namespace kb;
using namespace kb::test;

namespace {

constexpr std::size_t part_of(LatencyPart p) {
  return static_cast<std::size_t>(p);
}

Ps total(const LatencySplit& split) {
  Ps sum = 0;
  for (const Ps p : split) sum += p;
  return sum;
}

const PeStats& last_pe(const LaunchResult& l) {
  return *std::max_element(l.pes.begin(), l.pes.end(),
                           [](const PeStats& x, const PeStats& y) { return x.done < y.done; });
}

/// Column `column` of a table of the result, by the value of its first.
double cell(const BenchResult& r, const std::string& table, const std::string& row, std::size_t column) {
  for (const auto& t : r.tables)
    if (t.name == table)
      for (const auto& cells : t.rows)
        if (std::get<std::string>(cells[0]) == row) return std::get<double>(cells[column]);
  BOOST_FAIL("no row " << row << " in table " << table);
  return 0;
}

struct Span {
  Ps from, to;
  LatencyPart part;
};

/// What a log of a run on one PE without queues says, picosecond by picosecond between its event times.
LatencySplit split_of_log(const std::string& path, const LaunchResult& launch) {
  std::vector<Span> spans;
  std::set<Ps> times{launch.start, launch.end};
  const auto add = [&](Ps from, Ps to, LatencyPart part) {
    spans.push_back({from, to, part});
    times.insert(from);
    times.insert(to);
  };
  OpLogReader reader(path);
  OpRecord r;
  while (reader.next(r)) {
    switch (r.name) {
      case OpName::gemm: add(r.t_start, r.t_end, LatencyPart::gemm); break;
      case OpName::math: add(r.t_start, r.t_end, LatencyPart::math); break;
      case OpName::dma_read:
      case OpName::dma_write: add(r.t_start, r.t_end, LatencyPart::transfer); break;
      case OpName::command: {
        // Dispatch ends when the command is ready for the queue: 40 cycles for a composite, 8 for a single op.
        const Ps cost = ps_from_ns(r.command->kind == CommandKind::composite ? 40 : 8);
        add(r.t_ready - cost, r.t_ready, LatencyPart::dispatch);
        break;
      }
      default: break;
    }
  }
  LatencySplit split{};
  for (auto at = times.begin(); std::next(at) != times.end(); ++at) {
    const Ps from = *at, to = *std::next(at);
    if (from < launch.start || to > launch.end) continue;
    auto first = LatencyPart::idle;
    for (const Span& s : spans)
      if (s.from <= from && s.to >= to) first = std::min(first, s.part);
    split[part_of(first)] += to - from;
  }
  return split;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(latency_split)

BOOST_AUTO_TEST_CASE(agrees_with_the_op_log) {
  for (const char* variant : {"primitive", "opt2", "hybrid", "composite", "composite_extended"}) {
    const TempDir dir;
    RunSpec s = spec("one_pe", "gqa-decode-long", {{"variant", variant}, {"S_kv", "200"}, {"H_kv", "2"}});
    s.out = dir / "run";
    const RunOutcome r = run(s);
    const LaunchResult& launch = launch_of(r);
    const LatencySplit expected = split_of_log(dir / "run/op_log.jsonl", launch);
    for (std::size_t i = 0; i < kLatencyParts; ++i)
      BOOST_TEST(launch.pes[0].split[i] == expected[i], variant << " " << name_of(static_cast<LatencyPart>(i)));
    BOOST_TEST(launch.pes[0].split[part_of(LatencyPart::gemm)] > 0);
  }
}

// One outstanding read or four, every PE's parts add up to the kernel time, those of PEs that are done early or do
// nothing too.
BOOST_AUTO_TEST_CASE(parts_of_every_pe_add_up_to_the_latency) {
  const std::pair<const char*, Settings> cases[] = {
      {"gqa-decode-long", {{"P", "8"}, {"S_kv", "515"}, {"variant", "opt2"}}},
      {"gqa-decode-long", {{"P", "8"}, {"S_kv", "3"}, {"variant", "primitive"}}},
      {"gqa-decode-short", {{"kv_per_cube", "4"}, {"H_kv", "5"}, {"S_kv", "130"}}},
      {"gqa-prefill-short", {{"T_q", "20"}, {"S_kv", "130"}}},
      {"gqa-prefill-long", {{"T_q", "20"}, {"S_kv", "130"}, {"P", "2"}}},
  };
  for (const auto& [bench, params] : cases) {
    for (const char* outstanding : {"1", "4"}) {
      RunSpec s = spec("one_cube", bench, params);
      s.overrides = {{"pe.dma.outstanding", outstanding}};
      const RunOutcome r = run(s);
      const LaunchResult& launch = launch_of(r);
      for (const PeStats& pe : launch.pes) BOOST_TEST(total(pe.split) == launch.latency(), bench);
      BOOST_TEST(cell(r.result, "latency_breakdown", "total", 1) == r.result.latency_ns);
      double shares = 0;
      for (const char* part : {"reduction", "gemm", "math", "kv_dma", "dispatch", "idle"})
        shares += cell(r.result, "latency_breakdown", part, 2);
      BOOST_TEST(shares == 1.0, boost::test_tools::tolerance(1e-9));
      BOOST_TEST(r.result.verdict.find("limited by ") == 0u, r.result.verdict);
    }
  }
}

// Two PEs, one token: the root (pe1) has nothing to fold. Its reduction begins when its own three fills are done, at
// 3 dispatches of 8 ns + 1 ns of scheduler + 1 cycle (4 cycles for O: 8 x 128 elements at 256 a cycle), and ends with
// the merge; then the result is scaled and stored. All that follows the first fills but the last two math commands and
// the write is reduction.
BOOST_AUTO_TEST_CASE(the_reduction_of_a_root_without_tokens) {
  const RunOutcome r = run("one_cube", "gqa-decode-long", {{"P", "2"}, {"S_kv", "1"}});
  const LaunchResult& launch = launch_of(r);
  const PeStats& root = last_pe(launch);
  BOOST_TEST(launch.pes[1].done == root.done);
  const auto part = [&](LatencyPart p) { return ns_from_ps(root.split[part_of(p)]); };
  // Before the reduction: dispatch of three fills; the reduction's own begins with the last fill's end. After it: two
  // math commands and a write are dispatched while the merge's last commands still run.
  BOOST_TEST(part(LatencyPart::reduction) > 0.5 * r.result.latency_ns);
  BOOST_TEST(part(LatencyPart::gemm) == 0);
  // PE 0 folds its token itself: it waits for no one and only sends.
  const LatencySplit& other = launch.pes[0].split;
  BOOST_TEST(other[part_of(LatencyPart::gemm)] > 0);
  BOOST_TEST(other[part_of(LatencyPart::reduction)] < root.split[part_of(LatencyPart::reduction)]);
  BOOST_TEST(r.result.verdict.find("limited by the reduction") == 0u, r.result.verdict);
}

// A ring of two cubes: waiting for K and V of the other cube is K/V movement, and nothing is a reduction.
BOOST_AUTO_TEST_CASE(ring_messages_are_kv_movement) {
  const RunOutcome r = run("eight_cubes", "gqa-prefill-long", {{"C", "2"}, {"T_q", "32"}, {"S_kv", "512"}});
  BOOST_TEST(cell(r.result, "latency_breakdown", "reduction", 1) == 0.0);
  BOOST_TEST(cell(r.result, "latency_breakdown", "kv_dma", 1) > 0.0);
}

BOOST_AUTO_TEST_CASE(headline_shows_the_parts_of_the_four_cases) {
  const RunOutcome r = run("one_cube", "gqa-headline", {{"S_kv", "300"}, {"T_q", "40"}, {"P", "4"}});
  const char* const benches[] = {"gqa-decode-short", "gqa-decode-long", "gqa-prefill-short", "gqa-prefill-long"};
  for (const char* bench : benches) {
    double sum = 0;
    for (std::size_t column = 2; column < 2 + kLatencyParts; ++column)
      sum += cell(r.result, "latency_breakdown_ns", bench, column);
    BOOST_TEST(sum == cell(r.result, "latency_breakdown_ns", bench, 1), boost::test_tools::tolerance(1e-12));
    BOOST_TEST(r.result.verdict.find(std::string(bench) + " limited by ") != std::string::npos, r.result.verdict);
  }
  // Nothing is compared in timing mode, and nothing is said of it.
  BOOST_TEST(r.table.find("rel_rmse") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
