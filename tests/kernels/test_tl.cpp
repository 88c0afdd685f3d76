// The kernel API: what each call issues, shapes, types, views, scopes, queues, errors.
#include "recording_port.h"

#include <kb/kernels/launch.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>

using namespace kb;
using kb::test::message_of;
using kb::test::RecordingPort;
using tl::as;
using tl::Context;
using tl::Handle;
using tl::into;

namespace {

using Strings = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Fixture {
  RecordingPort port{MachineInfo{}, PeId{0, 3, 5}};
  Context t{port};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tl_api, Fixture)

BOOST_AUTO_TEST_CASE(place_of_the_pe) {
  MachineInfo m;
  m.sips = 2;
  m.cube_cols = 4;
  m.cube_rows = 4;
  m.pes_per_cube = 8;
  RecordingPort p(m, PeId{1, 3, 5});
  Context c(p);
  BOOST_TEST(c.program_id(0) == 5u);
  BOOST_TEST(c.program_id(1) == 3u);
  BOOST_TEST(c.program_id(2) == 1u);
  BOOST_TEST(c.num_programs(0) == 8u);
  BOOST_TEST(c.num_programs(1) == 16u);
  BOOST_TEST(c.num_programs(2) == 2u);
  BOOST_TEST(c.rank() == 16u * 8 + 3 * 8 + 5);
  BOOST_CHECK_THROW(c.program_id(3), ModelError);
  BOOST_TEST(tl::cdiv(7, 3) == 3);
}

BOOST_AUTO_TEST_CASE(logical_bytes_of_single_ops) {
  const Handle x = t.load(0, {8, 64}, DType::f32);
  const Handle y = t.load(4096, {8, 64}, DType::f32);
  t.store(8192, x);
  t.dot(t.load(0, {8, 64}, DType::f16), t.load(0, {64, 32}, DType::f16));
  t.exp(x);
  t.max(x, -1);
  t.mul(x, 0.5);
  t.add(x, y);
  t.fma(x, y, x);
  t.copy_to(x, y);
  t.full({8, 1}, 0, DType::f32);
  t.causal_mask(8, 64, 3, 0);
  t.send(Direction::E, x);
  t.recv(Direction::W, {8, 64}, DType::f32);
  const std::vector<std::uint32_t> expected{28, 28, 28, 28, 28, 44, 24, 28, 28, 32, 40, 24, 20, 24, 16, 16};
  std::vector<std::uint32_t> found;
  for (const auto& c : port.commands) found.push_back(c.logical_bytes());
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(load_does_not_wait_and_dot_does) {
  const Handle a = t.load(0x1000, {8, 64}, DType::f16);
  BOOST_TEST(port.waits.empty());
  BOOST_TEST(a.raw().pinned);
  BOOST_TEST(a.raw().pending == 1u);
  const Handle b = t.ref(0x8000, {64, 32}, DType::f16);
  BOOST_TEST(!b.raw().pinned);
  BOOST_CHECK(b.space() == Space::hbm);
  const Handle c = t.dot(a, b);
  BOOST_REQUIRE(port.waits.size() == 1);
  BOOST_TEST(port.waits[0].id == 2u);
  BOOST_TEST(port.waits[0].why == "tl.dot");
  BOOST_CHECK(c.shape() == (Shape{8, 32}));
  BOOST_CHECK(c.dtype() == DType::f32);
  BOOST_TEST(port.commands[1].ops[0].scalar("m") == 8);
  BOOST_TEST(port.commands[1].ops[0].scalar("k") == 64);
  BOOST_TEST(port.commands[1].ops[0].scalar("n") == 32);
  t.exp(c);
  BOOST_TEST(port.waits.size() == 1u);  // element-wise consumers are ordered by the scheduler
}

BOOST_AUTO_TEST_CASE(softmax_is_five_math) {
  t.softmax(t.empty({4, 16}, DType::f32));
  BOOST_TEST(port.kinds() == (Strings{"rmax", "sub", "exp", "rsum", "div"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(operators_issue_one_math_each) {
  const Handle x = t.empty({4, 16}, DType::f32), y = t.empty({4, 1}, DType::f32);
  (void)(x + y);
  (void)(x - y);
  (void)(x * y);
  (void)(x / y);
  (void)(x + 1.0);
  (void)(x - 1.0);
  (void)(x * 2.0);
  (void)(x / 2.0);
  (void)(1.0 + x);
  (void)(1.0 - x);
  (void)(2.0 * x);
  (void)(1.0 / x);
  (void)(-x);
  BOOST_TEST(port.kinds() ==
                 (Strings{"add", "sub", "mul", "div", "add", "sub", "mul", "div", "add", "rsub", "mul", "rdiv", "neg"}),
             boost::test_tools::per_element());
  for (const auto& c : port.commands) BOOST_CHECK(c.ops[0].out.shape == (Shape{4, 16}));
}

BOOST_AUTO_TEST_CASE(numpy_broadcasting) {
  const auto shape_of = [this](const Shape& a, const Shape& b) {
    return t.add(t.empty(a, DType::f32), t.empty(b, DType::f32)).shape();
  };
  BOOST_CHECK(shape_of({8, 64}, {8, 1}) == (Shape{8, 64}));
  BOOST_CHECK(shape_of({8, 64}, {64}) == (Shape{8, 64}));
  BOOST_CHECK(shape_of({8, 1}, {1, 64}) == (Shape{8, 64}));
  BOOST_CHECK(shape_of({2, 1, 4, 1}, {3, 1, 5}) == (Shape{2, 3, 4, 5}));
  const std::string m = message_of([&] { shape_of({8, 64}, {8, 32}); });
  BOOST_TEST(
      contains(m, "tl.add on tray.sip0.cube3.pe5: found a [8, 64] f32, b [8, 32] f32; allowed: shapes that broadcast"),
      m);
}

BOOST_AUTO_TEST_CASE(types_of_results) {
  const auto h = [this](DType d) { return t.empty({4, 4}, d); };
  BOOST_CHECK(t.add(h(DType::f16), h(DType::f32)).dtype() == DType::f32);
  BOOST_CHECK(t.add(h(DType::f16), h(DType::bf16)).dtype() == DType::f32);
  BOOST_CHECK(t.add(h(DType::i8), h(DType::bf16)).dtype() == DType::bf16);
  BOOST_CHECK(t.mul(h(DType::f16), 0.3).dtype() == DType::f16);
  BOOST_CHECK(t.mul(h(DType::i32), 2).dtype() == DType::i32);
  BOOST_CHECK(t.mul(h(DType::i32), 0.5).dtype() == DType::f32);
  BOOST_CHECK(t.exp(h(DType::i8)).dtype() == DType::f32);
  BOOST_CHECK(t.div(h(DType::i32), h(DType::i32)).dtype() == DType::f32);
  BOOST_CHECK(t.sum(h(DType::i8), 0).dtype() == DType::i32);
  BOOST_CHECK(t.where(h(DType::f32), h(DType::f16), h(DType::f16)).dtype() == DType::f16);
  BOOST_CHECK(t.exp_diff(h(DType::f32), h(DType::f32), as(DType::bf16)).dtype() == DType::bf16);
  BOOST_CHECK(t.dot(h(DType::i8), h(DType::i8)).dtype() == DType::i32);
  BOOST_CHECK(t.dot(h(DType::bf16), h(DType::bf16), as(DType::bf16)).dtype() == DType::bf16);
}

BOOST_AUTO_TEST_CASE(out_may_be_an_input) {
  const Handle x = t.full({4, 4}, 1, DType::f32);
  const Handle y = t.add(x, x, into(x));
  BOOST_TEST(y.addr() == x.addr());
  BOOST_TEST(y.raw().pending == 2u);
  BOOST_CHECK_THROW(t.add(x, x, into(t.empty({4, 1}, DType::f32))), ModelError);
}

BOOST_AUTO_TEST_CASE(transposed_operands_of_a_gemm_cost_nothing) {
  const Handle q = t.empty({8, 128}, DType::f16);
  const Handle k = t.ref(0, {64, 128}, DType::f16);
  const Handle kt = t.trans(k);
  BOOST_CHECK(kt.shape() == (Shape{128, 64}));
  t.dot(q, kt);
  BOOST_REQUIRE(port.commands.size() == 1);
  const OpSpec& op = port.commands[0].ops[0];
  BOOST_TEST(op.trans_b);
  BOOST_TEST(!op.trans_a);
  BOOST_CHECK(op.operand("b")->shape == (Shape{64, 128}));
  BOOST_TEST(op.operand("b")->dense());
  BOOST_TEST(op.scalar("k") == 128);
  BOOST_TEST(op.scalar("n") == 64);
  BOOST_TEST(op.logical_bytes() == 40u);
  // Twice transposed is the tensor itself; the flag of dot does the same as the view.
  t.dot(q, t.trans(t.trans(t.ref(0, {128, 64}, DType::f16))));
  BOOST_TEST(!port.commands[1].ops[0].trans_b);
  t.dot(q, k, {}, false, true);
  BOOST_TEST(port.commands[2].ops[0].trans_b);
  t.dot(t.trans(t.empty({128, 8}, DType::f16)), kt);
  BOOST_TEST(port.commands[3].ops[0].trans_a);
}

BOOST_AUTO_TEST_CASE(other_uses_of_a_transpose_pass_through_the_math_engine) {
  const Handle x = t.full({4, 16}, 1, DType::f32);
  t.exp(t.trans(x));
  t.store(0, t.trans(x));
  BOOST_TEST(port.kinds() == (Strings{"full", "trans", "exp", "trans", "dma_write"}), boost::test_tools::per_element());
  BOOST_CHECK(port.commands[1].ops[0].operand("src")->shape == (Shape{4, 16}));
  BOOST_CHECK(port.commands[1].ops[0].out.shape == (Shape{16, 4}));
  // A row turned into a column is the same bytes.
  t.exp(t.trans(t.empty({1, 16}, DType::f32)));
  BOOST_TEST(port.commands.size() == 6u);
}

BOOST_AUTO_TEST_CASE(views) {
  const Handle x = t.full({8, 1}, 1, DType::f32);
  const Handle wide = t.broadcast(x, {8, 64});
  BOOST_TEST(wide.raw().strides[0] == 1);
  BOOST_TEST(wide.raw().strides[1] == 0);
  BOOST_TEST(wide.addr() == x.addr());
  const Handle deep = t.broadcast(x, {3, 8, 64});
  BOOST_TEST(deep.raw().strides[0] == 0);
  const Handle flat = t.reshape(t.empty({8, 64}, DType::f32), {512});
  BOOST_CHECK(flat.shape() == (Shape{512}));
  const Handle part = t.slice(flat, 64, {2, 32});
  BOOST_TEST(part.addr() == flat.addr() + 64 * 4);
  BOOST_TEST(port.commands.size() == 1u);
  // A repeated view that has to be dense is written out first.
  t.store(0, wide);
  BOOST_TEST(port.kinds()[1] == "copy");
  BOOST_TEST(contains(message_of([&] {
                        t.broadcast(x, {4, 64});
                      }),
                      "tl.broadcast on tray.sip0.cube3.pe5: found [8, 1] f32 to [4, 64]"));
  BOOST_TEST(contains(message_of([&] { t.reshape(x, {9}); }), "a shape of 8 elements"));
  BOOST_TEST(contains(message_of([&] { t.reshape(wide, {512}); }), "a dense tensor"));
  BOOST_TEST(contains(message_of([&] { t.slice(flat, 500, {13}); }), "a part of its 512 elements"));
}

BOOST_AUTO_TEST_CASE(scratch_scopes_recycle_and_ended_handles_are_caught) {
  Handle kept;
  std::uint64_t first = 0;
  {
    auto scope = t.scratch_scope("tile");
    kept = t.full({16}, 1, DType::f32);
    first = kept.addr();
  }
  {
    auto scope = t.scratch_scope("tile");
    BOOST_TEST(t.empty({16}, DType::f32).addr() == first);
    const std::string m = message_of([&] { t.exp(kept); });
    BOOST_TEST(
        contains(m, "tl.exp on tray.sip0.cube3.pe5: found a handle [16] f32 whose scratch scope (number 2) has ended"),
        m);
    BOOST_CHECK_THROW(t.store(0, kept), ModelError);
    BOOST_CHECK_THROW(t.copy_to(kept, kept), ModelError);
    BOOST_CHECK_THROW(t.composite(tl::math("exp", {{"src", kept}})), ModelError);
    BOOST_CHECK_THROW(t.exp(t.reshape(kept, {4, 4})), ModelError);
  }
  BOOST_TEST(t.scratch().in_use() == 0u);
}

BOOST_AUTO_TEST_CASE(scratch_overflow_names_call_size_use_and_scope) {
  t.empty({1024}, DType::f32);
  auto scope = t.scratch_scope("tile");
  t.empty({100}, DType::i8);
  const std::string m = message_of([&] { t.load(0, {512, 1024}, DType::f16); });
  BOOST_TEST(contains(m,
                      "tl.load on tray.sip0.cube3.pe5: out of scratch: found a request of 1048576 B with 4224 B in use "
                      "(kernel 4096 B, tile 128 B); allowed: 1048576 B in all"),
             m);
}

BOOST_AUTO_TEST_CASE(scratch_can_be_filled_exactly) {
  t.empty({1 << 19}, DType::i8);
  t.empty({1 << 18}, DType::f16);
  BOOST_TEST(t.scratch().in_use() == 1u << 20);
  BOOST_CHECK_THROW(t.empty({1}, DType::i8), ModelError);
}

BOOST_AUTO_TEST_CASE(misuse_is_refused_with_call_pe_and_shapes) {
  const Handle a = t.empty({8, 64}, DType::f16);
  const auto says = [](const std::string& m, const std::string& part) { BOOST_TEST(contains(m, part), m); };
  says(message_of([&] {
         t.dot(a, t.empty({32, 8}, DType::f16));
       }),
       "tl.dot on tray.sip0.cube3.pe5: found a [8, 64] f16 x b [32, 8] f16; allowed: a [M, K] x b [K, N] with one K");
  says(message_of([&] { t.dot(a, t.empty({64, 8}, DType::bf16)); }), "operands of one dtype");
  says(message_of([&] {
         t.dot(t.ref(0, {8, 0}, DType::f16), t.ref(0, {0, 8}, DType::f16));
       }),
       "M, K, N of 1 and above");
  says(message_of([&] {
         t.dot(a, t.ref(0, {64, 8}, DType::f16), into(t.empty({8, 9}, DType::f32)));
       }),
       "the shape of the result, [8, 8]");
  says(message_of([&] { t.dot(a, t.ref(0, {64, 64}, DType::f16), into(a)); }), "out over operand a");
  says(message_of([&] { t.exp(t.ref(0, {8, 8}, DType::f16)); }), "in hbm; allowed: operands in TCM");
  says(message_of([&] { t.max(a, 2); }), "axis 2 of [8, 64]; allowed: -2 .. 1");
  says(message_of([&] { t.copy_to(a, t.empty({8, 64}, DType::f32)); }), "one shape and one dtype");
  says(message_of([&] { t.load(0, {0, 4}, DType::f16); }), "dimensions of 1 and above");
  says(message_of([&] { t.add(a, Handle()); }), "an empty handle");
  says(message_of([&] { t.resident(0, {4}, DType::f32); }), "a tensor between scratch and the end of TCM");
  RecordingPort other_port;
  Context other(other_port);
  says(message_of([&] { t.exp(other.empty({4}, DType::f32)); }), "a handle of another PE");
}

BOOST_AUTO_TEST_CASE(queues) {
  const Handle x = t.full({8, 128}, 1, DType::f32);  // 4096 B, one slot
  t.send(Direction::intra_E, x);
  BOOST_TEST(!port.commands.back().split);
  const Handle big = t.empty({8, 129}, DType::f32);
  const std::string m = message_of([&] { t.send(Direction::intra_E, big); });
  BOOST_TEST(
      contains(m, "tl.send(intra_E) on tray.sip0.cube3.pe5: found [8, 129] f32, 4128 B; allowed: at most a slot"), m);
  t.send(Direction::intra_E, big, true);
  BOOST_TEST(port.commands.back().split);
  BOOST_TEST(port.waits.empty());
  const Handle r = t.recv(Direction::intra_W, {8, 129}, DType::f32);
  BOOST_TEST(port.commands.back().split);
  BOOST_REQUIRE(port.waits.size() == 1);
  BOOST_TEST(port.waits[0].why == "tl.recv(intra_W)");
  t.recv_no_consume(Direction::intra_W, {4}, DType::f32);
  BOOST_TEST(!port.commands.back().consume);
  port.set_peers({});
  BOOST_TEST(contains(message_of([&] { t.send(Direction::N, x); }), "a direction without a peer"));
  BOOST_TEST(contains(message_of([&] { t.recv(Direction::N, {4}, DType::f32); }), "a direction without a peer"));
  (void)r;
}

BOOST_AUTO_TEST_CASE(a_message_under_way_is_awaited_at_its_first_use_and_before_its_place_is_reused) {
  const Handle r = t.recv_async(Direction::W, {16}, DType::f32);
  BOOST_TEST(port.waits.empty());
  t.exp(t.full({16}, 0, DType::f32));
  BOOST_TEST(port.waits.empty());
  t.exp(t.reshape(r, {4, 4}));
  BOOST_TEST(port.waits.size() == 1u);
  t.exp(r);
  BOOST_TEST(port.waits.size() == 1u);
  {
    auto scope = t.scratch_scope();
    (void)t.recv_async(Direction::W, {16}, DType::f32);
  }
  t.empty({16}, DType::f32);
  BOOST_TEST(port.waits.size() == 2u);
}

BOOST_AUTO_TEST_CASE(zero_length_messages) {
  t.send(Direction::E, t.empty({0}, DType::f16));
  t.recv(Direction::W, {0}, DType::f16);
  BOOST_TEST(port.commands.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_bound_kernel_gets_copies_of_its_arguments) {
  struct Args {
    std::int64_t n = 0;
  };
  const auto kernel = [](Context& tl, const Args& args, double value) { tl.full({args.n}, value, DType::f32); };
  Args args{7};
  const auto bound = tl::bind_kernel("fill", kernel, args, 2.5);
  args.n = 0;
  RecordingPort p;
  bound.run(p);
  BOOST_TEST(std::string(bound.name()) == "fill");
  BOOST_CHECK(p.commands.at(0).ops[0].out.shape == (Shape{7}));
  BOOST_TEST(p.commands.at(0).ops[0].scalar("value") == 2.5);
}

BOOST_AUTO_TEST_SUITE_END()
