// The time resolution is the surrounding program's: results at 1 fs are those at 1 ps, results at 10 ps differ by what
// rounding explains, and a coarser one is refused.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "fabric_bench.h"
#include "sc_fixture.h"
#include "session.h"
#include "temp_dir.h"

#include <kb/platform/platform.h>

#include <cstdlib>
#include <iterator>

using namespace kb;
using namespace kb::test;

namespace {

constexpr double kFs = 1, kPs = 1e3, kTenPs = 1e4;

struct Logged {
  Ps latency = 0;
  std::string op_log;
  std::uint64_t commands = 0, messages = 0;  // of the first PE
};
Logged logged(RunSpec s, double resolution_fs) {
  const KernelScope surrounding(resolution_fs);
  const TempDir dir;
  s.out = dir.path().string();
  const RunOutcome r = run(s);
  Logged l{launch_of(r).latency(), read_text(dir / "op_log.jsonl")};
  const PeStats& pe = launch_of(r).pes.front();
  for (const std::uint64_t n : pe.dispatch.commands) l.commands += n;
  l.messages = pe.ipcq_sends;
  return l;
}

/// What the surrounding program is told; empty where nothing is wrong.
std::string refusal(double resolution_fs) {
  const KernelScope surrounding(resolution_fs);
  try {
    Platform platform("tray", load_config(topology("one_pe")));
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

const RunSpec kRuns[] = {
    spec("one_pe", "gemm", {{"M", "128"}, {"K", "128"}, {"N", "128"}}),
    spec("one_cube", "allreduce", {{"n_elem", "8192"}}),
};

}  // namespace

BOOST_AUTO_TEST_SUITE(resolution)

BOOST_DATA_TEST_CASE(results_at_1_fs_are_those_at_1_ps, boost::unit_test::data::xrange(std::size(kRuns)), which) {
  const Logged ps = logged(kRuns[which], kPs);
  const Logged fs = logged(kRuns[which], kFs);
  BOOST_TEST(fs.latency == ps.latency);
  BOOST_TEST(ps.op_log.size() > 1000u);
  BOOST_TEST((fs.op_log == ps.op_log));
}

// Whole tiles and whole flits leave few durations that are no whole multiple of 10 ps: the dispatch of a command, and
// the 25 ps of a vertical link of the mesh, five at most on the way of a message and five on that of its credit. Each
// is off by 5 ps at most, and the ring's critical path has as many of them as one PE has commands and messages.
BOOST_AUTO_TEST_CASE(results_at_10_ps_are_those_at_1_ps_but_for_rounding) {
  for (const RunSpec& run : kRuns) {
    const Logged exact = logged(run, kPs);
    const Logged rounded = logged(run, kTenPs);
    BOOST_TEST_INFO(run.bench);
    BOOST_TEST(std::abs(rounded.latency - exact.latency) <= 5 * static_cast<Ps>(exact.commands + 10 * exact.messages));
    BOOST_TEST(rounded.latency % 10 == 0);
  }
}

BOOST_AUTO_TEST_CASE(too_coarse_a_resolution_is_refused) {
  BOOST_TEST(refusal(1e6) ==
             "time resolution of the simulation: found 1 ns; allowed: 1 fs to 10 ps (sc_set_time_resolution)");
  BOOST_TEST(refusal(1e5).find("found 100 ps;") != std::string::npos);
  for (const double fs : {1.0, 10.0, 100.0, 1e3, 1e4}) BOOST_TEST(refusal(fs).empty());
}

BOOST_AUTO_TEST_SUITE_END()
