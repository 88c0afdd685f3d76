// The program as a user meets it: exit codes, messages, files.
#include "cli_support.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

using namespace kb::test;

namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string w; in >> w;) all.push_back(w);
  return all;
}

std::string on(const std::string& machine) {
  return "--topology " + topology(machine + ".yaml");
}

void check(const std::string& arguments, int code, const std::string& text) {
  TempDir dir;
  const Ended r = kernbench(dir, words(arguments));
  BOOST_TEST(r.code == code, arguments << " ended with " << r.code << ": " << r.out << r.err);
  BOOST_TEST(contains(r.out + r.err, text), arguments << " said: " << r.out << r.err);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(command_line)

BOOST_AUTO_TEST_CASE(success_is_0) {
  check("run " + on("one_pe") + " --bench gemm --set bench.M=64 --mode data", 0, "PASS");
  check("list", 0, "gqa-decode-long");
  check("describe gemm", 0, "variant");
  check("describe metrics", 0, "engines.gemm.macs_useful");
  check("validate " + on("default"), 0, "256 PEs");
  check("--help", 0, "Examples");
}

BOOST_AUTO_TEST_CASE(bad_input_is_2_and_names_the_nearest) {
  check("rnu", 2, "did you mean 'run'");
  check("run " + on("one_pe") + " --bench gem", 2, "gemm");
  check("run " + on("one_pe") + " --bench gemm --set bench.L=3", 2, "nearest");
  check("run " + on("one_pe") + " --bench gemm --set pe.dma.outstandin=3", 2, "pe.dma.outstanding");
  check("run " + on("one_pe") + " --bench gemm --set pe.dma.outstanding=0", 2, "allowed");
  check("run " + on("one_pe") + " --bench gemm --set nonsense", 2, "key=value");
  check("run --topology no/such.yaml --bench gemm", 2, "no/such.yaml");
  check("run " + on("one_pe") + " --bench gemm --mode slow", 2, "timing, data, emit");
  check("run " + on("one_pe") + " --bench gemm --trace vdc --out x", 2, "did you mean 'vcd'");
  check("run " + on("one_pe") + " --bench gemm --trace vcd", 2, "--out DIR");
  check("run " + on("one_pe") + " --bench gemm --trace-window 5:1", 2, "T0:T1");
  check("run " + on("one_pe") + " --bench gemm --mode data --input a=missing.npy", 4, "missing.npy");
  check("run", 2, "--topology");
}

BOOST_AUTO_TEST_CASE(failures_during_simulation_are_3) {
  check("run " + on("one_pe") + " --bench gemm --set bench.M=2048 --set bench.variant=load_load", 3, "scratch");
}

BOOST_AUTO_TEST_CASE(seeds_that_are_no_64_bit_number_are_2) {
  for (const char* seed : {"-1", "18446744073709551616", "abc", "1.5"})
    check("run " + on("one_pe") + " --bench gemm --seed " + seed, 2, std::string("--seed: found '") + seed + "'");
  check("run " + on("one_pe") + " --bench gemm --mode emit --seed 18446744073709551615", 0, "seed 18446744073709551615");
}

BOOST_AUTO_TEST_CASE(what_a_mode_has_no_use_for_is_2) {
  const std::string run = "run " + on("one_pe") + " --bench gemm --set bench.M=1 ";
  check(run + "--dump --out x", 2, "--dump: found --mode timing");
  check(run + "--mode emit --input a=a.npy", 2, "--input: found --mode emit");
  check(run + "--mode emit --trace vcd --out x", 2, "--trace: found --mode emit");
  check(run + "--trace-window 0:5", 2, "found no --trace");
  check(run + "--trace-scope x*", 2, "found no --trace");
  check(run + "--trace vcd --out x --trace-scope x*", 2, "found 'x*', which covers nothing; allowed: a pattern");
}

BOOST_AUTO_TEST_CASE(unwritable_directories_are_4) {
  check("run " + on("one_pe") + " --bench gemm --out /proc/nowhere", 4, "/proc/nowhere");
}

BOOST_AUTO_TEST_CASE(wrong_numbers_are_1) {
  // Half of the inputs do not fit f16: the reference itself is infinite, which never passes.
  TempDir dir;
  check("run " + on("one_pe") +
            " --bench gemm --set bench.M=40 --set bench.K=40 --set bench.N=40 --mode data --dump --out " + (dir / "a"),
        0, "PASS");
  std::string npy = read_text(dir / "a/tensors/a.npy");
  npy[npy.size() - 1] = 0x7c;  // the last element becomes inf
  npy[npy.size() - 2] = 0;
  std::ofstream(dir / "inf.npy", std::ios::binary) << npy;
  check(
      "run " + on("one_pe") +
          " --bench gemm --set bench.M=40 --set bench.K=40 --set bench.N=40 --mode data --input a=" + (dir / "inf.npy"),
      1, "FAIL");
}

// Ctrl-C: exit code 130, the log closed as .part, the status in the summary.
BOOST_AUTO_TEST_CASE(an_interrupt_ends_the_run_cleanly) {
  TempDir dir;
  const std::string out = dir / "run";
  Process child(dir, [&] {
    auto argv = words("run " + on("one_pe") +
                      " --bench gemm --set bench.M=16384 --set bench.N=16384 --set bench.K=16384 --out run");
    argv.insert(argv.begin(), KB_PROGRAM);
    return argv;
  }());
  for (int i = 0; i < 600 && !std::filesystem::exists(out + "/op_log.jsonl.part"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  child.send(SIGINT);
  BOOST_TEST(child.wait().code == 130);
  BOOST_TEST(read_text(out + "/summary.json").find("\"interrupted\"") != std::string::npos);
  const std::string log = read_text(out + "/op_log.jsonl.part");
  BOOST_REQUIRE(!log.empty());
  BOOST_TEST(log.back() == '\n');
}

BOOST_AUTO_TEST_CASE(json_output_is_the_summary) {
  TempDir dir;
  const Ended r = kernbench(dir, words("run " + on("one_pe") + " --bench gemm --set bench.M=64 --json"));
  BOOST_TEST(r.code == 0);
  BOOST_TEST(r.out.front() == '{');
  BOOST_TEST(contains(r.out, "\"latency_ns\""));
  BOOST_TEST(r.err.empty(), r.err);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_4_and_what_was_finished_stays_readable) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "out");
  for (const char* file : {"out/op_log.jsonl.part", "out/links.csv.part"})
    std::filesystem::create_symlink("/dev/full", dir / file);
  const Ended e = kernbench(dir, words("run " + on("one_pe") + " --bench gemm --trace sqlite,perfetto --out out"));
  BOOST_TEST(e.code == 4, e.err);
  BOOST_TEST(contains(e.err, "out/op_log.jsonl.part: cannot write: No space left on device"), e.err);
  BOOST_TEST(!contains(e.err, "links.csv"), e.err);  // what comes later does not hide the first error
  BOOST_TEST(contains(read_text(dir / "out/summary.json"), "\"status\": \"failed\""));
  BOOST_TEST(contains(read_text(dir / "out/summary.json"), "op_log.jsonl.part: cannot write"));
  BOOST_TEST(!std::filesystem::exists(dir / "out/trace.sqlite"));
  // The other streams hold whole records up to the fault, closed.
  BOOST_TEST(read_text(dir / "out/trace.sqlite.part").substr(0, 15) == "SQLite format 3");
  BOOST_TEST(nlohmann::json::accept(read_text(dir / "out/trace.perfetto.json.part")));
}

BOOST_AUTO_TEST_SUITE_END()
