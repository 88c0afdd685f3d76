// Lowering of composites: flat operations, recipes, scopes, in-place and HBM outputs, logical sizes, refusals.
#include "recording_port.h"

#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

using namespace kb;
using kb::test::message_of;
using kb::test::RecordingPort;
using tl::Context;
using tl::Handle;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
void says(const std::string& m, const std::string& part) {
  BOOST_TEST(contains(m, part), m);
}

/// A decode tile: 8 rows, 64 tokens, head dimension 128.
struct Fixture {
  RecordingPort port;
  Context t{port};
  Handle s = t.empty({8, 64}, DType::f32);
  Handle m = t.empty({8, 1}, DType::f32);
  Handle l = t.empty({8, 1}, DType::f32);
  Handle o = t.empty({8, 128}, DType::f32);
  Handle v = t.ref(0x10000, {64, 128}, DType::f16);
  Handle q = t.empty({8, 128}, DType::f16);
  Handle k = t.ref(0x20000, {64, 128}, DType::f16);

  tl::Composite merge() {
    return tl::gemm_from_prologue(v)
        .prologue("softmax_merge", {{"s", s}, {"m", m}, {"l", l}, {"O", o}})
        .epilogue("add", {{"other", o}})
        .into(o);
  }
  const Command& last() const { return port.commands.back(); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(composite, Fixture)

BOOST_AUTO_TEST_CASE(gemm_with_scale_is_54_bytes) {
  const Handle out = t.composite(tl::gemm(q, t.trans(k)).epilogue("scale", {{"factor", 0.0884}}).into(s));
  BOOST_TEST(last().logical_bytes() == 54u);
  BOOST_TEST(last().rw_handles.empty());
  BOOST_TEST(last().gemm_index() == 0);
  BOOST_TEST(last().ops[0].trans_b);
  BOOST_TEST(last().ops[1].kind == "scale");
  BOOST_CHECK(last().ops[1].scope == OpScope::output_tile);
  BOOST_TEST(!last().ops[1].has_out);
  BOOST_TEST(out.addr() == s.addr());
  BOOST_TEST(out.raw().pending == 1u);
  BOOST_TEST(port.waits.empty());
}

BOOST_AUTO_TEST_CASE(softmax_merge_lowers_to_ten_operations) {
  const std::uint64_t before = t.scratch().in_use();
  const Handle out = t.composite(merge());
  const Command& c = last();
  BOOST_REQUIRE(c.ops.size() == 10);
  const std::vector<std::string> kinds{"rmax", "max_elem",  "exp_diff", "exp_diff", "rsum",
                                       "fma",  "mul_bcast", "copy",     "gemm",     "add"};
  for (std::size_t i = 0; i < 10; ++i) BOOST_TEST(c.ops[i].kind == kinds[i]);
  for (std::size_t i = 0; i < 8; ++i) BOOST_CHECK(c.ops[i].scope == OpScope::kernel);
  BOOST_CHECK(c.ops[9].scope == OpScope::output_tile);

  // 224 + 40 + 12 bytes of operations, 306 in all.
  std::uint32_t prologue = 0;
  for (std::size_t i = 0; i < 8; ++i) prologue += c.ops[i].logical_bytes();
  BOOST_TEST(prologue == 224u);
  BOOST_TEST(c.ops[8].logical_bytes() == 40u);
  BOOST_TEST(c.ops[9].logical_bytes() == 12u);
  BOOST_TEST(c.logical_bytes() == 306u);

  // rw_handles = (m, l, O).
  BOOST_REQUIRE(c.rw_handles.size() == 3);
  BOOST_TEST(c.rw_handles[0].id == m.raw().id);
  BOOST_TEST(c.rw_handles[1].id == l.raw().id);
  BOOST_TEST(c.rw_handles[2].id == o.raw().id);

  // Scratch: m_loc, m_new, corr, l_loc (32 B each) and P (1 KiB), 64-byte aligned, in this order.
  const std::uint64_t m_loc = before, m_new = before + 64, corr = before + 128, l_loc = before + 192, p = before + 256;
  const auto reads = [&c](std::size_t i, const char* name) { return c.ops[i].operand(name)->addr; };
  const auto writes = [&c](std::size_t i) { return c.ops[i].out.addr; };
  BOOST_TEST(reads(0, "src") == s.addr());
  BOOST_TEST(writes(0) == m_loc);
  BOOST_TEST(c.ops[0].scalar("axis") == -1);
  BOOST_TEST(reads(1, "a") == m.addr());
  BOOST_TEST(reads(1, "b") == m_loc);
  BOOST_TEST(writes(1) == m_new);
  BOOST_TEST(reads(2, "a") == m.addr());
  BOOST_TEST(reads(2, "b") == m_new);
  BOOST_TEST(writes(2) == corr);
  BOOST_TEST(reads(3, "a") == s.addr());
  BOOST_TEST(reads(3, "b") == m_new);
  BOOST_TEST(writes(3) == p);
  BOOST_TEST(c.ops[3].has_scalar("bcast_axis"));
  BOOST_TEST(reads(4, "src") == p);
  BOOST_TEST(writes(4) == l_loc);
  BOOST_TEST(reads(5, "a") == l.addr());
  BOOST_TEST(reads(5, "b") == corr);
  BOOST_TEST(reads(5, "c") == l_loc);
  BOOST_TEST(writes(5) == l.addr());
  BOOST_TEST(reads(6, "a") == o.addr());
  BOOST_TEST(reads(6, "b") == corr);
  BOOST_TEST(writes(6) == o.addr());
  BOOST_TEST(c.ops[6].has_scalar("bcast_axis"));
  BOOST_TEST(reads(7, "src") == m_new);
  BOOST_TEST(writes(7) == m.addr());
  BOOST_TEST(reads(8, "a") == p);
  BOOST_TEST(reads(8, "b") == v.addr());
  BOOST_TEST(writes(8) == o.addr());
  BOOST_TEST(reads(9, "other") == o.addr());

  // P has the type of V and stays in TCM; V alone is streamed; O lives in TCM, so nothing is written to memory.
  BOOST_CHECK(c.ops[8].operand("a")->dtype == DType::f16);
  BOOST_CHECK(c.ops[8].operand("a")->shape == (Shape{8, 64}));
  BOOST_TEST(c.ops[8].operand("a")->pinned);
  BOOST_TEST(!c.ops[8].operand("b")->pinned);
  BOOST_CHECK(c.ops[8].out.space == Space::tcm);
  BOOST_CHECK(c.ops[0].out.shape == (Shape{8, 1}));
  BOOST_CHECK(c.ops[0].out.dtype == DType::f32);
  BOOST_TEST(out.addr() == o.addr());
}

// N9: the seed's calibration, 32 cycles a command and a quarter of a cycle a byte, on streams of its two sizes.
BOOST_AUTO_TEST_CASE(ten_commands_of_232_bytes_cost_378_cycles_and_two_of_380_cost_159) {
  MachineInfo seed;
  seed.cost_model.fixed_per_composite_cycles = seed.cost_model.fixed_per_single_op_cycles = 32;
  seed.cost_model.cycles_per_byte = 0.25;
  RecordingPort singles(seed);
  Context one(singles);
  const Handle x = one.empty({8, 64}, DType::f32);
  for (int i = 0; i < 8; ++i) one.exp(x);                       // 24 B each
  for (int i = 0; i < 2; ++i) one.full({8, 1}, 0, DType::f32);  // 20 B each
  BOOST_TEST(singles.commands.size() == 10u);
  BOOST_TEST(singles.bytes() == 232u);
  BOOST_TEST(singles.counts().cycles == 378.0);

  RecordingPort composites(seed);
  Context two(composites);
  const auto f32 = [&](std::int64_t rows, std::int64_t cols) { return two.empty({rows, cols}, DType::f32); };
  const Handle o_sum = f32(8, 128), scores = f32(8, 64);
  two.composite(tl::gemm_from_prologue(two.ref(0x10000, {64, 128}, DType::f16))
                    .prologue("softmax_merge", {{"s", scores}, {"m", f32(8, 1)}, {"l", f32(8, 1)}, {"O", o_sum}})
                    .epilogue("add", {{"other", o_sum}})
                    .into(o_sum));  // 306 B
  two.composite(tl::gemm(two.empty({8, 128}, DType::f16), two.ref(0x20000, {128, 64}, DType::f16))
                    .epilogue("scale", {{"factor", 0.0884}})  // 54 B so far
                    .epilogue("add", {{"other", f32(8, 64)}})
                    .epilogue("scale", {{"factor", 2.0}})
                    .into(scores));  // + 12 + 8
  BOOST_TEST(composites.commands.size() == 2u);
  BOOST_TEST(composites.bytes() == 380u);
  BOOST_TEST(composites.counts().cycles == 159.0);
}

BOOST_AUTO_TEST_CASE(scratch_of_a_recipe_belongs_to_the_open_scope) {
  const std::uint64_t before = t.scratch().in_use();
  {
    auto scope = t.scratch_scope("tile");
    t.composite(merge());
    BOOST_TEST(t.scratch().in_use() == before + 4 * 64 + 8 * 64 * 2);
  }
  BOOST_TEST(t.scratch().in_use() == before);
}

BOOST_AUTO_TEST_CASE(automatic_and_hbm_outputs) {
  const Handle automatic = t.composite(tl::gemm(q, t.trans(k)));
  BOOST_CHECK(automatic.space() == Space::tcm);
  BOOST_CHECK(automatic.dtype() == DType::f32);
  BOOST_CHECK(automatic.shape() == (Shape{8, 64}));
  BOOST_TEST(automatic.raw().pinned);
  const Handle half = t.composite(tl::gemm(q, t.trans(k)).out_dtype(DType::f16));
  BOOST_CHECK(half.dtype() == DType::f16);
  const Handle cast = t.composite(tl::gemm(q, t.trans(k)).epilogue("cast", {{"dtype", DType::bf16}}));
  BOOST_CHECK(cast.dtype() == DType::bf16);
  const Handle hbm = t.composite(tl::gemm(q, t.trans(k)).into(t.ref(0x90000, {8, 64}, DType::f16)));
  BOOST_CHECK(hbm.space() == Space::hbm);
  BOOST_CHECK(last().ops[0].out.dtype == DType::f16);
}

BOOST_AUTO_TEST_CASE(epilogue_order_and_scopes) {
  const Handle scale = t.empty({2, 1}, DType::f32), bias = t.empty({64}, DType::f32),
               other = t.empty({8, 64}, DType::f32);
  t.composite(tl::gemm(q, t.trans(k))
                  .epilogue("dequant", {{"scale", scale}})
                  .epilogue("bias", {{"bias", bias}})
                  .epilogue("relu")
                  .epilogue("mul", {{"other", other}})
                  .epilogue("scale", {{"factor", 0.5}}, OpScope::kernel));
  const Command& c = last();
  BOOST_REQUIRE(c.ops.size() == 6);
  BOOST_CHECK(c.ops[1].scope == OpScope::k_tile);
  BOOST_CHECK(c.ops[2].scope == OpScope::output_tile);
  BOOST_TEST(c.ops[3].logical_bytes() == 4u);
  // What runs once after the loop names its input and output.
  BOOST_TEST(c.ops[5].kind == "mul");
  BOOST_CHECK(c.ops[5].scope == OpScope::kernel);
  BOOST_TEST(c.ops[5].operand("src")->addr == c.ops[0].out.addr);
  BOOST_TEST(c.ops[5].out.addr == c.ops[0].out.addr);
}

BOOST_AUTO_TEST_CASE(accumulating_in_place_lists_the_output_once) {
  const Handle p = t.empty({8, 64}, DType::f16);
  t.composite(tl::gemm(p, v).epilogue("add", {{"other", o}}).into(o));
  BOOST_REQUIRE(last().rw_handles.size() == 1);
  BOOST_TEST(last().rw_handles[0].addr == o.addr());
  BOOST_TEST(last().logical_bytes() == 4u + 1 + 40 + 12 + 1 + 8);
}

BOOST_AUTO_TEST_CASE(math_head_is_a_chain) {
  const Handle out = t.composite(
      tl::math("exp", {{"src", s}}).epilogue("scale", {{"factor", 2.0}}).epilogue("relu").out_dtype(DType::f16));
  const Command& c = last();
  BOOST_REQUIRE(c.ops.size() == 3);
  BOOST_TEST(c.gemm_index() == -1);
  BOOST_TEST(c.ops[0].kind == "exp");
  BOOST_TEST(c.ops[1].kind == "mul");
  BOOST_TEST(c.ops[1].operand("src")->addr == c.ops[0].out.addr);
  BOOST_TEST(c.ops[2].kind == "relu");
  BOOST_TEST(c.ops[2].out.addr == out.addr());
  BOOST_CHECK(out.dtype() == DType::f16);
  for (const auto& op : c.ops) BOOST_CHECK(op.scope == OpScope::kernel);
  const Handle in_place = t.composite(tl::math("fma", {{"a", s}, {"b", m}, {"c", l}}).into(s));
  BOOST_TEST(in_place.addr() == s.addr());
  BOOST_TEST(last().rw_handles.size() == 1u);
  BOOST_CHECK(t.composite(tl::math("rmax", {{"src", s}, {"axis", -1.0}})).shape() == (Shape{8, 1}));
}

BOOST_AUTO_TEST_CASE(refusals) {
  const Handle other = t.empty({8, 64}, DType::f32);
  const auto gemm = [&] { return tl::gemm(q, t.trans(k)); };
  const auto refused = [&](tl::Composite c, const std::string& part) {
    says(message_of([&] { t.composite(c); }), part);
  };

  refused(gemm().epilogue("gelu"),
          "tl.composite(gemm) on tray.sip0.cube0.pe0: found unknown epilogue operation gelu; allowed: bias, relu, "
          "scale, add, mul, dequant, cast (nearest: relu)");
  refused(gemm().epilogue("bias"),
          "epilogue bias on tray.sip0.cube0.pe0: found operands none; allowed: bias(bias), bias being a tensor");
  refused(gemm().epilogue("add", {{"bias", other}}), "found operands bias; allowed: add(other)");
  refused(gemm().epilogue("relu", {{"other", other}}), "found operands other; allowed: relu()");
  refused(gemm().epilogue("scale", {{"factor", other}}), "allowed: scale(factor), factor being a number");
  refused(gemm().epilogue("bias", {{"bias", other}}), "operand bias [8, 64] f32; allowed: [64], [1, 64]");
  refused(gemm().epilogue("add", {{"other", o}}),
          "operand other [8, 128] f32; allowed: [8, 64], [8, 1], [1, 64], [1, 1]");
  refused(gemm().epilogue("add", {{"other", t.ref(0, {8, 64}, DType::f32)}}),
          "in hbm; allowed: epilogue operands in TCM");
  refused(gemm().epilogue("relu", {}, OpScope::k_tile), "scope k_tile; allowed: output_tile, kernel");
  refused(gemm().epilogue("relu").epilogue("scale", {{"factor", 2.0}}, OpScope::k_tile),
          "scope k_tile after scope output_tile");
  refused(gemm().epilogue("relu", {}, OpScope::kernel).into(t.ref(0, {8, 64}, DType::f16)),
          "scope kernel with out in hbm");
  refused(gemm().epilogue("cast", {{"dtype", DType::f16}}, OpScope::kernel), "scope kernel; allowed: output_tile");
  refused(gemm().epilogue("gemm", {{"other", other}}), "2 GEMMs in one list; allowed: at most one GEMM");

  refused(merge().prologue("softmax_merge", {{"s", s}, {"m", m}, {"l", l}, {"O", o}}),
          "operand a of the GEMM bound twice");
  refused(tl::gemm(q, v).prologue("softmax_merge", {{"s", s}, {"m", m}, {"l", l}, {"O", o}}),
          "operand a of the GEMM bound twice");
  refused(tl::gemm_from_prologue(v), "no operand a");
  refused(tl::gemm_from_prologue(v).prologue("softmax_marge", {}),
          "unknown recipe softmax_marge; allowed: softmax_merge");
  refused(tl::gemm_from_prologue(v).prologue("softmax_merge", {{"s", s}, {"m", m}, {"l", l}}),
          "found operands s, m, l; allowed: s, m, l, O");
  refused(tl::gemm_from_prologue(v).prologue("softmax_merge", {{"s", s}, {"m", m}, {"l", l}, {"O", o}, {"x", o}}),
          "superfluous operand x");
  refused(tl::gemm_from_prologue(v).prologue("softmax_merge",
                                             {{"s", t.ref(0, {8, 64}, DType::f32)}, {"m", m}, {"l", l}, {"O", o}}),
          "recipe softmax_merge on tray.sip0.cube0.pe0: found prologue operand s [8, 64] f32 in hbm; allowed: prologue "
          "operands in TCM");
  refused(tl::gemm_from_prologue(v).prologue("softmax_merge", {{"s", s}, {"m", o}, {"l", l}, {"O", o}}),
          "found m [8, 128] f32; allowed: [8, 1] f32");
  refused(tl::math("exp", {{"src", s}}).prologue("softmax_merge", {{"s", s}, {"m", m}, {"l", l}, {"O", o}}),
          "a primary output in front of a math head");
  refused(tl::gemm(q, t.ref(0, {128, 64}, DType::bf16)), "operands of one dtype");
  refused(tl::gemm(q, t.ref(0, {128, 0}, DType::f16)), "M, K, N of 1 and above");
  refused(gemm().into(m), "the shape of the result, [8, 64]");
  refused(tl::math("expp", {{"src", s}}), "unknown head expp");
  refused(tl::math("exp", {{"x", s}}), "found arguments x; allowed: tensors src and numbers none");
  refused(tl::math("exp", {{"src", s}}).epilogue("scale", {{"factor", 2.0}}, OpScope::k_tile),
          "scope k_tile with a math head");
  refused(tl::math("exp", {{"src", t.ref(0, {8, 64}, DType::f32)}}), "operands in TCM");
  BOOST_TEST(port.commands.empty());
}

BOOST_AUTO_TEST_CASE(byte_cap) {
  MachineInfo small;
  small.cost_model.max_command_bytes = 300;
  RecordingPort p(small);
  Context c(p);
  const Handle st = c.empty({8, 64}, DType::f32), ms = c.empty({8, 1}, DType::f32), ls = c.empty({8, 1}, DType::f32),
               os = c.empty({8, 128}, DType::f32);
  says(message_of([&] {
         c.composite(tl::gemm_from_prologue(c.ref(0, {64, 128}, DType::f16))
                         .prologue("softmax_merge", {{"s", st}, {"m", ms}, {"l", ls}, {"O", os}})
                         .epilogue("add", {{"other", os}})
                         .into(os));
       }),
       "command composite: found 306 logical bytes");
}

BOOST_AUTO_TEST_CASE(two_gemms_by_way_of_a_recipe) {
  tl::RecipeRegistry recipes;
  tl::Recipe r;
  r.name = "project";
  r.operands = {{"x", tl::Access::read}, {"w", tl::Access::read}};
  r.scratch = {{"y", [](const tl::RecipeArgs& a) { return a["x"].shape; },
                [](const tl::RecipeArgs& a) { return a["x"].dtype; }}};
  r.primary_out = "y";
  r.steps = {{"gemm", {{"a", "x"}, {"b", "w"}}, "y", {}}};
  recipes.add(r);
  Context c(port, recipes);
  const Handle x = c.empty({8, 64}, DType::f16), w = c.empty({64, 64}, DType::f16);
  says(message_of([&] {
         c.composite(tl::gemm_from_prologue(c.ref(0, {64, 32}, DType::f16)).prologue("project", {{"x", x}, {"w", w}}));
       }),
       "found 2 GEMMs in one list; allowed: at most one GEMM");
}

BOOST_AUTO_TEST_CASE(rms_norm_as_a_recipe_of_the_user) {
  // y = x / sqrt(mean(x^2) + eps) * w, in the type of the GEMM's other operand.
  tl::RecipeRegistry recipes = tl::RecipeRegistry::standard();
  const auto like_x = [](const tl::RecipeArgs& a) { return a["x"].shape; };
  const auto column = [](const tl::RecipeArgs& a) { return Shape{a["x"].shape[0], 1}; };
  const auto f32 = [](const tl::RecipeArgs&) { return DType::f32; };
  tl::Recipe r;
  r.name = "rms_norm";
  r.operands = {{"x", tl::Access::read}, {"w", tl::Access::read}};
  r.scalars = {"eps"};
  r.scratch = {{"squares", like_x, f32}, {"norm", column, f32}, {"y", like_x, [](const tl::RecipeArgs& a) {
                                                                   return a["head.b"].dtype;
                                                                 }}};
  r.primary_out = "y";
  r.steps = {{"mul", {{"a", "x"}, {"b", "x"}}, "squares", {}},
             {"rsum", {{"src", "squares"}}, "norm", {{"axis", tl::constant(-1)}}},
             {"mul",
              {{"src", "norm"}},
              "norm",
              {{"value", [](const tl::RecipeArgs& a) { return 1.0 / static_cast<double>(a["x"].shape[1]); }}}},
             {"add", {{"src", "norm"}}, "norm", {{"value", [](const tl::RecipeArgs& a) { return a.scalar("eps"); }}}},
             {"rsqrt", {{"src", "norm"}}, "norm", {}},
             {"mul", {{"a", "x"}, {"b", "norm"}}, "squares", {}},
             {"mul", {{"a", "squares"}, {"b", "w"}}, "y", {}}};
  recipes.add(r);
  BOOST_TEST(contains(message_of([&] { recipes.add(r); }), "recipe rms_norm: found a second one of that name"));
  BOOST_TEST(tl::RecipeRegistry::standard().find("rms_norm") == nullptr);

  Context c(port, recipes);
  const Handle x = c.empty({16, 256}, DType::f32), w = c.empty({1, 256}, DType::f32);
  const Handle out = c.composite(tl::gemm_from_prologue(c.ref(0, {256, 64}, DType::bf16))
                                     .prologue("rms_norm", {{"x", x}, {"w", w}, {"eps", 1e-5}}));
  const Command& cmd = last();
  BOOST_TEST(cmd.ops.size() == 8u);
  BOOST_TEST(cmd.gemm_index() == 7);
  BOOST_TEST(cmd.ops[2].scalar("value") == 1.0 / 256);
  BOOST_TEST(cmd.ops[3].scalar("value") == 1e-5);
  BOOST_CHECK(cmd.ops[7].operand("a")->dtype == DType::bf16);
  BOOST_TEST(cmd.ops[7].operand("a")->addr == cmd.ops[6].out.addr);
  BOOST_TEST(cmd.rw_handles.empty());
  BOOST_CHECK(out.shape() == (Shape{16, 64}));

  tl::Recipe bad = r;
  bad.name = "bad";
  bad.steps[0].writes = "x";
  BOOST_TEST(contains(message_of([&] { recipes.add(bad); }), "recipe bad, step mul: found a write to x"));
}

BOOST_AUTO_TEST_SUITE_END()
