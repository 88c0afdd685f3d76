// Plans and the blocking planner, without a simulation.
#include "pe_bench.h"

#include <boost/test/unit_test.hpp>

#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace kb;
using namespace kb::test;

namespace {

CommandPtr share(Command c) {
  c.id = 7;
  return std::make_shared<const Command>(std::move(c));
}

PipelinePlan plan_of(Command c, const PlanParams& p = {}) { return PipelinePlan(share(std::move(c)), p); }

/// GEMM with each of its three streams in memory or in TCM.
Command gemm(std::int64_t m, std::int64_t k, std::int64_t n, bool a = true, bool b = true, bool out = true,
             bool trans_a = false, bool trans_b = false) {
  const Shape as = trans_a ? Shape{k, m} : Shape{m, k}, bs = trans_b ? Shape{n, k} : Shape{k, n};
  OpSpec op = gemm_op(a ? hbm_tensor(1 << 20, as) : tcm_tensor(0, as, DType::f16),
                      b ? hbm_tensor(2 << 20, bs) : tcm_tensor(0, bs, DType::f16),
                      out ? hbm_tensor(3 << 20, {m, n}) : tcm_tensor(0, {m, n}), m, k, n);
  op.trans_a = trans_a;
  op.trans_b = trans_b;
  return composite({op});
}

/// What a walk over the whole plan reads, writes and computes.
struct Walk {
  std::uint64_t steps = 0, stages = 0, reads = 0, read_bytes = 0, a_reads = 0, b_reads = 0, writes = 0,
                write_bytes = 0, fetch_bytes = 0, store_bytes = 0, macs = 0, elements = 0;
};

Walk walk(const PipelinePlan& plan) {
  Walk w;
  for (TileCursor c(plan); !c.done(); c.advance()) {
    const TileStep& s = c.step();
    ++w.steps;
    for (const Stage& stage : s.tile->stages) {
      ++w.stages;
      const StageWork work = plan.work(stage, s.at);
      switch (stage.engine) {
        case EngineKind::dma_read:
          ++w.reads;
          ++(stage.role == TileRole::a ? w.a_reads : w.b_reads);
          w.read_bytes += work.bytes;
          break;
        case EngineKind::dma_write:
          ++w.writes;
          w.write_bytes += work.bytes;
          break;
        case EngineKind::fetch: w.fetch_bytes += work.bytes; break;
        case EngineKind::store: w.store_bytes += work.bytes; break;
        case EngineKind::gemm: w.macs += static_cast<std::uint64_t>(work.m * work.k * work.n); break;
        case EngineKind::math: w.elements += work.elements; break;
        default: break;
      }
    }
  }
  return w;
}

std::string stage_names(const TilePlan& t) {
  std::string names;
  for (const Stage& s : t.stages)
    names += (names.empty() ? "" : " ") + std::string(name_of(s.engine)) +
             (s.role == TileRole::a ? "(a)" : s.role == TileRole::b ? "(b)" : "");
  return names;
}

/// Message of the error that building the plan gives.
std::string refusal(Command c) {
  try {
    plan_of(std::move(c));
  } catch (const ModelError& e) {
    return e.what();
  }
  return "";
}

/// The ten-op command of spec 3.5: softmax_merge, P x V, add.
Command softmax_merge(std::int64_t rows, std::int64_t tokens, std::int64_t d) {
  const auto s = tcm_tensor(0, {rows, tokens}), m = tcm_tensor(0x10000, {rows, 1}), l = tcm_tensor(0x11000, {rows, 1}),
             o = tcm_tensor(0x20000, {rows, d}), m_loc = tcm_tensor(0x30000, {rows, 1}),
             m_new = tcm_tensor(0x31000, {rows, 1}), corr = tcm_tensor(0x32000, {rows, 1}),
             l_loc = tcm_tensor(0x33000, {rows, 1}), p = tcm_tensor(0x40000, {rows, tokens}, DType::f16),
             v = hbm_tensor(1 << 24, {tokens, d});
  const auto with = [](OpSpec op, const char* scalar, double value) {
    op.extra.push_back({scalar, value});
    return op;
  };
  Command c = composite({with(math_op("rmax", {{"src", s}}, m_loc), "axis", -1),
                         math_op("max_elem", {{"a", m}, {"b", m_loc}}, m_new),
                         math_op("exp_diff", {{"a", m}, {"b", m_new}}, corr),
                         with(math_op("exp_diff", {{"a", s}, {"b", m_new}}, p), "bcast_axis", 1),
                         with(math_op("rsum", {{"src", p}}, l_loc), "axis", -1),
                         math_op("fma", {{"a", l}, {"b", corr}, {"c", l_loc}}, l),
                         with(math_op("mul_bcast", {{"a", o}, {"b", corr}}, o), "bcast_axis", 1),
                         math_op("copy", {{"src", m_new}}, m), gemm_op(p, v, o, rows, tokens, d),
                         tile_op("add", OpScope::output_tile, {{"other", o}})});
  c.rw_handles = {m, l, o};
  return c;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(ten_op_composite) {
  const Command c = softmax_merge(8, 64, 128);
  BOOST_CHECK_EQUAL(c.logical_bytes(), 306u);
  const PipelinePlan p = plan_of(c);
  BOOST_CHECK_EQUAL(p.prologue().stages.size(), 8u);
  for (const Stage& s : p.prologue().stages) BOOST_CHECK(s.engine == EngineKind::math);
  BOOST_CHECK(p.epilogue().stages.empty());
  BOOST_CHECK(!p.streams(TileRole::a));
  BOOST_CHECK(p.streams(TileRole::b));
  BOOST_CHECK(!p.streams(TileRole::out));
  BOOST_CHECK_EQUAL(stage_names(p.variant(false, true, true)), "dma_read(b) fetch gemm math store");
  const PlanSummary s = p.summary();
  BOOST_CHECK_EQUAL(s.dma_reads, 4u);  // 64 x 128 in tiles of 64 x 32
  BOOST_CHECK_EQUAL(s.dma_read_bytes, 64u * 128 * 2);
  BOOST_CHECK_EQUAL(s.dma_writes, 0u);
  // Reductions count their input, the rest its output: 512 + 8 + 8 + 512 + 512 + 8 + 1024 + 8, add 1024.
  BOOST_CHECK_EQUAL(s.math_elements, 512u + 8 + 8 + 512 + 512 + 8 + 1024 + 8 + 1024);
}

BOOST_AUTO_TEST_CASE(stages_of_all_variants) {
  Command c = gemm(64, 128, 64);
  c.ops.push_back(tile_op("relu", OpScope::output_tile));
  c.ops.push_back(tile_op("dequant", OpScope::k_tile, {{"scale", tcm_tensor(0, {1})}}));
  c.ops.push_back(math_op("copy", {{"src", tcm_tensor(0, {4})}}, tcm_tensor(64, {4})));
  const PipelinePlan p = plan_of(c);
  BOOST_CHECK_EQUAL(stage_names(p.variant(false, false, false)), "fetch gemm math");
  BOOST_CHECK_EQUAL(stage_names(p.variant(true, false, false)), "dma_read(a) fetch gemm math");
  BOOST_CHECK_EQUAL(stage_names(p.variant(true, true, false)), "dma_read(a) dma_read(b) fetch gemm math");
  BOOST_CHECK_EQUAL(stage_names(p.variant(true, true, true)),
                    "dma_read(a) dma_read(b) fetch gemm math math store dma_write");
  // k_tile ops come before output_tile ops, whatever their order in the list.
  BOOST_CHECK_EQUAL(p.variant(false, false, true).stages[2].op, 2);
  BOOST_CHECK_EQUAL(p.variant(false, false, true).stages[3].op, 1);
  BOOST_CHECK_EQUAL(stage_names(p.epilogue()), "math");
}

BOOST_AUTO_TEST_CASE(single_ops_are_chains) {
  const auto t = tcm_tensor(0, {8, 8});
  BOOST_CHECK_EQUAL(stage_names(plan_of(read_command(hbm_tensor(0, {8, 8}), t)).prologue()), "dma_read");
  BOOST_CHECK_EQUAL(stage_names(plan_of(write_command(t, hbm_tensor(0, {8, 8}))).prologue()), "dma_write");
  BOOST_CHECK_EQUAL(stage_names(plan_of(math_command({{"src", t}}, t)).prologue()), "math");
  BOOST_CHECK_EQUAL(stage_names(plan_of(single(CommandKind::copy, math_op("copy", {{"src", t}}, t))).prologue()),
                    "math");
  Command g = gemm(32, 64, 32, false, false, false);
  g.kind = CommandKind::gemm;
  BOOST_CHECK(plan_of(g).has_loop());
  BOOST_CHECK(plan_of(g).prologue().stages.empty());
}

// Every tile of an operand starts where the one before ends, with real sizes at the edges, whichever way it is
// stored; the walk touches each exactly as often as the block says.
BOOST_AUTO_TEST_CASE(blocked_layout) {
  for (const bool trans : {false, true}) {
    const std::int64_t m = 70, k = 200, n = 45;
    const PipelinePlan p = plan_of(gemm(m, k, n, true, true, true, trans, trans));
    std::map<std::uint64_t, std::uint64_t> a, b, out;
    for (std::uint32_t i = 0; i < p.tiles_m(); ++i)
      for (std::uint32_t x = 0; x < p.tiles_k(); ++x) {
        const StageWork w = p.tile_transfer(TileRole::a, {i, 0, x});
        a[w.address] = w.bytes;
      }
    for (std::uint32_t j = 0; j < p.tiles_n(); ++j) {
      for (std::uint32_t x = 0; x < p.tiles_k(); ++x) {
        const StageWork w = p.tile_transfer(TileRole::b, {0, j, x});
        b[w.address] = w.bytes;
      }
      for (std::uint32_t i = 0; i < p.tiles_m(); ++i) {
        const StageWork w = p.tile_transfer(TileRole::out, {i, j, 0});
        out[w.address] = w.bytes;
      }
    }
    const auto contiguous = [](const std::map<std::uint64_t, std::uint64_t>& tiles, std::uint64_t base,
                               std::uint64_t bytes, std::size_t count) {
      BOOST_CHECK_EQUAL(tiles.size(), count);
      std::uint64_t next = base;
      for (const auto& t : tiles) {
        BOOST_CHECK_EQUAL(t.first, next);
        next += t.second;
      }
      BOOST_CHECK_EQUAL(next, base + bytes);
    };
    contiguous(a, 1 << 20, 70u * 200 * 2, 3u * 4);
    contiguous(b, 2 << 20, 200u * 45 * 2, 4u * 2);
    contiguous(out, 3 << 20, 70u * 45 * 2, 3u * 2);
  }
}

// The cursor agrees with the closed formulas, visits every step once, k in order, and frees every buffer that
// it fills.
BOOST_AUTO_TEST_CASE(cursor_matches_the_summary) {
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most)); };
  for (int round = 0; round < 300; ++round) {
    PlanParams params;
    params.tile = {static_cast<std::uint32_t>(pick(40)), static_cast<std::uint32_t>(pick(40)),
                   static_cast<std::uint32_t>(pick(40))};
    params.tile_buffers = static_cast<std::uint32_t>(pick(6));
    params.accumulator_bytes = params.accumulator_size() * static_cast<std::uint64_t>(pick(20));
    Command c = gemm(pick(200), pick(200), pick(200), random() % 2, random() % 2, random() % 2);
    if (random() % 2) c.ops.push_back(tile_op("relu", OpScope::output_tile));
    if (random() % 2) c.ops.push_back(tile_op("dequant", OpScope::k_tile));
    const PipelinePlan p = plan_of(c, params);
    const PlanSummary s = p.summary();
    const Walk w = walk(p);
    BOOST_REQUIRE_EQUAL(w.steps, s.tile_steps);
    BOOST_REQUIRE_EQUAL(w.stages, s.stages);
    BOOST_REQUIRE_EQUAL(w.reads, s.dma_reads);
    BOOST_REQUIRE_EQUAL(w.read_bytes, s.dma_read_bytes);
    BOOST_REQUIRE_EQUAL(w.writes, s.dma_writes);
    BOOST_REQUIRE_EQUAL(w.write_bytes, s.dma_write_bytes);
    BOOST_REQUIRE_EQUAL(w.fetch_bytes, s.fetch_bytes);
    BOOST_REQUIRE_EQUAL(w.store_bytes, s.store_bytes);
    BOOST_REQUIRE_EQUAL(w.macs, s.macs);
    BOOST_REQUIRE_EQUAL(w.elements, s.math_elements);
    BOOST_REQUIRE_EQUAL(s.moved_bytes(), loop_bytes(p.shape(), params, p.block()));

    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> next_k;
    std::set<std::tuple<std::uint32_t, std::uint32_t>> held_a, held_b;
    std::size_t most_a = 0, most_b = 0;
    for (TileCursor cursor(p); !cursor.done(); cursor.advance()) {
      const TileStep& t = cursor.step();
      BOOST_REQUIRE_EQUAL((next_k[{t.at.m, t.at.n}]++), t.at.k);
      BOOST_REQUIRE_EQUAL(t.first_k, t.at.k == 0);
      if (t.reads_a) BOOST_REQUIRE(held_a.insert({t.at.m, t.at.k}).second);
      if (t.reads_b) BOOST_REQUIRE(held_b.insert({t.at.n, t.at.k}).second);
      most_a = std::max(most_a, held_a.size());
      most_b = std::max(most_b, held_b.size());
      if (p.streams(TileRole::a)) BOOST_REQUIRE(held_a.count({t.at.m, t.at.k}) == 1);
      if (p.streams(TileRole::b)) BOOST_REQUIRE(held_b.count({t.at.n, t.at.k}) == 1);
      if (t.last_a) held_a.erase({t.at.m, t.at.k});
      if (t.last_b) held_b.erase({t.at.n, t.at.k});
    }
    BOOST_REQUIRE(held_a.empty() && held_b.empty());
    BOOST_REQUIRE(most_a <= params.tile_buffers && most_b <= params.tile_buffers);
    BOOST_REQUIRE_EQUAL(next_k.size(), std::size_t{p.tiles_m()} * p.tiles_n());
  }
}

