// diff, report, selfcheck and whatif: what they say of real runs.
#include "cli_support.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace {

using namespace kb::test;
using Json = nlohmann::ordered_json;

std::vector<std::string> run(const std::string& machine, const std::string& bench, const std::string& out,
                             const std::vector<std::string>& settings) {
  std::vector<std::string> args{"run", "--topology", topology(machine), "--bench", bench, "--out", out};
  for (const auto& s : settings) args.insert(args.end(), {"--set", s});
  return args;
}

void must_run(const TempDir& dir, const std::vector<std::string>& args) {
  const Ended e = kernbench(dir, args);
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
}

/// "1,234.500" as a number.
double number(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  return std::stod(text);
}

/// The groups of a table of `diff`, each closed by a line "= latency": what their differences add up to, and what that
/// line says.
std::vector<std::pair<double, double>> lines_of_accounts(const std::string& text, const std::string& title) {
  std::vector<std::pair<double, double>> groups;
  std::istringstream lines(text);
  std::string line;
  double sum = 0;
  bool inside = false;
  // The engine stands in the first of its lines only.
  const std::regex row(R"(^ .*\S +-?[\d,]+\.\d+ +-?[\d,]+\.\d+ +(-?[\d,]+\.\d+)$)");
  while (std::getline(lines, line)) {
    std::smatch m;
    if (contains(line, title))
      inside = true;
    else if (inside && line.empty())
      break;
    else if (inside && std::regex_match(line, m, row)) {
      if (contains(line, "= latency")) {
        groups.emplace_back(sum, number(m[1]));
        sum = 0;
      } else {
        sum += number(m[1]);
      }
    }
  }
  return groups;
}

/// The data that a page carries.
Json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const auto at = page.find(begin);
  BOOST_REQUIRE(at != std::string::npos);
  return Json::parse(page.substr(at + begin.size(), page.find("</script>", at) - at - begin.size()));
}

BOOST_AUTO_TEST_SUITE(explain)

BOOST_AUTO_TEST_CASE(diff_of_equal_runs_is_empty) {
  const TempDir dir;
  must_run(dir, run("one_pe.yaml", "gemm", "a", {"bench.M=64", "bench.K=128", "bench.N=64"}));
  must_run(dir, run("one_pe.yaml", "gemm", "b", {"bench.M=64", "bench.K=128", "bench.N=64"}));
  const Ended e = kernbench(dir, {"diff", "a", "b"});
  BOOST_TEST(e.code == 0, e.out);
  BOOST_TEST(contains(e.out, "op logs: the same "));
  BOOST_TEST(contains(e.out, "summaries: the same"));
  BOOST_TEST(kernbench(dir, {"diff", "a/op_log.jsonl", "b/op_log.jsonl"}).code == 0);
}

BOOST_AUTO_TEST_CASE(diff_names_the_divergence_and_adds_up_to_the_latency) {
  const TempDir dir;
  must_run(dir, run("one_pe.yaml", "gemm", "a", {"bench.M=64", "bench.K=512", "bench.N=64"}));
  must_run(dir, run("one_pe.yaml", "gemm", "b", {"bench.M=64", "bench.K=512", "bench.N=64", "cube.hbm.pc_bw_gbs=8"}));
  const Ended e = kernbench(dir, {"diff", "a", "b"});
  BOOST_TEST(e.code == 1, e.err);
  BOOST_TEST(contains(e.out, "cube.hbm.pc_bw_gbs: 32 in A, 8 in B"), e.out);
  BOOST_TEST(contains(e.out, "first divergence, after "), e.out);
  BOOST_TEST(contains(e.out, "t_end_ns: "), e.out);

  const double latency_a = Json::parse(read_text(dir / "a/summary.json"))["latency_ns"],
               latency_b = Json::parse(read_text(dir / "b/summary.json"))["latency_ns"];
  // 64 KiB of A and 64 KiB of B through channels of 8 x 8 GB/s instead of 8 x 32 GB/s.
  BOOST_TEST(latency_b - latency_a > 131072 / 64.0 - 131072 / 256.0 - 100);
  // The critical path: what the first of each group says adds up too. Operations of several kinds of commands are split
  // in indented lines, which add up to their operation.
  double path = 0, kinds = 0, operation = 0, latency = 0;
  std::istringstream lines(e.out.substr(e.out.find("what the latency was made of")));
  std::string line;
  const std::regex row(R"(^  (  of )?(\S.*?) +-?[\d,]+\.\d+ +-?[\d,]+\.\d+ +(-?[\d,]+\.\d+)$)");
  for (std::getline(lines, line); std::getline(lines, line) && !line.empty();) {
    std::smatch m;
    if (!std::regex_match(line, m, row)) continue;
    if (m[1].matched) {
      kinds += number(m[3]);
      continue;
    }
    BOOST_TEST((kinds == 0 || std::abs(kinds - operation) < 0.02), line);
    kinds = 0;
    (m[2] == "= latency" ? latency : path) += operation = number(m[3]);
  }
  BOOST_TEST(std::abs(latency - (latency_b - latency_a)) < 0.002, e.out);
  BOOST_TEST(std::abs(path - latency) < 0.02, e.out);

  const auto accounts = lines_of_accounts(e.out, "where the time of the average PE went");
  BOOST_TEST(accounts.size() >= 4u, e.out);
  for (const auto& [sum, said] : accounts) {
    BOOST_TEST(std::abs(sum - (latency_b - latency_a)) < 0.02);
    BOOST_TEST(std::abs(said - (latency_b - latency_a)) < 0.002);
  }
}

