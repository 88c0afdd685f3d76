// The summary of a run: counters added up, closed accounts in JSON, a table that people can read.
#include <kb/traces/summary.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace kb;

namespace {

PeStats pe(std::uint32_t number, Ps length, Ps busy) {
  PeStats p;
  p.id = {0, 0, number};
  for (auto& e : p.engines) e.idle = length;
  auto& gemm = p.engines[static_cast<std::size_t>(EngineKind::gemm)];
  gemm.busy = busy;
  gemm[Cause::operands_dma] = length - busy - 1000;
  gemm.idle = 1000;
  p.dispatch.commands[static_cast<std::size_t>(CommandKind::composite)] = 2;
  p.dispatch.cycles = 80 + number;
  p.dispatch.bytes = 612;
  p.dma_reads = 10;
  p.dma_read_bytes = 40960;
  p.macs_useful = 100;
  p.macs_padded = 200;
  p.math_elements = 7;
  p.tile_stages = 5;
  return p;
}

LaunchResult launch(Ps length, std::uint32_t pes) {
  LaunchResult l;
  l.start = 500;
  l.end = 500 + length;
  for (std::uint32_t i = 0; i < pes; ++i) l.pes.push_back(pe(i, length, 4000));
  l.links = {{"hbm0.pc0", 32, 64, 2000}, {"r0c0.e", 256, 0, 0}};
  l.bounds = {4, 8.5, 1, 2, 100, "memory", 0};
  l.messages = 3;
  return l;
}

RunSummary summary() {
  static const LaunchResult one = launch(10000, 2), two = launch(20000, 1);
  RunSummary s;
  s.bench = "gqa-decode-long";
  s.params = {{"S_kv", std::int64_t{4096}}, {"dtype", std::string("f16")}, {"causal", true}};
  s.topology = "topologies/one \"pe\".yaml";
  s.mode = "data";
  s.seed = 18446744073709551615ull;
  s.version = "0.1.0";
  s.latency_ns = 30.0;
  s.wall_s = 1.23456;
  s.activations = 42;
  s.peak_rss_mb = 17.25;
  s.totals = totals_of({&one, &two});
  s.numerics = RunSummary::NumericsVerdict{1e-3, 2.5e-4, 5e-4, true};
  s.op_log = RunSummary::OpLogDigest{99, 0xabcdef};
  s.extra = {{"rounds", std::int64_t{3}}, {"efficiency", 0.125}};
  s.tables = {{"pe2pe", {"hop", "ns"}, {{std::string("h1"), 12.5}, {std::string("h2"), 1300.0}}}};
  s.verdict = "bound by memory";
  return s;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(run_summary)

BOOST_AUTO_TEST_CASE(counters_are_sums_and_accounts_stay_closed) {
  const LaunchResult one = launch(10000, 2), two = launch(20000, 1);
  const LaunchTotals t = totals_of({&one, &two});
  BOOST_CHECK_EQUAL(t.length, 30000);
  BOOST_CHECK_EQUAL(t.pes, 2u);
  for (const auto& e : t.engines) BOOST_CHECK_EQUAL(e.total(), 2 * 10000 + 20000);
  const EngineTime& gemm = t.engines[static_cast<std::size_t>(EngineKind::gemm)];
  BOOST_CHECK_EQUAL(gemm.busy, 12000);
  BOOST_CHECK_CLOSE(utilization_of(gemm), 0.3, 1e-9);
  BOOST_CHECK_EQUAL(t.dispatch.commands[static_cast<std::size_t>(CommandKind::composite)], 6u);
  BOOST_CHECK_EQUAL(t.dispatch.cycles, 241);
  BOOST_CHECK_EQUAL(t.cycles_max_pe, 160);  // PE 0 in both launches
  BOOST_CHECK_EQUAL(t.dma_read_bytes, 3 * 40960u);
  BOOST_CHECK_EQUAL(t.messages, 6u);
  BOOST_CHECK_EQUAL(t.bounds.memory_ns, 17.0);
  BOOST_CHECK_EQUAL(t.bounds.bound_by, "memory");
  BOOST_CHECK_CLOSE(t.bounds.ratio, 30.0 / 17.0, 1e-9);
  BOOST_REQUIRE_EQUAL(t.links.size(), 2u);
  BOOST_CHECK_EQUAL(t.links[0].bytes, 128u);
  BOOST_CHECK_EQUAL(utilization_of(EngineTime{}), 0.0);
}

BOOST_AUTO_TEST_CASE(the_json_has_the_specified_keys_in_their_order) {
  const std::string text = summary_json(summary());
  const auto json = nlohmann::ordered_json::parse(text);
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  BOOST_CHECK((keys == std::vector<std::string>{"bench",    "params", "topology",   "mode",       "seed",
                                                "version",  "status", "latency_ns", "wall_s",     "sim",
                                                "dispatch", "dma",    "ipcq",       "engines",    "bounds",
                                                "numerics", "op_log", "rounds",     "efficiency", "tables"}));
  BOOST_CHECK_EQUAL(json["params"]["S_kv"], 4096);
  BOOST_CHECK_EQUAL(json["params"]["causal"], true);
  BOOST_CHECK_EQUAL(json["topology"], "topologies/one \"pe\".yaml");
  BOOST_CHECK_EQUAL(json["seed"].get<std::uint64_t>(), 18446744073709551615ull);
  BOOST_CHECK(text.find("\"latency_ns\": 30.000,") != std::string::npos);
  BOOST_CHECK_EQUAL(json["sim"]["tile_stages"], 15);
  BOOST_CHECK_EQUAL(json["dispatch"]["commands"]["composite"], 6);
  BOOST_CHECK_EQUAL(json["dispatch"]["commands"]["ipcq_recv"], 0);
  BOOST_CHECK_EQUAL(json["engines"].size(), kEngineKinds);
  BOOST_CHECK_EQUAL(json["engines"]["gemm"]["macs_padded"], 600);
  BOOST_CHECK_EQUAL(json["op_log"]["hash"], "0000000000abcdef");
  BOOST_CHECK_EQUAL(json["numerics"]["pass"], true);
  BOOST_CHECK_EQUAL(json["tables"]["pe2pe"][1]["hop"], "h2");
  for (const auto& item : json["engines"].items()) {
    const auto& e = item.value();
    double sum = e["busy_ns"].get<double>() + e["idle_ns"].get<double>();
    for (const auto& stall : e["stall_ns"].items()) sum += stall.value().get<double>();
    BOOST_CHECK_CLOSE(sum, 40.0, 1e-9);
    BOOST_CHECK_GE(e["utilization"].get<double>(), 0.0);
    BOOST_CHECK_LE(e["utilization"].get<double>(), 1.0);
  }
  BOOST_CHECK_EQUAL(summary_json(summary()), text);
}

BOOST_AUTO_TEST_CASE(an_empty_run_and_a_failed_one_are_still_json) {
  RunSummary s;
  s.status = "failed";
  s.message = "deadlock:\n\tpe0 waits";
  s.totals = totals_of({});
  const auto json = nlohmann::json::parse(summary_json(s));
  BOOST_CHECK_EQUAL(json["message"], "deadlock:\n\tpe0 waits");
  BOOST_CHECK(json["numerics"].is_null());
  BOOST_CHECK_EQUAL(json["bounds"]["bound_by"], "");
  BOOST_CHECK_EQUAL(json["bounds"]["ratio"], 0.0);
  BOOST_CHECK(summary_table(s).find("failed") != std::string::npos);
  BOOST_CHECK(summary_table(s).find("latency") == std::string::npos);  // there is none to show
}

// What was not simulated is null, never 0.
BOOST_AUTO_TEST_CASE(unknown_times_are_null) {
  RunSummary s = summary();
  s.mode = "emit";
  const auto emitted = nlohmann::json::parse(summary_json(s));
  for (const char* key : {"dma", "ipcq", "engines"}) BOOST_CHECK_MESSAGE(emitted.at(key).is_null(), key);
  for (const char* key : {"compute_ns", "memory_ns", "tcm_ns", "serial_ns"})
    BOOST_CHECK_MESSAGE(emitted["bounds"].at(key).is_null(), key);
  BOOST_CHECK_EQUAL(emitted["bounds"]["dispatch_ns"].get<double>(), s.totals.bounds.dispatch_ns);
  BOOST_CHECK_EQUAL(emitted["latency_ns"].get<double>(), 30.0);
  BOOST_CHECK(summary_table(s).find("compute") == std::string::npos);
  s = RunSummary{};
  s.status = "failed";
  BOOST_CHECK(nlohmann::json::parse(summary_json(s)).at("latency_ns").is_null());
}

BOOST_AUTO_TEST_CASE(the_table_shows_use_stalls_bounds_and_verdict) {
  const std::string text = summary_table(summary());
  for (const char* part :
       {"gqa-decode-long", "S_kv 4096", "30.000 ns", "1.765 x the memory bound", "gemm", "30.0", "operands_dma 62.5",
        "6 composite", "memory 17.000", "PASS", "relative RMSE 0.00025", "unused", "h2", "1300"})
    BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, "no '" << part << "' in\n" << text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) BOOST_CHECK_LE(line.size(), 100u);
  RunSummary s = summary();
  s.numerics->pass = false;
  BOOST_CHECK(summary_table(s).find("FAIL") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
