// Sweeps: what a sweep file may say, and that interruptions leave no trace in the results.
#include "cli_support.h"

#include <kb/kernels/bench.h>
#include <kb/platform/sweep.h>
#include <kb/tlm_if/errors.h>

#include <sqlite3.h>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace {

using namespace kb;
using namespace kb::test;

SweepSpec parse(const std::string& yaml) {
  BenchRegistry benches;
  add_standard_benches(benches);
  return parse_sweep(yaml, "dir/s.yaml", benches);
}

std::string refusal(const std::string& yaml) {
  try {
    parse(yaml);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

const std::string kHead = "topology: one_pe.yaml\nbench: gemm\n";

void check_refused(const std::string& rest, const std::string& begin, const std::string& part) {
  const std::string message = refusal(kHead + rest);
  BOOST_CHECK_MESSAGE(message.rfind(begin, 0) == 0 && contains(message, part), message);
}

/// Every row of every table, as text.
std::string rows_of(const std::string& path) {
  sqlite3* db = nullptr;
  BOOST_REQUIRE(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  std::string text;
  const auto add = [](void* to, int n, char** values, char**) {
    for (int i = 0; i < n; ++i)
      *static_cast<std::string*>(to) += std::string(values[i] != nullptr ? values[i] : "NULL") + "|";
    *static_cast<std::string*>(to) += "\n";
    return 0;
  };
  for (const char* sql : {"SELECT * FROM sweep WHERE key != 'topology'", "SELECT * FROM points"})
    BOOST_REQUIRE(sqlite3_exec(db, sql, add, &text, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  return text;
}

BOOST_AUTO_TEST_SUITE(sweep)

BOOST_AUTO_TEST_CASE(grid_takes_every_combination_first_key_slowest) {
  const SweepSpec s = parse(kHead + "set: {bench.N: 64}\ngrid:\n  bench.M: [1, 2]\n  pe.dma.outstanding: [1, 4, 8]\n");
  BOOST_TEST(s.topology == "dir/one_pe.yaml");
  BOOST_TEST(s.points.size() == 6u);
  BOOST_TEST(s.points[1][0].second == "1");
  BOOST_TEST(s.points[1][1].second == "4");
  BOOST_TEST(s.points[3][0].second == "2");
  BOOST_TEST(s.fixed.at(0).first == "bench.N");
  BOOST_TEST(s.keys.size() == 2u);
}

BOOST_AUTO_TEST_CASE(designs_follow_one_another) {
  const SweepSpec s = parse(kHead +
                            "random: {samples: 3, keys: {bench.dtype: [f16, f32]}}\n"
                            "grid: {bench.M: [1, 2]}\n"
                            "list:\n  - {bench.K: 5, pe.scheduler.tile: [64, 64, 32]}\n");
  BOOST_TEST(s.points.size() == 6u);
  BOOST_TEST(s.points[0][0].first == "bench.M");
  BOOST_TEST(s.points[2][1].second == "[64, 64, 32]");
  BOOST_TEST(s.points[5][0].first == "bench.dtype");
}

BOOST_AUTO_TEST_CASE(random_values_depend_on_seed_sample_and_key_alone) {
  const auto draw = [](int samples, int seed, const std::string& more) {
    return parse(kHead + "random:\n  samples: " + std::to_string(samples) + "\n  seed: " + std::to_string(seed) +
                 "\n  keys:\n    bench.M: {min: 1, max: 1000, scale: log}\n" + more)
        .points;
  };
  const auto few = draw(10, 3, ""), many = draw(40, 3, "    bench.K: {min: 1, max: 4}\n"), other = draw(10, 4, "");
  for (std::size_t i = 0; i < few.size(); ++i) BOOST_TEST(few[i][0].second == many[i][0].second);
  BOOST_TEST((few != other));
  std::set<std::string> seen;
  for (const auto& p : many) {
    const int m = std::stoi(p[0].second);
    BOOST_TEST((m >= 1 && m <= 1000));
    seen.insert(p[1].second);
  }
  BOOST_TEST(seen.size() == 4u);  // both ends occur
}

BOOST_AUTO_TEST_CASE(real_ranges_stay_within_their_ends) {
  for (const auto& p :
       parse(kHead + "random: {samples: 50, keys: {pe.tcm.read_bw_gbs: {min: 63.5, max: 64}}}\n").points) {
    const double v = std::stod(p[0].second);
    BOOST_TEST((v >= 63.5 && v <= 64.0));
  }
}

BOOST_AUTO_TEST_CASE(mistakes_are_named_with_their_line) {
  check_refused("grid: {bench.MM: [1]}\n", "dir/s.yaml:3: key 'bench.MM'", "did you mean 'bench.M'");
  check_refused("grid:\n  pe.dma.oustanding: [1]\n", "dir/s.yaml:4: key 'pe.dma.oustanding'", "'pe.dma.outstanding'");
  check_refused("gird: {bench.M: [1]}\n", "dir/s.yaml:3: key 'gird'", "did you mean 'grid'");
  check_refused("grid: {bench.M: [x]}\n", "dir/s.yaml:3: key 'bench.M': found x", "allowed: 1 ..");
  check_refused("grid: {pe.dma.outstanding: [0]}\n", "dir/s.yaml:3: key 'pe.dma.outstanding': found 0", "allowed:");
  check_refused("grid: {bench.M: 3}\n", "dir/s.yaml:3: key 'bench.M': found 3", "a list of values");
  check_refused("grid: {bench.M: [1], bench.M: [2]}\n", "dir/s.yaml:3: key 'bench.M'", "a duplicate of line 3");
  check_refused("grid: {pe.dma: [1]}\n", "dir/s.yaml:3: key 'pe.dma'", "a group of keys");
  check_refused("set: {bench.M: 3}\nlist:\n  - {bench.M: 4}\n", "dir/s.yaml:5: key 'bench.M'", "either fixed or swept");
  check_refused("random: {samples: 0, keys: {bench.M: [1]}}\n", "dir/s.yaml:3: key 'random.samples'", "from 1");
  check_refused("random: {samples: 1, keys: {bench.M: {min: 9, max: 3}}}\n", "dir/s.yaml:3: key 'bench.M: max'",
                "not less than min");
  check_refused("random: {samples: 1, keys: {bench.M: {min: 1, mx: 3}}}\n", "dir/s.yaml:3: key 'bench.M: mx'",
                "'bench.M: max'");
  check_refused("mode: timming\ngrid: {bench.M: [1]}\n", "dir/s.yaml:3: key 'mode'", "timing, data, emit");
  check_refused("", "dir/s.yaml: found no points", "grid, list and random");
  BOOST_TEST(contains(refusal("topology: x\nbench: gem\n"), "did you mean 'gemm'"));
  BOOST_TEST(contains(refusal("bench: gemm\n"), "key 'topology': found none"));
  BOOST_TEST(contains(refusal(""), "an empty file"));
}

BOOST_AUTO_TEST_CASE(too_many_points_are_refused_before_they_are_made) {
  std::string axis = "[1";
  for (int i = 2; i <= 2000; ++i) axis += "," + std::to_string(i);
  axis += "]";
  check_refused("grid:\n  bench.M: " + axis + "\n  bench.K: " + axis + "\n  bench.N: " + axis + "\n",
                "dir/s.yaml:3: key 'grid': found more than 1000000 points", "allowed");
}

// Instrumented programs take long to start.
#ifdef __SANITIZE_ADDRESS__
constexpr int kSamples = 22;
#else
constexpr int kSamples = 182;
#endif
constexpr int kPoints = 18 + kSamples;

/// kPoints points, two of which fail.
std::string big_sweep() {
  return "topology: " + topology("one_pe.yaml") +
         "\nbench: gemm\nmode: emit\n"
         "grid:\n  bench.M: [16, 32, 64, 128]\n  pe.scheduler.tile: [[32, 64, 32], [16, 64, 16]]\n"
         "  pe.cost_model.cycles_per_byte: [0.0, 0.25]\n"
         "list:\n  - {pe.cost_model.max_command_bytes: 16}\n  - {bench.M: 7, pe.cost_model.max_command_bytes: 16}\n"
         "random:\n  samples: " +
         std::to_string(kSamples) +
         "\n"
         "  keys: {bench.N: {min: 1, max: 512, scale: log}, bench.K: {min: 1, max: 4096, scale: log}, bench.dtype: "
         "[f16, f32]}\n";
}

BOOST_AUTO_TEST_CASE(killed_sweeps_resume_to_the_same_bytes) {
  const TempDir dir;
  write_text(dir / "s.yaml", big_sweep());
  const Ended calm = kernbench(dir, {"sweep", "s.yaml", "--out", "calm"});
  BOOST_TEST_REQUIRE(calm.code == 1, calm.err);  // two points fail
  BOOST_TEST(contains(calm.out, std::to_string(kPoints) +
                                    " points, 0 of them from before: " + std::to_string(kPoints - 2) + " done, 2 "),
             calm.out);
  BOOST_TEST(contains(calm.err, "point 16 (pe.cost_model.max_command_bytes=16): "), calm.err);

  // The program is killed between 0 and 300 ms after it began, whatever it does then.
  std::mt19937 random(20240229);
  for (int kill = 0; kill < 5; ++kill) {
    Process p(dir, {KB_PROGRAM, "sweep", "s.yaml", "--out", "stormy", "--resume"});
    usleep(random() % 300000);
    p.send(SIGKILL);
    BOOST_TEST(p.wait().code == 128 + SIGKILL);
    BOOST_TEST(!std::filesystem::exists(dir / "stormy/results.csv"));
  }
  const auto before = [&] {
    std::map<std::string, std::filesystem::file_time_type> times;
    if (std::filesystem::exists(dir / "stormy/points"))
      for (const auto& e : std::filesystem::directory_iterator(dir / "stormy/points"))
        if (e.path().extension() == ".json") times[e.path().string()] = e.last_write_time();
    return times;
  }();
  const Ended last = kernbench(dir, {"sweep", "s.yaml", "--out", "stormy", "--resume"});
  BOOST_TEST(last.code == 1, last.err);
  BOOST_TEST(contains(last.out,
                      std::to_string(kPoints) + " points, " + std::to_string(before.size()) + " of them from before"),
             last.out);
  for (const auto& [file, time] : before)
    BOOST_TEST((std::filesystem::last_write_time(file) == time), file << " was done again");

  BOOST_TEST(read_text(dir / "calm/results.csv") == read_text(dir / "stormy/results.csv"));
  BOOST_TEST(rows_of(dir / "calm/results.sqlite") == rows_of(dir / "stormy/results.sqlite"));
  const std::string header = read_text(dir / "calm/results.csv").substr(0, 4000);
  BOOST_TEST(!contains(header, "wall_s"));
}

BOOST_AUTO_TEST_CASE(an_interrupt_ends_the_runs_and_says_how_to_go_on) {
  const TempDir dir;
  write_text(dir / "s.yaml", big_sweep());
  Process p(dir, {KB_PROGRAM, "sweep", "s.yaml", "--out", "o"});
  while (!std::filesystem::exists(dir / "o/points/000001.json")) usleep(2000);
  p.send(SIGTERM);
  const Ended e = p.wait();
  BOOST_TEST(e.code == 130);
  BOOST_TEST(contains(e.err, "--resume"), e.err);
}

BOOST_AUTO_TEST_CASE(a_folder_with_a_sweep_needs_resume_and_other_points_are_done_again) {
  const TempDir dir;
  const std::string head = "topology: " + topology("one_pe.yaml") + "\nbench: gemm\nmode: emit\n";
  write_text(dir / "s.yaml", head + "grid: {bench.M: [16, 32]}\n");
  BOOST_TEST(kernbench(dir, {"sweep", "s.yaml", "--out", "o"}).code == 0);
  const Ended again = kernbench(dir, {"sweep", "s.yaml", "--out", "o"});
  BOOST_TEST(again.code == 2);
  BOOST_TEST(contains(again.err, "--resume"), again.err);
  // The first point is as before, the second is not.
  write_text(dir / "s.yaml", head + "grid: {bench.M: [16, 64, 32]}\n");
  const Ended changed = kernbench(dir, {"sweep", "s.yaml", "--out", "o", "--resume"});
  BOOST_TEST(contains(changed.out, "3 points, 1 of them from before: 3 done"), changed.out);
}

BOOST_AUTO_TEST_CASE(unknown_engine_names_the_nearest) {
  const TempDir dir;
  write_text(dir / "s.yaml", kHead + "grid: {bench.M: [16]}\n");
  const Ended e = kernbench(dir, {"sweep", "s.yaml", "--engine", "slrum"});
  BOOST_TEST(e.code == 2);
  BOOST_TEST(contains(e.err, "did you mean 'slurm'"), e.err);
}

// A curve has one value at each x: a second swept key needs --series, or points would be left out unseen.
BOOST_AUTO_TEST_CASE(plots_leave_no_point_out) {
  const TempDir dir;
  write_text(dir / "s.yaml", "topology: " + topology("one_pe.yaml") +
                                 "\nbench: gemm\nmode: emit\ngrid: {bench.M: [16, 32], "
                                 "pe.cost_model.fixed_per_composite_cycles: [10, 30]}\n");
  BOOST_TEST(kernbench(dir, {"sweep", "s.yaml", "--out", "o"}).code == 0);
  const Ended mixed = kernbench(dir, {"plot", "o", "--x", "bench.M", "--y", "latency_ns"});
  BOOST_TEST(mixed.code == 2);
  BOOST_TEST(contains(mixed.err, "found several values of latency_ns at bench.M 16"), mixed.err);
  const Ended split = kernbench(dir, {"plot", "o", "--x", "bench.M", "--y", "latency_ns", "--csv", "p.csv", "--series",
                                      "pe.cost_model.fixed_per_composite_cycles"});
  BOOST_TEST(split.code == 0, split.err);
  BOOST_TEST(contains(read_text(dir / "o/plot.svg"), "<svg"));
  BOOST_TEST(read_text(dir / "p.csv") ==
             "pe.cost_model.fixed_per_composite_cycles,bench.M,latency_ns\n10,16,10.0\n10,32,10.0\n30,16,30.0\n30,32,30.0\n");
}

#ifdef KB_HAVE_SLURM
BOOST_AUTO_TEST_CASE(slurm_runs_the_same_sweep_to_the_same_bytes) {
  const TempDir dir;
  write_text(dir / "s.yaml", "topology: " + topology("one_pe.yaml") +
                                 "\nbench: gemm\nmode: emit\ngrid: {bench.M: [16, 32, 48]}\n"
                                 "list:\n  - {pe.cost_model.max_command_bytes: 16}\n");
  const Ended local = kernbench(dir, {"sweep", "s.yaml", "--out", "local"});
  BOOST_TEST(local.code == 1);
  const Ended e = Process(dir, {std::string(KB_SOURCE_DIR) + "/tests/cli/with_slurm.sh", KB_PROGRAM, "sweep", "s.yaml",
                                "--out", "slurm", "--engine", "slurm", "--jobs", "2"})
                      .wait();
  BOOST_TEST(e.code == 1, e.err);
  BOOST_TEST(read_text(dir / "local/results.csv") == read_text(dir / "slurm/results.csv"));
  BOOST_TEST(rows_of(dir / "local/results.sqlite") == rows_of(dir / "slurm/results.sqlite"));
}
#endif

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