BOOST_AUTO_TEST_CASE(diff_finds_one_changed_record_and_a_shorter_log) {
  const TempDir dir;
  must_run(dir, run("one_pe.yaml", "gemm", "a", {"bench.M=32", "bench.K=128", "bench.N=32"}));
  const std::string log = read_text(dir / "a/op_log.jsonl");
  std::size_t cut = log.find('\n', log.size() / 2) + 1;
  write_text(dir / "short.jsonl", log.substr(0, cut));
  const Ended shorter = kernbench(dir, {"diff", "a/op_log.jsonl", "short.jsonl"});
  BOOST_TEST(shorter.code == 1);
  BOOST_TEST(contains(shorter.out, "B     ends here"), shorter.out);
  BOOST_TEST(kernbench(dir, {"diff", "a", "nowhere"}).code == 4);
}

BOOST_AUTO_TEST_CASE(report_of_a_run_shows_all_sections) {
  const TempDir dir;
  must_run(dir, run("one_cube.yaml", "gemm", "out", {"bench.M=64", "bench.K=512", "bench.N=72", "bench.pes=4"}));
  const Ended e = kernbench(dir, {"report", "out"});
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
  const std::string page = read_text(dir / "out/report.html");
  BOOST_TEST(!std::regex_search(page.substr(0, 2000), std::regex("(src|href)=\"http")));
  const Json data = data_of(page);
  BOOST_TEST(contains(data["sentence"], "Limited by "), data["sentence"]);
  for (const auto& a : data["accounts"]) {
    double sum = 0;
    for (const auto& p : a["parts"]) sum += p[1].get<double>();
    BOOST_TEST(std::abs(sum - a["total"].get<double>()) < 1e-6 * sum);
  }
  BOOST_TEST(data["timeline"]["pes"].size() == 4u);
  BOOST_TEST(data["roofline"]["padded_gflops"].get<double>() < data["roofline"]["peak_gflops"].get<double>());
  BOOST_TEST(data["roofline"]["gflops"].get<double>() <= data["roofline"]["padded_gflops"].get<double>());
  BOOST_TEST(data["map"]["links"].size() > 100u);
  for (const auto& l : data["map"]["links"]) BOOST_TEST((l[4].get<double>() >= 0 && l[4].get<double>() <= 1));
}

BOOST_AUTO_TEST_CASE(report_names_the_nearest_pe) {
  const TempDir dir;
  must_run(dir, run("one_cube.yaml", "gemm", "out", {"bench.M=32", "bench.K=64", "bench.N=32", "bench.pes=2"}));
  const Ended e = kernbench(dir, {"report", "out", "--pe", "sip0.cube0.pe11"});
  BOOST_TEST(e.code == 2);
  BOOST_TEST(contains(e.err, "did you mean 'sip0.cube0.pe1'"), e.err);
  BOOST_TEST(kernbench(dir, {"report", "out", "--pe", "sip0.cube0.pe1"}).code == 0);
}

BOOST_AUTO_TEST_CASE(report_of_a_sweep_shows_curves) {
  const TempDir dir;
  write_text(dir / "s.yaml", "topology: " + topology("one_pe.yaml") +
                                 "\nbench: gemm\ngrid:\n  bench.K: [64, 128, 256, 512]\n  pe.dma.outstanding: [1, "
                                 "4]\nset: {bench.M: 64, bench.N: 64}\n");
  BOOST_REQUIRE(kernbench(dir, {"sweep", "s.yaml", "--out", "o"}).code == 0);
  const Ended e = kernbench(dir, {"report", "o"});
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
  BOOST_TEST(contains(e.out, "8 points over bench.K, pe.dma.outstanding: 8 done"), e.out);
  const Json data = data_of(read_text(dir / "o/report.html"));
  BOOST_TEST(data["setup"].is_array());
  for (const auto& p : data["sweep"]["points"]) {
    // 64 x K x 64 MACs at 4096 per ns; never faster than that.
    const double k = p["settings"]["bench.K"], compute = p["summary"]["bounds"]["compute_ns"];
    BOOST_TEST(compute == k);
    BOOST_TEST(p["summary"]["latency_ns"].get<double>() >= compute);
  }
}

