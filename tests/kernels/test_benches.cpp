// Benches in emit mode: command counts, bytes, dispatch, parameters; the input generator.
#include "emit_host.h"
#include "recording_port.h"

#include <kb/kernels/bench.h>
#include <kb/kernels/decode.h>
#include <kb/kernels/input_generator.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <set>

using namespace kb;
using kb::test::CountingHost;
using kb::test::message_of;

namespace {

using Settings = std::map<std::string, std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// 4 x 2 cubes of 8 PEs.
MachineInfo eight_cubes() {
  MachineInfo m;
  m.cube_cols = 4;
  m.cube_rows = 2;
  m.pes_per_cube = 8;
  m.pe_cols = 4;
  return m;
}

struct Run {
  BenchResult result;
  LaunchOptions options;
  std::uint64_t count(std::size_t pe, CommandKind kind) const {
    return result.launches.at(0).result.pes.at(pe).dispatch.commands[static_cast<std::size_t>(kind)];
  }
  std::uint64_t total(std::size_t pe) const {
    std::uint64_t n = 0;
    for (const auto c : result.launches.at(0).result.pes.at(pe).dispatch.commands) n += c;
    return n;
  }
  std::uint64_t bytes(std::size_t pe) const { return result.launches.at(0).result.pes.at(pe).dispatch.bytes; }
  double cycles(std::size_t pe) const { return result.launches.at(0).result.pes.at(pe).dispatch.cycles; }
  std::uint64_t sum(CommandKind kind) const {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < result.launches.at(0).result.pes.size(); ++i) n += count(i, kind);
    return n;
  }
};

Run run(const std::string& name, const Settings& settings, const MachineInfo& machine = eight_cubes()) {
  BenchRegistry registry;
  add_standard_benches(registry);
  CountingHost host(machine);
  Run r;
  r.result = run_bench(registry.get(name), host, settings);
  r.options = host.last_options;
  return r;
}

