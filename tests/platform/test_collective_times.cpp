// How long collectives and queues take: bounds, published numbers, bandwidth, monotone in the payload.
#include "collective_runs.h"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace kb;
using namespace kb::test;
namespace bdata = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(collective_times)

// ---- bandwidth ---------------------------------------------------------------------------------------------------

namespace {

double bus_latency(const char* op, const std::vector<Override>& keys) {
  return check_collective({"one_cube", keys, Mode::timing}, {{"op", op}, {"n_elem", "2097152"}}).result.latency_ns;
}
const std::vector<Override> kDeep{{"pe.dma.outstanding", "4"}, {"pe.ipcq.slots", "8"}};

}  // namespace

/// 4 MiB per rank over the 8 PEs of a cube, in TCM, chunks of 512 KiB in pieces of 64 KiB, 16 slots each.
///
/// What bounds it. The queue's DMA sends slot after slot: overhead + slot_bytes / 256 GB/s = 2 + 16 = 18 ns with one
/// transfer outstanding. Everything else is hidden behind it: a slot is written (8 ns), read (8 ns) and its credit is
/// back (1 ns) within the 4 * 18 ns that the sender needs for the other slots; a piece is received, added (128 ns) and
/// sent on within the 7 pieces that follow it; three commands of 8 cycles per piece of 288 ns. The ring's links do not
/// meet. So
///   all_gather  7 steps * 128 slots * 18 ns     = 16128 ns
///   all_reduce 14 steps * 128 slots * 18 ns     = 32256 ns
/// and at both ends the dispatch of the first send (8 + 1 ns), the way of the last slot (about 2 ns), its write, read
/// and credit (17 ns).
BOOST_DATA_TEST_CASE(bus_bandwidth_is_what_the_slots_allow,
                     bdata::make({"all_gather", "all_reduce"}) ^ bdata::make({7, 14}), op, steps) {
  const double expected = steps * 128 * 18.0 + 9 + 2 + 17;
  const double ns = bus_latency(op, {});
  BOOST_TEST_MESSAGE(op << ": " << ns << " ns, expected " << expected << " ns");
  BOOST_TEST(ns == expected, boost::test_tools::tolerance(0.05));
}

/// With 4 transfers outstanding the overhead is hidden too (16 ns a slot), and 8 slots cover the way there and back.
BOOST_DATA_TEST_CASE(deeper_queues_fill_the_link,
                     bdata::make({"all_gather", "all_reduce"}) ^ bdata::make({1, 2}) ^ bdata::make({0.90, 0.80}), op,
                     passes, share) {
  const double gbs = passes * 4.0 * 1024 * 1024 * 7 / 8 / bus_latency(op, kDeep);
  BOOST_TEST_MESSAGE(op << ": " << gbs << " GB/s");
  BOOST_TEST(gbs >= share * 256);
  BOOST_TEST(gbs <= 256.0);
}

// ---- N10 ---------------------------------------------------------------------------------------------------------

/// 96 KiB per PE, 3 x 2 SIPs in a torus; published 17.2 us. The split adds up to the latency, to 1 ps.
BOOST_AUTO_TEST_CASE(n10_hierarchical_all_reduce) {
  const RunOutcome r =
      check_collective({"six_sips", {}, Mode::timing}, {{"algo", "hierarchical"}, {"n_elem", "49152"}});
  BOOST_TEST(r.result.latency_ns <= 17200.0);
  std::map<std::string, double> parts;
  double sum = 0;
  for (const ResultTable& table : r.result.tables)
    if (table.name == "critical_path")
      for (const auto& row : table.rows) {
        const auto& name = std::get<std::string>(row[0]);
        parts[name] = std::get<double>(row[1]);
        if (name != "total") sum += parts[name];
        BOOST_TEST_MESSAGE(name << " " << parts[name] << " ns");
      }
  for (const char* part : {"links", "slots", "math", "dispatch"}) BOOST_TEST(parts[part] > 0.0);
  BOOST_TEST(std::abs(parts["total"] - r.result.latency_ns) < 0.0005);
  BOOST_TEST(std::abs(sum - parts["total"]) < 0.0005);
}

// ---- laws --------------------------------------------------------------------------------------------------------

/// Law 2: a longer vector never takes less time, from an element per rank on, and below but for the exception that
/// follows.
BOOST_DATA_TEST_CASE(latency_grows_with_the_payload,
                     bdata::make({"ring_1d", "mesh", "tree"}) *
                         bdata::make({"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce_to_root"}),
                     algo, op) {
  const Setup cube{"one_cube", {}, Mode::timing};
  const bool scatters = std::string(op) == "reduce_scatter" && std::string(algo) != "ring_1d";
  double before = 0;
  for (const char* n : {"1", "2", "7", "8", "9", "64", "65", "1000", "4096", "4097", "100000", "100001"}) {
    const RunOutcome r = check_collective(cube, {{"algo", algo}, {"op", op}, {"n_elem", n}});
    if (scatters && std::string(n) == "7") before = 0;  // the exception
    BOOST_TEST(r.result.latency_ns >= before, n << " elements: " << r.result.latency_ns << " ns after " << before);
    before = r.result.latency_ns;
  }
}

