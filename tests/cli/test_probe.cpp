// probe and route on the machines that are shipped.
#include "cli_support.h"

#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

using namespace kb::test;
namespace bdata = boost::unit_test::data;

namespace {

nlohmann::json probe(const std::string& machine, std::vector<std::string> more = {}) {
  TempDir dir;
  std::vector<std::string> arguments{"probe", "--topology", topology(machine), "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended e = kernbench(dir, arguments);
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
  std::map<std::string, nlohmann::json> by_name;
  const auto printed = nlohmann::json::parse(e.out);
  for (const auto& c : printed.at("cases")) by_name[c.at("case")] = c.at("points");
  return by_name;
}

double latency(const nlohmann::json& cases, const char* name, std::size_t size) {
  return cases.at(name).at(size).at("latency_ns");
}

const char* const kMachines[] = {"one_pe.yaml", "one_cube.yaml", "eight_cubes.yaml", "six_sips.yaml", "default.yaml"};

// In both granularities: the parts, which are worked out without the simulation, add up to the
// simulated latency to 1 ps with nothing left unexplained; bandwidth grows with the size towards the bottleneck's
// and never exceeds it.
void check_parts_and_bandwidth(const std::string& machine) {
  for (const char* granularity : {"packet", "flit"}) {
    const auto cases = probe(machine, {"--set", std::string("fabric.granularity=") + granularity});
    BOOST_TEST(cases.size() >= 3u);
    for (const auto& [name, points] : cases.items()) {
      BOOST_TEST_INFO_SCOPE(machine << " " << granularity << " " << name);
      BOOST_TEST(points.size() == 5u);
      double before = 0;
      for (const auto& p : points) {
        double sum = 0;
        for (const auto& part : p.at("breakdown")) {
          sum += part.at("ns").get<double>();
          BOOST_TEST(part.at("component") != "unexplained");
        }
        BOOST_TEST(std::abs(sum - p.at("latency_ns").get<double>()) < 0.0005);
        const double effective = p.at("effective_gbs"), bottleneck = p.at("bottleneck_gbs");
        BOOST_TEST(effective > before);
        BOOST_TEST(effective <= bottleneck);
        before = effective;
      }
      // 1 MiB streams for 8 us at 128 GB/s; the longest path takes under 0.7 us.
      BOOST_TEST(before >= 0.9 * points.back().at("bottleneck_gbs").get<double>());
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(probing)

BOOST_DATA_TEST_CASE(parts_add_up_and_bandwidth_tends_to_the_bottleneck, bdata::make(kMachines), machine) {
  check_parts_and_bandwidth(machine);
}

// Latency strictly grows with the distance within a SIP, and another SIP is farther than the next cube.
BOOST_AUTO_TEST_CASE(latency_grows_with_distance) {
  const auto cases = probe("default.yaml");
  const char* const order[] = {"pe_local", "pe_same_half", "pe_cross_half", "pe_next_cube", "pe_farthest_cube"};
  for (std::size_t size = 0; size < 5; ++size) {
    for (std::size_t i = 0; i + 1 < std::size(order); ++i)
      BOOST_TEST(latency(cases, order[i], size) < latency(cases, order[i + 1], size),
                 order[i] << " and " << order[i + 1] << " at size " << size);
    BOOST_TEST(latency(cases, "pe_other_sip", size) > latency(cases, "pe_next_cube", size));
  }
  // 16 KiB from the own slice: 2 issue + 8 first burst + 64 stream + 1 last flit of the link (spec 1.2).
  BOOST_TEST(latency(cases, "pe_local", 1) == 75.0);
}

BOOST_AUTO_TEST_CASE(tables_are_printed_and_one_case_can_be_chosen) {
  TempDir dir;
  const Ended e = kernbench(dir, {"probe", "--topology", topology("one_cube.yaml"), "--case", "pe_cross_half"});
  BOOST_TEST(e.code == 0);
  BOOST_TEST(contains(
      e.out, "pe_cross_half: PE DMA read, other half of the cube, tray.sip0.cube0.pe0 -> tray.sip0.cube0.hbm4"));
  BOOST_TEST(!contains(e.out, "pe_local"));
  BOOST_TEST(contains(e.out, "1 MiB"));
  BOOST_TEST(contains(e.out, "sum"));
}

BOOST_AUTO_TEST_CASE(unknown_cases_and_settings_are_refused) {
  TempDir dir;
  const Ended misspelt = kernbench(dir, {"probe", "--topology", topology("one_cube.yaml"), "--case", "pe_lokal"});
  BOOST_TEST(misspelt.code == 2);
  BOOST_TEST(contains(misspelt.err, "--case: found 'pe_lokal'; did you mean 'pe_local'?"), misspelt.err);
  const Ended absent = kernbench(dir, {"probe", "--topology", topology("one_cube.yaml"), "--case", "pe_other_sip"});
  BOOST_TEST(absent.code == 2);
  BOOST_TEST(contains(absent.err, "allowed on this topology: h2d, d2h, pe_local"), absent.err);
  const Ended bench = kernbench(dir, {"probe", "--topology", topology("one_cube.yaml"), "--set", "bench.M=3"});
  BOOST_TEST(bench.code == 2);
  BOOST_TEST(contains(bench.err, "allowed: topology keys"), bench.err);
}

// The links of a printed route, and the components that have no path between them.
BOOST_AUTO_TEST_CASE(routes_are_printed_hop_by_hop) {
  TempDir dir;
  const Ended e =
      kernbench(dir, {"route", "--topology", topology("default.yaml"), "sip0.cube0.pe0", "sip0.cube1.hbm0"});
  BOOST_TEST(e.code == 0);
  BOOST_TEST(contains(e.out, "tray.sip0.cube0.pe0 -> tray.sip0.cube1.hbm0, UCIe lane"));
  BOOST_TEST(contains(e.out, "sip0.cube0.ucie_e.c"));
  BOOST_TEST(contains(e.out, "slowest link 128 GB/s"), e.out);
  const Ended nowhere =
      kernbench(dir, {"route", "--topology", topology("default.yaml"), "sip0.cube0.pe9", "sip0.cube1.hbm0"});
  BOOST_TEST(nowhere.code == 2);
  BOOST_TEST(contains(nowhere.err, "pe9"), nowhere.err);
}

BOOST_AUTO_TEST_SUITE_END()
