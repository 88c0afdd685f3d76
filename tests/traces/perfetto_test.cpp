// The timeline: valid trace events, nothing overlapping on a thread, times exact.
#include "trace_support.h"

#include <kb/tlm_if/errors.h>
#include <kb/traces/perfetto_writer.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <random>

using namespace kb;
using namespace kb::test;

BOOST_AUTO_TEST_SUITE(perfetto)

BOOST_AUTO_TEST_CASE(events_follow_the_format) {
  TempDir dir;
  const ComponentTable components = rich_components();
  const auto records = rich_records();
  PerfettoWriter writer(dir / "trace.perfetto.json", components);
  for (const auto& r : records) writer.record(r);
  writer.finish();
  const auto json = nlohmann::json::parse(slurp(dir / "trace.perfetto.json"));
  BOOST_REQUIRE(json.is_array());
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  std::size_t complete = 0, counters = 0;
  for (const auto& e : json) {
    const std::string ph = e["ph"];
    if (ph == "M") {
      if (e["name"] == "process_name") processes[e["pid"]] = e["args"]["name"];
      if (e["name"] == "thread_name") threads[{e["pid"], e["tid"]}] = e["args"]["name"];
    } else if (ph == "X") {
      ++complete;
      BOOST_CHECK(e["ts"].is_number() && e["dur"].is_number() && e["dur"].get<double>() > 0);
      BOOST_CHECK(threads.count({e["pid"], e["tid"]}) == 1);
      BOOST_CHECK(processes.count(e["pid"]) == 1);
    } else {
      BOOST_CHECK_EQUAL(ph, "C");
      ++counters;
    }
  }
  BOOST_CHECK_EQUAL(complete, records.size());
  BOOST_CHECK_EQUAL(counters, 4u);
  BOOST_CHECK_EQUAL(complete + counters, writer.events());
  const auto text = slurp(dir / "trace.perfetto.json");
  BOOST_CHECK(text.find(R"("name":"scale","cat":"math")") != std::string::npos);
  BOOST_CHECK(
      text.find(R"("ts":0.006006,"dur":0.001001,"args":{"number":6,"command":1,"tile":"0.0.0","m":4,"k":8,"n":4}})") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(overlapping_operations_get_threads_of_their_own) {
  TempDir dir;
  ComponentTable components;
  components.add("tray.sip0.cube0.pe0.dma");
  PerfettoWriter writer(dir / "trace.json", components);
  std::mt19937 random(3);
  Ps end = 0;
  for (int i = 0; i < 500; ++i) {
    OpRecord r;
    r.name = OpName::dma_read;
    r.kind = OpKind::memory;
    r.t_end = end += 1 + static_cast<Ps>(random() % 20);
    r.t_start = std::max<Ps>(0, end - 1 - static_cast<Ps>(random() % 60));
    writer.record(r);
  }
  writer.finish();
  const auto json = nlohmann::json::parse(slurp(dir / "trace.json"));
  std::map<int, double> last;
  std::size_t events = 0;
  for (const auto& e : json) {
    if (e["ph"] != "X") continue;
    ++events;
    const double ts = e["ts"], dur = e["dur"];
    BOOST_CHECK_GE(ts, last[e["tid"]] - 1e-9);
    last[e["tid"]] = ts + dur;
  }
  BOOST_CHECK_EQUAL(events, 500u);
  BOOST_CHECK_GT(last.size(), 1u);
  BOOST_CHECK_LT(last.size(), 12u);
}

BOOST_AUTO_TEST_CASE(filters_and_failures) {
  TempDir dir;
  const ComponentTable components = rich_components();
  TraceFilter filter;
  filter.scope = "*.gemm";
  filter.window = {{6500, 100000}};
  {
    PerfettoWriter writer(dir / "trace.json", components, filter);
    for (const auto& r : rich_records()) writer.record(r);
    BOOST_CHECK_EQUAL(writer.events(), 1u);
    writer.abandon();
  }
  BOOST_CHECK(!exists(dir / "trace.json"));
  const auto json = nlohmann::json::parse(slurp(dir / "trace.json.part"));
  BOOST_CHECK_CLOSE(json.back()["ts"].get<double>(), 0.0065, 1e-9);
  BOOST_CHECK_THROW(PerfettoWriter(dir / "no/such.json", components), IoError);
}

BOOST_AUTO_TEST_SUITE_END()
