// GEMM through the whole machine: values, bytes, bounds.
#include "session.h"

#include <random>

using namespace kb;
using namespace kb::test;

namespace {

Settings dims(std::int64_t m, std::int64_t k, std::int64_t n, Settings more = {}) {
  more["M"] = std::to_string(m);
  more["K"] = std::to_string(k);
  more["N"] = std::to_string(n);
  return more;
}

/// Passes the bench's own gate against double precision, and moved at least every operand byte.
void check_values(const Settings& params) {
  const RunOutcome r = run("one_pe", "gemm", params, Mode::data);
  BOOST_REQUIRE(r.result.numerics.checked);
  BOOST_REQUIRE(r.result.numerics.pass);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gemm)

// Each dimension at 1, T-1, T, T+1 and 2T+3 of its tile (32, 64, 32), in all combinations.
BOOST_AUTO_TEST_CASE(values_are_right_around_tile_edges) {
  for (const std::int64_t m : {1, 31, 32, 33, 67})
    for (const std::int64_t k : {1, 63, 64, 65, 131})
      for (const std::int64_t n : {1, 31, 32, 33, 67}) check_values(dims(m, k, n));
}

BOOST_AUTO_TEST_CASE(values_are_right_at_512_cubed) {
  for (const char* dtype : {"f16", "bf16", "f32"}) check_values(dims(512, 512, 512, {{"dtype", dtype}}));
}

BOOST_AUTO_TEST_CASE(values_are_right_on_random_shapes) {
  std::mt19937 rng(2026);
  const char* variants[] = {"ref_ref", "load_ref", "load_load"};
  const char* issues[] = {"composite", "async_tiled"};
  const char* dtypes[] = {"f16", "bf16", "f32"};
  for (int i = 0; i < 200; ++i)
    check_values(dims(1 + rng() % 150, 1 + rng() % 200, 1 + rng() % 150,
                      {{"variant", variants[rng() % 3]}, {"issue", issues[rng() % 2]}, {"dtype", dtypes[rng() % 3]}}));
}

// Small integers are exact in f16, and so are their sums in f32: any error is a fault.
BOOST_AUTO_TEST_CASE(small_integers_are_exact) {
  for (const char* issue : {"composite", "async_tiled"})
    for (const char* variant : {"ref_ref", "load_ref", "load_load"})
      for (const char* dtype : {"f32", "f16"}) {
        const RunOutcome r =
            run("one_pe", "gemm",
                dims(67, 30, 45, {{"inputs", "integers"}, {"issue", issue}, {"variant", variant}, {"dtype", dtype}}),
                Mode::data);
        BOOST_TEST(r.result.numerics.max_abs_err == 0.0);
      }
}

// The ways to issue a product differ in time, never in value.
BOOST_AUTO_TEST_CASE(variants_and_issue_styles_agree_bit_for_bit) {
  TempDir dir;
  std::string first;
  int n = 0;
  for (const char* issue : {"composite", "async_tiled"})
    for (const char* variant : {"ref_ref", "load_ref", "load_load"}) {
      RunSpec s = spec("one_pe", "gemm", dims(70, 64, 65, {{"issue", issue}, {"variant", variant}}), Mode::data);
      s.out = dir / std::to_string(n++);
      s.dump = true;
      s.log = false;
      run(s);
      const std::string c = read_text(s.out + "/tensors/c.npy");
      if (first.empty()) first = c;
      BOOST_TEST((c == first), issue << " " << variant);
    }
}

BOOST_AUTO_TEST_CASE(a_dimension_of_zero_is_refused) {
  for (const char* dim : {"M", "K", "N"}) {
    try {
      run_session(spec("one_pe", "gemm", {{dim, "0"}}), benches());
      BOOST_ERROR("no error");
    } catch (const InputError& e) {
      BOOST_TEST(std::string(e.what()).find(std::string(dim)) != std::string::npos, e.what());
      BOOST_TEST(std::string(e.what()).find("found '0'; allowed: 1 ..") != std::string::npos, e.what());
    }
  }
}

// 2048 cubed: 64 x 32 x 64 tile steps of 16 ns = 2.097 ms of MAC time. The planner's 4 x 4 blocks move
// A * 64/4 + B * 64/4 + C = 16 * 8 MiB * 2 + 8 MiB = 264 MiB; the plain order moves 64 * 8 * 2 + 8 = 1032 MiB.
BOOST_AUTO_TEST_CASE(a_large_product_is_near_its_bound_and_moves_a_quarter_of_the_bytes) {
  const RunOutcome r = run("one_pe", "gemm", dims(2048, 2048, 2048));
  const LaunchResult& l = launch_of(r);
  BOOST_TEST(l.bounds.compute_ns == 64.0 * 32 * 64 * 16);
  BOOST_TEST(l.bounds.compute_ns / r.result.latency_ns >= 0.95);
  const double mib = 1024.0 * 1024.0;
  const double moved = static_cast<double>(l.pes[0].dma_read_bytes + l.pes[0].dma_write_bytes);
  BOOST_TEST(moved == 264 * mib);
  BOOST_TEST(moved / (1032 * mib) <= 0.27);
  BOOST_TEST(l.pes[0].macs_useful == 2048ull * 2048 * 2048);
}

// N7: output tile after output tile, per k tile two loads and a dot, adds from the second k tile on, one store:
// 96 + 48 + 47 + 1 = 192 single ops of 8 cycles.
BOOST_AUTO_TEST_CASE(async_tiled_dispatch_is_1536_cycles) {
  const RunOutcome r = run("one_pe", "gemm", dims(32, 3072, 32, {{"issue", "async_tiled"}}));
  const DispatchCounts& d = launch_of(r).pes[0].dispatch;
  std::uint64_t commands = 0;
  for (const auto c : d.commands) commands += c;
  BOOST_TEST(commands == 192u);
  BOOST_TEST(d.cycles == 1536.0);
}

// More of any dimension never takes less time; 129 rows never beat 128.
BOOST_AUTO_TEST_CASE(more_work_never_takes_less_time) {
  for (int axis = 0; axis < 3; ++axis) {
    double last = 0;
    for (const std::int64_t d : {1, 16, 31, 32, 33, 64, 65, 100, 127, 128, 129, 160, 256}) {
      const RunOutcome r = run("one_pe", "gemm", dims(axis == 0 ? d : 64, axis == 1 ? d : 64, axis == 2 ? d : 64));
      BOOST_TEST(r.result.latency_ns >= last, "axis " << axis << " at " << d);
      last = r.result.latency_ns;
    }
  }
}

BOOST_AUTO_TEST_CASE(slower_hardware_never_makes_it_faster) {
  const auto latency = [](const std::string& key, const std::string& value) {
    RunSpec s = spec("one_pe", "gemm", dims(160, 160, 160));
    s.overrides.emplace_back(key, value);
    return run(s).result.latency_ns;
  };
  const double base = run("one_pe", "gemm", dims(160, 160, 160)).result.latency_ns;
  for (const auto& [key, value] : std::vector<Override>{{"pe.tcm.read_bw_gbs", "256"},
                                                        {"pe.tcm.write_bw_gbs", "64"},
                                                        {"cube.hbm.pc_bw_gbs", "16"},
                                                        {"cube.hbm.link_bw_gbs", "64"},
                                                        {"cube.noc.pe_dma_bw_gbs", "64"},
                                                        {"pe.dma.overhead_ns", "20"},
                                                        {"pe.scheduler.overhead_ns", "50"},
                                                        {"pe.gemm.overhead_ns", "3"},
                                                        {"pe.scheduler.tile_buffers", "1"},
                                                        {"cube.hbm.access_ns", "30"},
                                                        {"cube.hbm.switch_penalty_ns", "20"},
                                                        {"cube.noc.router_overhead_ns", "2"}})
    BOOST_TEST(latency(key, value) >= base, key);
}

// The exception to law 2 of decision 6. Blocks of 4 x 8 tiles use all eight buffers of B in every k step, so the next
// step's first read waits for this step's last FETCH; one more buffer gives most of it back. Bytes fall all the same.
BOOST_AUTO_TEST_CASE(larger_accumulators_can_take_all_tile_buffers) {
  const auto with = [](const char* accumulators, const char* buffers) {
    RunSpec s = spec("one_pe", "gemm", dims(512, 512, 512));
    s.overrides = {{"pe.gemm.accumulator_bytes", accumulators}, {"pe.scheduler.tile_buffers", buffers}};
    const RunOutcome r = run(s);
    return std::make_pair(r.result.latency_ns, launch_of(r).pes[0].dma_read_bytes);
  };
  const auto small = with("65536", "8"), large = with("131072", "8"), buffered = with("131072", "9");
  BOOST_TEST(large.first > small.first);
  BOOST_TEST(large.first <= 1.07 * small.first);
  BOOST_TEST(buffered.first < large.first);
  BOOST_TEST(buffered.first <= 1.005 * small.first);
  // 4 x 4 blocks of 32 x 32 outputs: 16 blocks, each 2 x 4 tiles of 4 KiB in each of 8 k steps; 4 x 8: 8 blocks, 12.
  BOOST_TEST(small.second == 16u * 8 * 8 * 4096);
  BOOST_TEST(large.second == 8u * 8 * 12 * 4096);
}

// Two reads and a write of a burst each on one channel: it turns once, and so much longer are the run and the serial
// sum. A long penalty and transfers in flight at once, whose bursts alternate on a channel, stay within the sum too.
BOOST_AUTO_TEST_CASE(turnarounds_are_part_of_the_serial_sum) {
  const auto bounds = [](const char* penalty, std::int64_t size, const char* outstanding) {
    RunSpec s = spec("one_pe", "gemm", dims(size, size, size));
    s.overrides = {{"cube.hbm.switch_penalty_ns", penalty}, {"pe.dma.outstanding", outstanding}};
    const RunOutcome r = run(s);
    return std::make_pair(r.result.latency_ns, launch_of(r).bounds.serial_ns);
  };
  const auto without = bounds("0", 1, "1"), with = bounds("5.5", 1, "1");
  BOOST_TEST(with.first == without.first + 5.5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(with.second == without.second + 5.5, boost::test_tools::tolerance(1e-9));
  for (const char* outstanding : {"1", "4"})
    BOOST_TEST(bounds("200", 100, outstanding).first > bounds("0", 100, outstanding).first);
}

// The exception to law 2 of decision 6: reads and writes share the channels, and where they meet depends on the shape.
BOOST_AUTO_TEST_CASE(reads_and_writes_can_meet_less_in_a_larger_product) {
  const auto latency = [](std::int64_t m, std::int64_t k) { return run("one_pe", "gemm", dims(m, k, 512)).result.latency_ns; };
  const double sixteen = latency(16, 512), seventeen = latency(17, 512);
  BOOST_TEST(seventeen < sixteen);
  BOOST_TEST(seventeen > 0.99 * sixteen);
  const double less = latency(512, 67), more = latency(512, 68);
  BOOST_TEST(more < less);
  BOOST_TEST(more > 0.98 * less);
}

// The exception to law 2 of decision 6: the first tile's second read comes behind the reads of all tiles with a buffer,
// of which each takes 16 ns.
BOOST_AUTO_TEST_CASE(many_transfers_in_flight_can_get_ahead_of_the_first_tile) {
  const auto latency = [](const char* outstanding) {
    RunSpec s = spec("one_pe", "gemm", dims(128, 128, 128));
    s.overrides = {{"pe.dma.outstanding", outstanding}};
    return run(s).result.latency_ns;
  };
  const double one = latency("1"), two = latency("2"), three = latency("3"), sixteen = latency("16"), more = latency("64");
  BOOST_TEST(two < one);
  BOOST_TEST(three == two + 16);
  BOOST_TEST(sixteen == two + 12 * 16);
  BOOST_TEST(more == sixteen);
}

// Everything at its minimum of 1 still finishes.
BOOST_AUTO_TEST_CASE(minimum_sizes_finish) {
  for (const char* issue : {"composite", "async_tiled"}) {
    RunSpec s = spec("one_pe", "gemm", dims(70, 130, 70, {{"issue", issue}}), Mode::data);
    for (const char* key : {"pe.scheduler.queue_depth", "pe.scheduler.tile_buffers", "pe.dma.outstanding"})
      s.overrides.emplace_back(key, "1");
    s.overrides.emplace_back("pe.gemm.accumulator_bytes", "4096");
    run(s);
  }
}

// One of eight PEs active is the machine with one PE; eight with operands of their own take as long as one.
BOOST_AUTO_TEST_CASE(disjoint_pes_do_not_disturb_each_other) {
  const double one = run("one_pe", "gemm", dims(128, 128, 128)).result.latency_ns;
  BOOST_TEST(run("one_cube", "gemm", dims(128, 128, 128)).result.latency_ns == one);
  BOOST_TEST(run("one_cube", "gemm", dims(128, 128, 128, {{"pes", "8"}})).result.latency_ns == one);
}

BOOST_AUTO_TEST_SUITE_END()