void check_laws(const std::string& machine) {
  const TempDir dir;
  const Ended e = kernbench(dir, {"selfcheck", "--topology", topology(machine)});
  BOOST_TEST(e.code == 0, e.out << e.err);
  for (const char* law : {"bounds", "monotone", "conservation", "closed accounts", "symmetry", "independence",
                          "streams", "scale", "liveness", "numerics"})
    BOOST_TEST(contains(e.out, law), law);
}

BOOST_AUTO_TEST_CASE(selfcheck_holds_on_one_pe) {
  check_laws("one_pe.yaml");
}

BOOST_AUTO_TEST_CASE(selfcheck_holds_on_one_cube) {
  check_laws("one_cube.yaml");
}

BOOST_AUTO_TEST_CASE(whatif_finds_the_resource_that_bounds_the_run) {
  const TempDir dir;
  // One row of output per weight: memory is the bound, whatever else is doubled.
  const Ended e =
      kernbench(dir, {"whatif", "--topology", topology("one_pe.yaml"), "--bench", "gemm", "--set", "bench.M=8", "--set",
                      "bench.K=1024", "--set", "bench.N=256", "--set", "pe.dma.outstanding=8"});
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
  BOOST_TEST(contains(e.out, "whole path to memory (these four) bounds this run most"), e.out);
  // The path has no gaps: it is as long as the latency.
  std::smatch m;
  BOOST_REQUIRE_MESSAGE(
      std::regex_search(e.out, m, std::regex(R"(critical path: ([\d,.]+) ns in \d+ steps \(latency ([\d,.]+) ns\))")),
      e.out);
  BOOST_TEST(number(m[1]) <= number(m[2]) + 0.001);
  BOOST_TEST(number(m[1]) >= 0.9 * number(m[2]));
}

BOOST_AUTO_TEST_CASE(unknown_names_are_answered_with_the_nearest) {
  const TempDir dir;
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& answer) {
    const Ended e = kernbench(dir, arguments);
    BOOST_TEST(e.code == 2);
    BOOST_TEST(contains(e.err, answer), e.err);
  };
  refused({"repotr", "out"}, "found command 'repotr'; did you mean 'report'?");
  refused({"run", "--topologi", "x"}, "found option '--topologi'; did you mean '--topology'?");
  refused({"sweep", "s.yaml", "--job=4"}, "found option '--job'; did you mean '--jobs'?");
  refused({"run", "--topology", topology("one_pe.yaml"), "--bench", "gem"}, "nearest: gemm");
  refused({"run", "--topology", topology("one_pe.yaml"), "--bench", "gemm", "--set", "pe.dma.outstading=2"},
          "'pe.dma.outstanding'");
  // A value may look like an option.
  BOOST_TEST(!contains(kernbench(dir, {"sweep", "s.yaml", "--slurm-option=--partition=p"}).err, "found option"));
}

BOOST_AUTO_TEST_CASE(completion_and_manual_know_every_command) {
  const TempDir dir;
  const Ended help = kernbench(dir, {"--help"}), script = kernbench(dir, {"completion"}),
              page = kernbench(dir, {"manual"});
  BOOST_TEST(script.code == 0);
  BOOST_TEST(page.code == 0);
  write_text(dir / "completion.bash", script.out);
  for (const char* command :
       {"run", "list", "describe", "validate", "replay", "sweep", "diff", "report", "selfcheck", "whatif"}) {
    BOOST_TEST(contains(help.out, command));
    BOOST_TEST(contains(script.out, std::string("    ") + command + ") options="), command);
    BOOST_TEST(contains(page.out, std::string(".SS kernbench ") + command), command);
  }
  BOOST_TEST(!contains(help.out, "sweep-points"));
  const auto complete = [&](const std::string& words, int at) {
    const std::string code = "source completion.bash; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(at) +
                             "; _kernbench; echo \"${COMPREPLY[@]}\"";
    const Ended e = Process(dir, {"/bin/bash", "-c", code}).wait();
    BOOST_TEST(e.err.empty(), e.err);
    return e.out;
  };
  BOOST_TEST(complete("kernbench sel", 1) == "selfcheck\n");
  BOOST_TEST(contains(complete("kernbench run --bench gem", 3), "gemm"));
  BOOST_TEST(contains(complete("kernbench run --bench gemm --set bench.M", 5), "bench.M="));
  BOOST_TEST(contains(complete("kernbench run --set pe.dma.outs", 3), "pe.dma.outstanding="));
  BOOST_TEST(contains(complete("kernbench sweep --res", 2), "--resume"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