// The planner against a search over all legal blocks and both orders, with bytes counted from the definition:
// within a block a streamed tile is read once per k.
BOOST_AUTO_TEST_CASE(planner_equals_brute_force) {
  std::mt19937 random(2);
  for (int round = 0; round < 1000; ++round) {
    const auto pick = [&](std::uint64_t most) { return 1 + random() % most; };
    PlanParams p;
    if (round % 2 == 1) {
      p.tile_buffers = static_cast<std::uint32_t>(pick(9));
      p.accumulator_bytes = p.accumulator_size() * pick(30);
    }
    LoopShape s;
    s.m = pick(round % 3 == 0 ? 64 : 1500);
    s.k = pick(900);
    s.n = pick(round % 5 == 0 ? 64 : 1500);
    s.in_bytes = random() % 2 ? 2 : 4;
    s.out_bytes = random() % 2 ? 2 : 4;
    s.stream_a = random() % 2;
    s.stream_b = random() % 2;
    s.write_out = random() % 2;

    const std::uint64_t tiles_m = (s.m + 31) / 32, tiles_n = (s.n + 31) / 32;
    const auto bytes = [&](std::uint64_t mb, std::uint64_t nb) {
      std::uint64_t total = s.write_out ? s.m * s.n * s.out_bytes : 0;
      for (std::uint64_t i = 0; i < tiles_m; i += mb)    // a block row reads all of B once,
        total += s.stream_b ? s.k * s.n * s.in_bytes : 0;
      for (std::uint64_t j = 0; j < tiles_n; j += nb)    // a block column all of A
        total += s.stream_a ? s.m * s.k * s.in_bytes : 0;
      return total;
    };
    using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, int>;
    Key best{~0ull, 0, 0, 0};
    Block expected;
    for (std::uint32_t mb = 1; mb <= p.tile_buffers; ++mb)
      for (std::uint32_t nb = 1; nb <= p.tile_buffers; ++nb)
        for (const bool m_outer : {false, true}) {
          if (std::uint64_t{mb} * nb * 32 * 32 * 4 > p.accumulator_bytes) continue;
          const Key key{bytes(mb, nb), std::uint64_t{mb} * nb, mb, m_outer ? 0 : 1};
          if (key < best) {
            best = key;
            expected = {mb, nb, m_outer};
          }
        }
    const Block found = choose_block(s, p);
    BOOST_REQUIRE_MESSAGE(found == expected, "round " << round << ": found " << found.mb << " x " << found.nb
                                                      << ", expected " << expected.mb << " x " << expected.nb);
    BOOST_REQUIRE_EQUAL(loop_bytes(s, p, found), std::get<0>(best));
  }
}