/// Difference of two sequence lengths that differ by `tiles` tiles, per tile: what one tile costs.
struct PerTile {
  double commands = 0, bytes = 0, cycles = 0;
};
PerTile per_tile(const std::string& variant, const MachineInfo& machine = eight_cubes()) {
  const Run a = run("gqa-decode-long", {{"variant", variant}, {"S_kv", "640"}}, machine);
  const Run b = run("gqa-decode-long", {{"variant", variant}, {"S_kv", "1920"}}, machine);
  return {static_cast<double>(b.total(0) - a.total(0)) / 20, static_cast<double>(b.bytes(0) - a.bytes(0)) / 20,
          (b.cycles(0) - a.cycles(0)) / 20};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(benches)

BOOST_AUTO_TEST_CASE(registry_and_parameters) {
  BenchRegistry registry;
  add_standard_benches(registry);
  BOOST_TEST(registry.find("gemm") != nullptr);
  BOOST_TEST(contains(message_of([&] { registry.get("gem"); }), "found unknown bench 'gem'"));
  BOOST_TEST(contains(message_of([&] { registry.get("gem"); }), "(nearest: gemm)"));
  BOOST_TEST(contains(message_of([&] { add_standard_benches(registry); }), "a second one of that name"));
  const auto refused = [](const Settings& s, const std::string& part) {
    const std::string m = message_of([&] { run("gemm", s); });
    BOOST_TEST(contains(m, part), m);
    BOOST_CHECK_THROW(run("gemm", s), InputError);
  };
  refused({{"m", "3"}},
          "bench gemm: found unknown parameter m; allowed: M, K, N, variant, issue, dtype, pes, inputs (nearest: M)");
  refused({{"M", "0"}}, "bench gemm, parameter M: found '0'; allowed: 1 .. 1048576");
  refused({{"M", "12x"}}, "found '12x'");
  refused({{"dtype", "f61"}}, "found 'f61'; allowed: f16 | bf16 | f32 | i8 (nearest: f16)");
  refused({{"pes", "65"}}, "bench gemm, parameter pes: found 65; allowed: 1 .. 64 on this topology");
  BOOST_CHECK_THROW(run("gqa-decode-long", {{"C", "9"}}), InputError);
  BOOST_CHECK_THROW(run("gqa-decode-long", {{"P", "9"}}), InputError);
  const Params p("x", {int_or_word_param("n", "all", 1, 8, {"all"}, ""), flag_param("f", true, "")}, {});
  BOOST_TEST(*p.word_instead("n") == "all");
  BOOST_TEST(p.flag("f"));
  BOOST_TEST(Params("x", {int_or_word_param("n", "all", 1, 8, {"all"}, "")}, {{"n", "8"}}).integer("n") == 8);
}

BOOST_AUTO_TEST_CASE(async_tiled_gemm_is_192_single_ops) {
  const Run r = run("gemm", {{"M", "32"}, {"N", "32"}, {"K", "3072"}, {"issue", "async_tiled"}});
  BOOST_TEST(r.count(0, CommandKind::dma_read) == 96u);
  BOOST_TEST(r.count(0, CommandKind::gemm) == 48u);
  BOOST_TEST(r.count(0, CommandKind::math) == 47u);
  BOOST_TEST(r.count(0, CommandKind::dma_write) == 1u);
  BOOST_TEST(r.total(0) == 192u);
  BOOST_TEST(r.cycles(0) == 1536.0);
}

BOOST_AUTO_TEST_CASE(composite_gemm_variants) {
  BOOST_TEST(run("gemm", {}).total(0) == 1u);
  BOOST_TEST(run("gemm", {{"variant", "load_ref"}}).count(0, CommandKind::dma_read) == 1u);
  // 512 KiB each: scratch is filled exactly; one more row of B does not fit.
  const Settings exact{{"variant", "load_load"}, {"M", "512"}, {"K", "512"}, {"N", "512"}};
  BOOST_TEST(run("gemm", exact).count(0, CommandKind::dma_read) == 2u);
  Settings over = exact;
  over["N"] = "513";
  BOOST_CHECK_THROW(run("gemm", over), ModelError);
  BOOST_TEST(run("gemm", {{"pes", "3"}}).result.launches[0].result.pes.size() == 3u);
}

BOOST_AUTO_TEST_CASE(decode_commands_per_tile) {
  const PerTile primitive = per_tile("primitive");
  BOOST_TEST(primitive.commands == 17.0);
  BOOST_TEST(primitive.bytes == 524.0);
  const PerTile opt2 = per_tile("opt2");
  BOOST_TEST(opt2.commands == 2.0);
  BOOST_TEST(opt2.bytes == 360.0);
  BOOST_TEST(per_tile("hybrid").commands == 10.0);
}

BOOST_AUTO_TEST_CASE(dispatch_ratio_at_both_calibrations) {
  BOOST_TEST(per_tile("primitive").cycles / per_tile("opt2").cycles == 1.70, boost::test_tools::tolerance(1e-12));
  MachineInfo seed = eight_cubes();
  seed.cost_model.fixed_per_composite_cycles = 32;
  seed.cost_model.fixed_per_single_op_cycles = 32;
  seed.cost_model.cycles_per_byte = 0.25;
  const double ratio = per_tile("primitive", seed).cycles / per_tile("opt2", seed).cycles;
  BOOST_TEST(ratio == (17 * 32 + 524 * 0.25) / (2 * 32 + 360 * 0.25), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(ratio == 4.38, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(chunked_variants_keep_their_command_count_up_to_1_mi_tokens_on_64_pes) {
  for (const std::string variant : {"composite", "composite_extended"}) {
    const Settings base{{"variant", variant}, {"C", "8"}, {"P", "8"}};
    std::uint64_t commands = 0;
    for (const char* s : {"1024", "131072", "1048576"}) {
      Settings settings = base;
      settings["S_kv"] = s;
      const Run r = run("gqa-decode-long", settings);
      BOOST_TEST(r.count(0, CommandKind::composite) == 2u);
      if (commands != 0) BOOST_TEST(r.total(0) == commands);
      commands = r.total(0);
    }
    Settings beyond = base;
    beyond["S_kv"] = "1048577";
    BOOST_TEST(run("gqa-decode-long", beyond).count(0, CommandKind::composite) == 4u);
    beyond["S_kv"] = "3145728";
    BOOST_TEST(run("gqa-decode-long", beyond).count(0, CommandKind::composite) == 6u);
  }
}

BOOST_AUTO_TEST_CASE(tiled_variants_stay_in_scratch_at_any_length) {
  for (const std::string variant : {"primitive", "opt2", "hybrid"})
    for (const std::string layout : {"sd", "ds"})
      run("gqa-decode-long", {{"variant", variant}, {"S_kv", "262144"}, {"k_layout", layout}});
}

BOOST_AUTO_TEST_CASE(reductions_send_three_messages_per_edge_and_head) {
  for (const std::string reduce : {"tree", "chain"}) {
    for (const auto& [cubes, pes] : {std::pair(1, 1), {1, 2}, {1, 5}, {2, 3}, {3, 8}, {8, 8}}) {
      const Run r = run("gqa-decode-long",
                        {{"reduce", reduce}, {"C", std::to_string(cubes)}, {"P", std::to_string(pes)}, {"H_kv", "2"}});
      const auto n = static_cast<std::uint64_t>(cubes * pes);
      BOOST_TEST(r.sum(CommandKind::ipcq_send) == 3 * 2 * (n - 1));
      BOOST_TEST(r.sum(CommandKind::ipcq_recv) == 3 * 2 * (n - 1));
      BOOST_TEST(r.sum(CommandKind::dma_write) == 2u);
      BOOST_TEST(r.options.queues.size() == n - 1);
      BOOST_TEST(r.options.pes.size() == n);
    }
  }
}

BOOST_AUTO_TEST_CASE(empty_pes_issue_no_gemm_and_take_part_in_every_round) {
  const Run r = run("gqa-decode-long", {{"S_kv", "3"}, {"C", "1"}, {"P", "8"}, {"variant", "primitive"}});
  for (std::size_t pe = 0; pe < 8; ++pe) BOOST_TEST(r.count(pe, CommandKind::gemm) == (pe < 3 ? 2u : 0u));
  BOOST_TEST(r.sum(CommandKind::ipcq_send) == 21u);
}

BOOST_AUTO_TEST_CASE(k_and_v_reads_do_not_depend_on_g) {
  const auto reads = [](const std::string& g) {
    return run("gqa-decode-long", {{"G", g}, {"variant", "primitive"}, {"S_kv", "1000"}})
        .count(0, CommandKind::dma_read);
  };
  for (const std::string g : {"1", "2", "4", "8"}) BOOST_TEST(reads(g) == 2 * 16 + 1u);
}

BOOST_AUTO_TEST_CASE(generated_inputs) {
  const InputGenerator g(7, "k");
  // The stream is fixed for good: a change here changes every golden result.
  const LogicalTensor t = g.tensor({1 << 16}, DType::f32, InputKind::normal, 1);
  double sum = 0, squares = 0, fourth = 0;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double v = t.at(i);
    BOOST_REQUIRE(
        v == static_cast<double>(static_cast<float>(g.value(static_cast<std::uint64_t>(i), InputKind::normal, 1))));
    sum += v;
    squares += v * v;
    fourth += v * v * v * v;
  }
  const double n = static_cast<double>(t.numel());
  BOOST_TEST(std::abs(sum / n) < 0.01);
  BOOST_TEST(std::abs(squares / n - 1) < 0.02);
  BOOST_TEST(std::abs(fourth / n - 3) < 0.1);
  BOOST_TEST(InputGenerator(7, "v").value(0, InputKind::normal, 1) != g.value(0, InputKind::normal, 1));
  BOOST_TEST(InputGenerator(8, "k").value(0, InputKind::normal, 1) != g.value(0, InputKind::normal, 1));
  BOOST_TEST(g.value(5, InputKind::peaky, 4) == 4 * g.value(5, InputKind::normal, 1));
  std::set<double> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(g.value(i, InputKind::integers, 1));
  BOOST_TEST(seen.size() == 17u);
  BOOST_TEST(*seen.begin() == -8);
  BOOST_TEST(g.value(3, InputKind::ones, 1) == 1);
}

BOOST_AUTO_TEST_CASE(comparison_fails_on_nan_and_on_either_side) {
  LogicalTensor t(Shape{2}, DType::f32);
  t.set(0, 1);
  t.set(1, 2);
  BOOST_TEST(compare(t, {1, 2}, 0).pass);
  BOOST_TEST(!compare(t, {1, 2.1}, 1e-3).pass);
  BOOST_TEST(compare(t, {1, 2.1}, 0.1).max_abs_err == 0.1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!compare(t, {1, std::nan("")}, 1).pass);
  t.set(0, std::nan(""));
  BOOST_TEST(!compare(t, {1, 2}, 1).pass);
}

BOOST_AUTO_TEST_SUITE_END()
