// Benches in emit mode: command counts, bytes, dispatch, parameters; the input generator.
#include "emit_host.h"
#include "recording_port.h"

#include <kb/kernels/bench.h>
#include <kb/kernels/decode.h>
#include <kb/kernels/input_generator.h>
#include <kb/kernels/token_placement.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
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

// What a kernel holds in scratch at once, read from the launch.
std::uint64_t scratch_peak(const std::string& variant, const std::string& s, const Settings& more = {}) {
  Settings settings = more;
  settings["variant"] = variant;
  settings["S_kv"] = s;
  const Run r = run("gqa-decode-long", settings);
  std::uint64_t peak = 0;
  for (const auto& pe : r.result.launches.at(0).result.pes) peak = std::max(peak, pe.scratch_peak_bytes);
  return peak;
}

// From three tiles on (two score buffers or pairs of K and V tiles in use, and the tile in hand) a tiled variant needs
// no more, however long the context; a chunked one grows until its chunk is full and never beyond 1 MiB.
BOOST_AUTO_TEST_CASE(scratch_peaks) {
  for (const std::string variant : {"primitive", "opt2", "hybrid"}) {
    const std::uint64_t tiled = scratch_peak(variant, "192");
    BOOST_TEST(tiled > 0u);
    BOOST_TEST(tiled < 200'000u);
    for (const char* s : {"4097", "65537", "262144"}) BOOST_TEST(scratch_peak(variant, s) == tiled, variant << " " << s);
    // The reduction's buffers are the head's own.
    BOOST_TEST(scratch_peak(variant, "1048576", {{"C", "8"}, {"P", "8"}, {"H_kv", "2"}}) <= 1u << 20);
  }
  for (const std::string variant : {"composite", "composite_extended"}) {
    // 8 rows: scores f32 and P f16, 48 B a token, and less than 64 KiB of state, queries and merge.
    for (const std::int64_t s : {4096, 16384}) {
      const std::uint64_t peak = scratch_peak(variant, std::to_string(s));
      BOOST_TEST(peak >= static_cast<std::uint64_t>(48 * s));
      BOOST_TEST(peak <= static_cast<std::uint64_t>(48 * s) + 65536);
    }
    for (const char* s : {"16385", "65537", "1048576"})
      for (const char* dtype : {"f16", "f32"})
        BOOST_TEST(scratch_peak(variant, s, {{"dtype", dtype}}) <= 1u << 20, variant << " " << s);
  }
}

// Commands per PE and KV head (spec 6.2) of a whole decode on one PE, for L tokens: three fills, Q's load, the tiles or
// chunks, and at the end max, div and the store.
BOOST_AUTO_TEST_CASE(commands_of_a_decode) {
  const auto commands = [](const std::string& variant, std::int64_t s) {
    const Run r = run("gqa-decode-long", {{"variant", variant}, {"S_kv", std::to_string(s)}, {"H_kv", "3"}});
    BOOST_TEST(r.total(0) % 3 == 0u);
    return static_cast<std::int64_t>(r.total(0) / 3);
  };
  for (const std::int64_t s : {1, 63, 64, 65, 1000, 4097, 65537}) {
    const std::int64_t tiles = (s + 63) / 64, chunks = (s + 16383) / 16384, ends = 3 + 1 + 3;
    BOOST_TEST(commands("primitive", s) == ends + 17 * tiles);
    BOOST_TEST(commands("opt2", s) == ends + 2 * tiles);
    BOOST_TEST(commands("hybrid", s) == ends + 10 * tiles);
    BOOST_TEST(commands("composite", s) == ends + 10 * chunks);
    BOOST_TEST(commands("composite_extended", s) == ends + 2 * chunks);
  }
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

BOOST_AUTO_TEST_CASE(short_decode_reduces_in_a_heads_group) {
  for (const auto& [per_cube, members] : {std::pair("1", 8), {"2", 4}, {"4", 2}, {"8", 1}}) {
    // 5 heads on 2 cubes.
    const Run r = run("gqa-decode-short", {{"kv_per_cube", per_cube}, {"H_kv", "5"}, {"C", "2"}, {"S_kv", "160"}});
    BOOST_TEST(r.options.pes.size() == 16u);
    BOOST_TEST(r.sum(CommandKind::ipcq_send) == 3u * 5 * static_cast<std::uint64_t>(members - 1));
    BOOST_TEST(r.sum(CommandKind::dma_write) == 5u);
    std::int64_t rounds = -1;
    for (const auto& [key, value] : r.result.extra)
      if (key == "reduction_rounds") rounds = std::get<std::int64_t>(value);
    BOOST_TEST(rounds == static_cast<std::int64_t>(std::ceil(std::log2(members))));
  }
  MachineInfo six = eight_cubes();
  six.pes_per_cube = 6;
  six.pe_cols = 3;
  const std::string m = message_of([&] { run("gqa-decode-short", {{"kv_per_cube", "4"}}, six); });
  BOOST_TEST(contains(m, "parameter kv_per_cube: found 4; allowed: what divides the 6 PEs of a cube"), m);
  BOOST_CHECK_THROW(run("gqa-decode-short", {{"kv_per_cube", "3"}}), InputError);
}

BOOST_AUTO_TEST_CASE(short_prefill_computes_the_triangle) {
  // Resident KV (one PE per head): per head the sum over query blocks of ceil((q_start + block end) / tile).
  for (const auto& [t_q, s_kv] : {std::pair(64, 64), {5, 7}, {33, 1000}, {128, 128}, {31, 4097}}) {
    for (const std::string variant : {"primitive", "hybrid", "opt2"}) {
      const Run r = run("gqa-prefill-short", {{"kv_per_cube", "8"},
                                              {"H_kv", "3"},
                                              {"T_q", std::to_string(t_q)},
                                              {"S_kv", std::to_string(s_kv)},
                                              {"variant", variant}});
      std::uint64_t tiles = 0;
      for (int end = 16; end < t_q + 16; end += 16)
        tiles += static_cast<std::uint64_t>((s_kv - t_q + std::min(end, t_q) + 63) / 64);
      const auto kind = variant == "primitive" ? CommandKind::gemm : CommandKind::composite;
      BOOST_TEST(r.sum(kind) == 2 * 3 * tiles);
      for (const auto& [key, value] : r.result.extra)
        if (key == "tiles_computed_per_head")
          BOOST_TEST(std::get<std::int64_t>(value) == static_cast<std::int64_t>(tiles));
      // Each visible tile is read once per query block: K and V, beside the query blocks themselves.
      if (variant == "primitive")
        BOOST_TEST(r.sum(CommandKind::dma_read) == 3 * (2 * tiles + static_cast<std::uint64_t>((t_q + 15) / 16)));
    }
  }
}

BOOST_AUTO_TEST_CASE(sharded_prefill_computes_a_tile_iff_its_first_position_is_visible) {
  for (const TokenOrder order : {TokenOrder::round_robin, TokenOrder::contiguous, TokenOrder::zigzag}) {
    const Run r =
        run("gqa-prefill-short", {{"placement", name_of(order)}, {"T_q", "100"}, {"S_kv", "777"}, {"tile", "32"}});
    const TokenPlacement placement(order, 777, 8);
    std::uint64_t tiles = 0;
    for (int end = 16; end < 116; end += 16)
      for (std::uint32_t pe = 0; pe < 8; ++pe)
        for (const auto& t : placement.tiles(pe, 32))
          tiles += placement.global(pe, t.local) <= 777 - 100 + std::min(end, 100) - 1 ? 1 : 0;
    BOOST_TEST(r.sum(CommandKind::composite) == 2 * tiles);
  }
}

BOOST_AUTO_TEST_CASE(ring_steps_equal_theory) {
  const auto extra = [](const Run& r, const std::string& key) {
    for (const auto& [k, value] : r.result.extra)
      if (k == key) return std::get<std::int64_t>(value);
    return std::int64_t{-1};
  };
  for (const std::int64_t c : {1, 2, 3, 5, 8}) {
    for (const std::string placement : {"contiguous", "round_robin", "zigzag"}) {
      const Run r = run("gqa-prefill-long",
                        {{"C", std::to_string(c)}, {"T_q", "512"}, {"S_kv", "512"}, {"placement", placement}});
      // Contiguous: the triangle. The others see something of every block on every rank.
      const bool triangle = placement == "contiguous";
      BOOST_TEST(extra(r, "block_computations_per_head") == (triangle ? c * (c + 1) / 2 : c * c));
      BOOST_TEST(extra(r, "block_transfers_per_head") == (triangle ? c * (c - 1) / 2 : c * (c - 1)));
      // One message per sub-block and move; a block is one or two runs of tiles.
      const TokenPlacement keys(token_order_from_name(placement), 512, static_cast<std::uint32_t>(c));
      std::uint64_t messages = 0;
      for (std::uint32_t b = 0; b < c; ++b)
        messages += keys.tiles(b, 64).size() * static_cast<std::uint64_t>(triangle ? c - 1 - b : c - 1);
      BOOST_TEST(r.sum(CommandKind::ipcq_send) == messages);
      BOOST_TEST(r.sum(CommandKind::ipcq_recv) == messages);
      BOOST_TEST(r.sum(CommandKind::composite) == 2 * static_cast<std::uint64_t>(extra(r, "tiles_computed_per_head")));
    }
  }
  // Queries at the end of a long context see every block from every rank.
  const Run late = run("gqa-prefill-long", {{"C", "4"}, {"T_q", "64"}, {"S_kv", "4096"}});
  BOOST_TEST(extra(late, "block_computations_per_head") == 16);
  // Fewer queries than ranks: some ranks only pass blocks on.
  const Run few = run("gqa-prefill-long", {{"C", "8"}, {"T_q", "1"}, {"S_kv", "4096"}});
  BOOST_TEST(extra(few, "block_computations_per_head") == 8);
}

BOOST_AUTO_TEST_CASE(prefill_limits) {
  const auto refused = [](const std::string& bench, const Settings& s, const std::string& part) {
    const std::string m = message_of([&] { run(bench, s); });
    BOOST_TEST(contains(m, part), m);
    BOOST_CHECK_THROW(run(bench, s), InputError);
  };
  for (const std::string bench : {"gqa-prefill-short", "gqa-prefill-long"}) {
    refused(bench, {{"T_q", "65"}, {"S_kv", "64"}}, "parameter T_q: found 65; allowed: 1 .. S_kv = 64");
    refused(bench, {{"q_block", "33"}}, "parameter q_block: found 33; allowed: G x q_block <= 256 rows, G = 8");
    refused(bench, {{"variant", "composite"}}, "found 'composite'; allowed: primitive | hybrid | opt2");
  }
  // One rank of TCM: 15 MiB less 128 KiB of ring buffers, 6208 B per query of 8 rows.
  const std::string m = message_of([&] { run("gqa-prefill-long", {{"T_q", "4096"}, {"S_kv", "4096"}}); });
  BOOST_TEST(contains(m, "parameter T_q: found 4096, which needs"), m);
  BOOST_TEST(contains(m, "allowed: 1 .. 2512"), m);
  run("gqa-prefill-long", {{"T_q", "2512"}, {"S_kv", "4096"}});
  BOOST_CHECK_THROW(run("gqa-prefill-long", {{"T_q", "2513"}, {"S_kv", "4096"}}), InputError);
}

BOOST_AUTO_TEST_CASE(prefill_stays_in_scratch_at_the_largest_blocks) {
  for (const std::string bench : {"gqa-prefill-short", "gqa-prefill-long"})
    for (const std::string variant : {"primitive", "hybrid", "opt2"})
      for (const std::string dtype : {"f16", "f32"})
        run(bench, {{"variant", variant}, {"dtype", dtype}, {"q_block", "32"}, {"T_q", "64"}, {"S_kv", "16384"}});
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