// 64 x 32 x 64 tiles: A and B are read 64 times unblocked, 16 times in blocks of 4 x 4.
BOOST_AUTO_TEST_CASE(blocked_2048_cubed) {
  const PipelinePlan p = plan_of(gemm(2048, 2048, 2048));
  BOOST_CHECK(p.block() == (Block{4, 4, true}));
  const std::uint64_t matrix = 2048ull * 2048 * 2;
  const PlanSummary s = p.summary();
  BOOST_CHECK_EQUAL(s.dma_read_bytes, 2 * 16 * matrix);
  const std::uint64_t unblocked = loop_bytes(p.shape(), PlanParams{}, Block{1, 1, true});
  BOOST_CHECK_EQUAL(unblocked, 2 * 64 * matrix + matrix);
  BOOST_CHECK_LE(static_cast<double>(s.moved_bytes()), 0.27 * static_cast<double>(unblocked));
  BOOST_CHECK_EQUAL(s.must_read_bytes, 2 * matrix);
}

// All eight row tiles in one block: B is read once. A is resident.
BOOST_AUTO_TEST_CASE(prefill_shape_reads_b_once) {
  const PipelinePlan p = plan_of(gemm(256, 128, 4096, false, true, false));
  BOOST_CHECK_EQUAL(p.block().mb, 8u);
  BOOST_CHECK_EQUAL(p.block().nb, 1u);
  BOOST_CHECK_EQUAL(p.summary().dma_read_bytes, 128u * 4096 * 2);
  BOOST_CHECK_EQUAL(walk(p).read_bytes, 128u * 4096 * 2);
}

