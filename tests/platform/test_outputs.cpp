// What a run leaves behind: reproducible logs, replay, exit codes, files.
#include "session.h"

#include <nlohmann/json.hpp>

#include <set>
#include <tuple>

using namespace kb;
using namespace kb::test;

namespace {

const Settings kDecode{{"S_kv", "300"}, {"variant", "opt2"}};

std::string summary_without_wall(const std::string& text) {
  auto j = nlohmann::json::parse(text);
  for (const char* key : {"wall_s", "sim", "version"}) j.erase(key);
  return j.dump();
}

DispatchCounts dispatch_of(const Settings& params, Mode mode) {
  const RunOutcome r = run("one_pe", "gqa-decode-long", params, mode);
  return launch_of(r).pes[0].dispatch;
}

/// The error of a run that must not start.
std::string refused(const RunSpec& s) {
  try {
    run_session(s, benches());
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(outputs)

BOOST_AUTO_TEST_CASE(the_same_run_gives_the_same_bytes_with_traces_on_or_off) {
  TempDir dir;
  std::vector<std::string> logs, summaries;
  for (int i = 0; i < 3; ++i) {
    RunSpec s = spec("one_cube", "gqa-decode-long", kDecode, Mode::data);
    s.out = dir / std::to_string(i);
    s.traces.vcd = s.traces.perfetto = s.traces.sqlite = i == 1;
    const RunOutcome r = run(s);
    logs.push_back(read_text(s.out + "/op_log.jsonl"));
    summaries.push_back(summary_without_wall(r.summary_json));
  }
  BOOST_TEST(logs[0].size() > 10000u);
  BOOST_TEST((logs[0] == logs[1]));
  BOOST_TEST((logs[0] == logs[2]));
  BOOST_TEST(summaries[0] == summaries[1]);
  BOOST_TEST(summaries[0] == summaries[2]);
}

// A second run into the same folder: no file of the first is left that would be taken for the second's.
BOOST_AUTO_TEST_CASE(a_run_removes_what_a_former_one_left) {
  TempDir dir;
  RunSpec first = spec("one_pe", "gemm", {{"M", "32"}}, Mode::data);
  first.out = dir.path().string();
  first.dump = first.traces.vcd = first.traces.perfetto = first.traces.sqlite = true;
  run(first);
  write_text(dir / "op_log.jsonl.part", "cut short");
  RunSpec second = spec("one_pe", "gemm", {{"M", "64"}});
  second.out = first.out;
  second.log = false;
  run(second);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) names.insert(entry.path().filename().string());
  BOOST_TEST((names == std::set<std::string>{"config.yaml", "links.csv", "summary.json", "tensors"}));
}

// Modules built and bound in other orders: the op logs are the same bytes, with contention on links, slices and
// queues over two SIPs.
BOOST_AUTO_TEST_CASE(the_order_of_construction_leaves_no_trace_in_the_op_log) {
  TempDir dir;
  const std::vector<std::tuple<const char*, const char*, Settings>> runs{
      {"default", "allreduce", {{"algo", "tree"}, {"world", "200"}, {"n_elem", "100"}}},
      {"default", "dma-contention", {{"pattern", "hotspot"}, {"issuers", "256"}, {"bytes", "1000"}, {"count", "2"}}},
      {"eight_cubes", "gqa-decode-long", {{"C", "8"}, {"P", "8"}, {"S_kv", "2000"}, {"variant", "opt2"}}}};
  for (const auto& [machine, bench, params] : runs) {
    std::string reference;
    for (const std::uint64_t seed : {0u, 1u, 2u}) {
      RunSpec s = spec(machine, bench, params);
      s.build_shuffle = seed;
      s.out = dir / (bench + std::to_string(seed));
      run(s);
      const std::string log = read_text(s.out + "/op_log.jsonl");
      if (seed == 0) reference = log;
      BOOST_TEST(log.size() > 100000u);
      BOOST_TEST((log == reference), bench << ", order " << seed);
    }
  }
}

// Timing never depends on values: the two modes log the same operations at the same times.
BOOST_AUTO_TEST_CASE(data_mode_takes_the_same_time) {
  TempDir dir;
  RunSpec s = spec("one_pe", "gqa-decode-long", kDecode, Mode::timing);
  s.out = dir / "timing";
  run(s);
  s.mode = Mode::data;
  s.out = dir / "data";
  run(s);
  BOOST_TEST((read_text(dir / "timing/op_log.jsonl") == read_text(dir / "data/op_log.jsonl")));
}

BOOST_AUTO_TEST_CASE(a_saved_run_replays_to_the_same_bytes_and_a_changed_log_does_not) {
  TempDir dir;
  RunSpec s = spec("one_pe", "gqa-decode-long", kDecode, Mode::data);
  s.out = dir / "run";
  s.dump = true;
  run(s);
  BOOST_TEST((replay_session(s.out, benches()).code == ExitCode::done));

  const std::string log = read_text(s.out + "/op_log.jsonl");
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = log;
    const auto at = text.find(from, text.size() / 2);
    BOOST_REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    std::ofstream(s.out + "/op_log.jsonl", std::ios::binary) << text;
    try {
      return replay_session(s.out, benches()).code != ExitCode::done;
    } catch (const Error&) {
      return true;
    }
  };
  BOOST_TEST(damaged("\"op_name\":\"gemm\"", "\"op_name\":\"math\""));
  BOOST_TEST(damaged("\"tile\":[0,0,0]", "\"tile\":[7,0,0]"));
  BOOST_TEST(damaged("\"t_end_ns\":1", "\"t_end_ns\":2"));
  BOOST_TEST(damaged("\"bytes\":", "\"bytes\":1"));
}

// The bench's verdict, checked from the dumped files alone: softmax(q K^T / sqrt(d)) V in double precision.
BOOST_AUTO_TEST_CASE(an_outside_computation_agrees_with_the_verdict) {
  TempDir dir;
  const std::int64_t s_kv = 130, g = 4, d = 64, h = 2;
  RunSpec s = spec("one_pe", "gqa-decode-long",
                   {{"S_kv", "130"}, {"G", "4"}, {"d", "64"}, {"H_kv", "2"}, {"dtype", "f32"}}, Mode::data);
  s.out = dir / "run";
  s.dump = true;
  const RunOutcome r = run(s);
  const auto tensor = [&](const char* name, std::size_t elements) {
    const std::string text = read_text(s.out + "/tensors/" + name + ".npy");
    BOOST_REQUIRE(text.size() > elements * 4);
    std::vector<float> values(elements);  // the data ends the file
    std::memcpy(values.data(), text.data() + text.size() - elements * 4, elements * 4);
    return values;
  };
  const auto q = tensor("q", h * g * d), k = tensor("k", h * s_kv * d), v = tensor("v", h * s_kv * d),
             o = tensor("o", h * g * d);
  double error = 0, reference = 0;
  for (std::int64_t head = 0; head < h * g; ++head) {
    const std::int64_t kv = head / g;
    std::vector<double> p(static_cast<std::size_t>(s_kv));
    double top = -1e300, sum = 0;
    for (std::int64_t i = 0; i < s_kv; ++i) {
      double dot = 0;
      for (std::int64_t j = 0; j < d; ++j) dot += double{q[head * d + j]} * k[(kv * s_kv + i) * d + j];
      p[i] = dot / std::sqrt(static_cast<double>(d));
      top = std::max(top, p[i]);
    }
    for (auto& x : p) sum += x = std::exp(x - top);
    for (std::int64_t j = 0; j < d; ++j) {
      double want = 0;
      for (std::int64_t i = 0; i < s_kv; ++i) want += p[i] * v[(kv * s_kv + i) * d + j];
      want /= sum;
      error += (o[head * d + j] - want) * (o[head * d + j] - want);
      reference += want * want;
    }
  }
  const double rel = std::sqrt(error / reference);
  BOOST_TEST(rel <= 5e-6);
  BOOST_TEST(rel == r.result.numerics.rel_rmse, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(dumped_inputs_can_be_given_back) {
  TempDir dir;
  RunSpec s = spec("one_pe", "gemm", {{"M", "40"}, {"K", "50"}, {"N", "60"}}, Mode::data);
  s.out = dir / "one";
  s.dump = true;
  run(s);
  RunSpec again = s;
  again.seed = 99;
  again.out = dir / "two";
  again.inputs = {{"a", dir / "one/tensors/a.npy"}, {"b", dir / "one/tensors/b.npy"}};
  run(again);
  BOOST_TEST((read_text(dir / "one/tensors/c.npy") == read_text(dir / "two/tensors/c.npy")));
  again.params["K"] = "51";
  BOOST_TEST(refused(again).find("[40, 50]") != std::string::npos, refused(again));
  again.params["K"] = "50";
  again.inputs = {{"q", dir / "one/tensors/a.npy"}};
  BOOST_TEST(refused(again).find("--input q") != std::string::npos, refused(again));
}

BOOST_AUTO_TEST_CASE(bad_names_and_values_are_refused_before_the_run) {
  BOOST_TEST(refused(spec("one_pe", "gem", {})).find("gemm") != std::string::npos);
  BOOST_TEST(refused(spec("one_pe", "gemm", {{"Mx", "3"}})).find("nearest: M") != std::string::npos);
  BOOST_TEST(refused(spec("one_pe", "gemm", {{"dtype", "f17"}})).find("f16") != std::string::npos);
  BOOST_TEST(refused(spec("one_pe", "gemm", {{"pes", "2"}})).find("2") != std::string::npos);
  BOOST_TEST(refused(spec("no_such_file", "gemm", {})).find("no_such_file.yaml") != std::string::npos);
  RunSpec large = spec("one_pe", "gemm", {{"M", "1048576"}, {"K", "8192"}});
  BOOST_TEST(refused(large).find("largest free range") != std::string::npos, refused(large));
}

// Found during simulation: exit code 3, a status in the summary, a readable .part log.
BOOST_AUTO_TEST_CASE(scratch_overflow_ends_the_run_with_code_3) {
  TempDir dir;
  RunSpec s = spec("one_pe", "gemm", {{"M", "1024"}, {"K", "1024"}, {"N", "64"}, {"variant", "load_load"}});
  s.out = dir / "run";
  const RunOutcome r = run_session(s, benches());
  BOOST_TEST((r.code == ExitCode::model_error));
  BOOST_TEST(r.status == "failed");
  BOOST_TEST(r.message.find("scratch") != std::string::npos, r.message);
  BOOST_TEST(nlohmann::json::parse(read_text(s.out + "/summary.json"))["status"] == "failed");
  BOOST_TEST(std::filesystem::exists(s.out + "/op_log.jsonl.part"));
}

// load_load operands may fill scratch exactly: A and B of 512 KiB each.
BOOST_AUTO_TEST_CASE(scratch_can_be_filled_to_the_last_byte) {
  run("one_pe", "gemm", {{"M", "1024"}, {"K", "256"}, {"N", "1024"}, {"variant", "load_load"}});
}

BOOST_AUTO_TEST_CASE(a_command_over_the_byte_cap_says_how_large_it_is) {
  RunSpec s = spec("one_pe", "gqa-decode-long", kDecode);
  s.overrides.emplace_back("pe.cost_model.max_command_bytes", "305");
  const RunOutcome r = run_session(s, benches());
  BOOST_TEST((r.code == ExitCode::model_error));
  BOOST_TEST(r.message.find("306") != std::string::npos, r.message);
}

// Dispatch is the same with and without a machine.
BOOST_AUTO_TEST_CASE(emit_mode_counts_what_timing_mode_dispatches) {
  for (const char* variant : {"primitive", "opt2", "hybrid", "composite", "composite_extended"}) {
    const Settings p{{"S_kv", "640"}, {"variant", variant}};
    const DispatchCounts t = dispatch_of(p, Mode::timing);
    const DispatchCounts e = dispatch_of(p, Mode::emit);
    BOOST_TEST(t.cycles == e.cycles, variant);
    BOOST_TEST(t.bytes == e.bytes, variant);
    BOOST_TEST((t.commands == e.commands), variant);
  }
}

BOOST_AUTO_TEST_SUITE_END()