/// The exception to law 2 of decision 6: fewer elements than ranks, scattered over a tree. A rank that passes an empty
/// chunk on waits for it itself, since hazards have no addresses to order it by, and is late by what it could have
/// dispatched meanwhile: a command (8 cycles and 1 ns at the scheduler) per level of the tree at most.
BOOST_DATA_TEST_CASE(empty_chunks_can_cost_a_wait, bdata::make({"mesh", "tree"}) ^ bdata::make({4, 3}), algo, levels) {
  const auto latency = [&](const char* n) {
    const Setup cube{"one_cube", {}, Mode::timing};
    return check_collective(cube, {{"algo", algo}, {"op", "reduce_scatter"}, {"n_elem", n}}).result.latency_ns;
  };
  const double two = latency("2"), seven = latency("7"), eight = latency("8");
  BOOST_TEST(seven < two);
  BOOST_TEST(two <= seven + levels * (8 + 1));
  BOOST_TEST(eight >= seven);
}

// ---- pe2pe -------------------------------------------------------------------------------------------------------

/// N5, N6, the slot read as the difference of the two modes, and the table of every point as CSV.
BOOST_AUTO_TEST_CASE(pe2pe_slopes_slot_reads_and_csv) {
  TempDir dir;
  RunSpec all = spec("default", "pe2pe", {{"hop", "all"}, {"bytes", "all"}, {"mode", "all"}}, Mode::data);
  all.out = dir.path().string();
  const RunOutcome r = run(all);
  BOOST_TEST(r.result.numerics.pass);
  std::map<std::string, std::map<std::int64_t, std::map<std::string, double>>> ns;
  for (const auto& row : r.result.tables.at(0).rows)
    ns[std::get<std::string>(row[0])][std::get<std::int64_t>(row[4])][std::get<std::string>(row[3])] =
        std::get<double>(row[5]);
  BOOST_TEST(ns.size() == 4u);
  for (auto& [hop, by_size] : ns) {
    BOOST_TEST(by_size.size() == 9u);
    BOOST_TEST(by_size.begin()->first == 128);
    BOOST_TEST(by_size.rbegin()->first == 10240);
    std::map<std::string, double> before;
    for (auto& [bytes, by_mode] : by_size) {
      BOOST_TEST(by_mode.size() == 3u);
      // recv_no_consume saves the slot reads; of several slots those behind the first are hidden in part.
      const double saved = by_mode["ipcq"] - by_mode["ipcq_no_consume"];
      if (bytes <= 4096)
        BOOST_TEST(saved == static_cast<double>(bytes) / 512, boost::test_tools::tolerance(1e-6));
      else
        BOOST_TEST(saved >= static_cast<double>((bytes - 1) % 4096 + 1) / 512 - 1e-9);
      for (auto& [mode, latency] : by_mode) {
        BOOST_TEST(latency > before[mode], hop << " " << mode << " " << bytes);
        before[mode] = latency;
      }
    }
  }
  // N5: load and store at 256 GB/s each, 2 %. N6: 128 B from a slot in TCM.
  for (const std::int64_t from : {2048, 4096, 8192}) {
    const double slope = (ns["h1"][10240]["raw"] - ns["h1"][from]["raw"]) / static_cast<double>(10240 - from);
    BOOST_TEST(slope == 2.0 / 256, boost::test_tools::tolerance(0.02));
  }
  BOOST_TEST(ns["h1"][128]["ipcq"] - ns["h1"][128]["ipcq_no_consume"] == 0.25, boost::test_tools::tolerance(1e-6));

  std::ifstream csv(all.out + "/pe2pe.csv");
  std::size_t lines = 0;
  for (std::string line; std::getline(csv, line);) ++lines;
  BOOST_TEST(lines == 1u + 4 * 9 * 3);

  double sum = 0;
  for (const auto& row : r.result.tables.at(0).rows) sum += std::get<double>(row[5]);
  BOOST_TEST(r.result.latency_ns == sum, boost::test_tools::tolerance(1e-9));
}

/// A TCM channel slower than the slots takes its own time, in the run and in the serial sum: 4096 B at 64 GB/s.
BOOST_AUTO_TEST_CASE(slots_behind_a_slow_tcm_channel_take_its_time) {
  const auto bounds = [](const char* key, const char* value) {
    RunSpec s = spec("one_cube", "pe2pe", {{"mode", "ipcq_no_consume"}});
    s.overrides = {{key, value}};
    const RunOutcome r = run(s);
    return std::make_pair(r.result.latency_ns, launch_of(r).bounds.serial_ns);
  };
  const auto base = bounds("pe.tcm.write_bw_gbs", "512");
  for (const char* key : {"pe.tcm.write_bw_gbs", "pe.ipcq.tcm.bw_gbs"}) {
    const auto slow = bounds(key, "64");
    BOOST_TEST(slow.first == base.first + 4096 / 64.0 - 4096 / 512.0, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(slow.second == base.second + 4096 / 64.0 - 4096 / 512.0, boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_SUITE_END()