// One more row tile than a block holds: B twice.
BOOST_AUTO_TEST_CASE(b_is_read_once_per_block_row) {
  BOOST_CHECK_EQUAL(plan_of(gemm(288, 128, 4096, false, true, false)).summary().dma_read_bytes, 2u * 128 * 4096 * 2);
}

BOOST_AUTO_TEST_CASE(resident_operands_take_the_plain_order) {
  BOOST_CHECK(plan_of(gemm(512, 512, 512, false, false, true)).block() == (Block{1, 1, true}));
}

// 65,536 cubed: 2048 x 1024 x 2048 tiles; more tile steps than 2^32 and more bytes than 2^42.
BOOST_AUTO_TEST_CASE(summaries_at_65536_cubed) {
  const PipelinePlan p = plan_of(gemm(65536, 65536, 65536));
  const PlanSummary s = p.summary();
  BOOST_CHECK_EQUAL(s.tile_steps, 1ull << 32);
  BOOST_CHECK_EQUAL(s.macs, 1ull << 48);
  BOOST_CHECK_EQUAL(s.dma_read_bytes, 2 * (1ull << 33) * 512);
  BOOST_CHECK_EQUAL(s.dma_write_bytes, 1ull << 33);
  BOOST_CHECK_EQUAL(s.fetch_bytes, (1ull << 32) * 8192);
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_are_refused) {
  const std::int64_t big = std::int64_t{1} << 31;
  Command c = gemm(big, 1, 1);
  BOOST_CHECK_NO_THROW(plan_of(c).summary());
  const PipelinePlan p = plan_of(gemm(big, big, 4096));
  BOOST_CHECK_THROW(p.summary(), ModelError);
}

BOOST_AUTO_TEST_CASE(refusals) {
  const auto has = [](const std::string& text, const char* part) {
    BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, "found '" << text << "', expected '" << part << "'");
  };
  Command two = gemm(32, 64, 32);
  two.ops.push_back(two.ops[0]);
  has(refusal(two), "command 7 (composite), op 1 'gemm': found a second 'gemm'; expected at most one GEMM");
  Command mixed = gemm(32, 64, 32);
  mixed.ops[0].operands[1].handle.dtype = DType::f32;
  has(refusal(mixed), "found dtypes f16 and f32");
  Command zero = gemm(32, 64, 32);
  zero.ops[0].extra[1].value = 0;
  has(refusal(zero), "expected a whole number from 1");
  Command shape = gemm(32, 64, 32);
  shape.ops[0].extra[0].value = 33;
  has(refusal(shape), "found a of shape [32, 64]; expected 33 x 64 elements");
  Command early = gemm(32, 64, 32);
  early.ops.insert(early.ops.begin(), tile_op("relu", OpScope::output_tile));
  has(refusal(early), "scope output_tile before the GEMM");
  Command far = gemm(32, 64, 32);
  far.ops.push_back(tile_op("add", OpScope::output_tile, {{"other", hbm_tensor(0, {32, 32})}}));
  has(refusal(far), "operand 'other' in hbm");
  Command prologue = gemm(32, 64, 32);
  prologue.ops.insert(prologue.ops.begin(), math_op("exp", {{"src", hbm_tensor(0, {4})}}, tcm_tensor(0, {4})));
  has(refusal(prologue), "op 0 'exp': found operand 'src' in hbm; expected an operand that is resident in TCM");
  has(refusal(composite({})), "no op");
  PlanParams small;
  small.accumulator_bytes = 4095;
  BOOST_CHECK_THROW(plan_of(gemm(32, 64, 32), small), ModelError);
}

BOOST_AUTO_TEST_SUITE_END()
