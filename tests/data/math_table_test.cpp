// Every math operation on whole tensors, through records.
#include "data_support.h"

#include <boost/test/unit_test.hpp>

using namespace kb;
using namespace kb::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

struct Bench {
  MachineInfo machine;
  FlatMemory memory{1};
  Tensors tensors{memory};
  MathTable table = MathTable::builtin();

  void run(OpSpec op, CommandKind kind = CommandKind::math) {
    Records records(machine);
    records.single(command(kind, {std::move(op)}));
    DataPass pass(machine, memory, table);
    for (const auto& r : records.list) pass.record(r);
    pass.flush();
  }

  TensorHandle in(const Shape& shape, const std::vector<double>& values, DType dtype = DType::f32) {
    const TensorHandle h = tensor(shape, dtype, Space::tcm, next);
    next += h.bytes() + 64;
    tensors.put(h, values);
    return h;
  }
  TensorHandle out(const Shape& shape, DType dtype = DType::f32) {
    const TensorHandle h = tensor(shape, dtype, Space::tcm, next);
    next += h.bytes() + 64;
    return h;
  }

  std::vector<double> unary(const char* kind, const std::vector<double>& x, std::vector<Scalar> extra = {}) {
    const Shape shape{static_cast<std::int64_t>(x.size())};
    const TensorHandle to = out(shape);
    run(math_op(kind, {{"src", in(shape, x)}}, to, std::move(extra)));
    return tensors.get(to);
  }
  std::vector<double> binary(const char* kind, const std::vector<double>& a, const std::vector<double>& b) {
    const Shape shape{static_cast<std::int64_t>(a.size())};
    const TensorHandle to = out(shape);
    run(math_op(kind, {{"a", in(shape, a)}, {"b", in(shape, b)}}, to));
    return tensors.get(to);
  }

  std::uint64_t next = 64;
};

using List = std::vector<double>;

bool same(const List& a, const List& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return true;
}

double f(float x) {
  return static_cast<double>(x);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(math_table, Bench)

BOOST_AUTO_TEST_CASE(unary_operations) {
  BOOST_CHECK(same(unary("exp", {0, 1, -kInf}), {1, f(num::exp(1.0f)), 0}));
  BOOST_CHECK(same(unary("log", {1, 2, 0}), {0, f(num::log(2.0f)), -kInf}));
  BOOST_CHECK(same(unary("sqrt", {4, 2, -1}), {2, f(std::sqrt(2.0f)), kNan}));
  BOOST_CHECK(same(unary("rsqrt", {4, 0.25, 0}), {0.5, 2, kInf}));
  BOOST_CHECK(same(unary("abs", {-3, 3, -kInf}), {3, 3, kInf}));
  BOOST_CHECK(same(unary("neg", {-3, 3, 0}), {3, -3, 0}));
  BOOST_CHECK(same(unary("sigmoid", {0, 1, -kInf}), {0.5, f(num::sigmoid(1.0f)), 0}));
  BOOST_CHECK(same(unary("relu", {-2, 0, 3, kNan}), {0, 0, 3, kNan}));
  BOOST_CHECK(same(unary("copy", {1.5, -2, kInf}), {1.5, -2, kInf}));
  BOOST_CHECK(same(unary("cast", {1.5, -2, kInf}), {1.5, -2, kInf}));
}

BOOST_AUTO_TEST_CASE(binary_operations) {
  BOOST_CHECK(same(binary("add", {1, 2}, {3, -5}), {4, -3}));
  BOOST_CHECK(same(binary("sub", {1, 2}, {3, -5}), {-2, 7}));
  BOOST_CHECK(same(binary("mul", {1, 2}, {3, -5}), {3, -10}));
  BOOST_CHECK(same(binary("div", {1, 2}, {3, 0}), {f(1.0f / 3.0f), kInf}));
  for (const char* kind : {"maximum", "max_elem"})
    BOOST_CHECK(same(binary(kind, {1, 2, kNan, 1, -kInf}, {3, -5, 1, kNan, -kInf}), {3, 2, kNan, kNan, -kInf}));
  BOOST_CHECK(same(binary("minimum", {1, 2, kNan, 1}, {3, -5, 1, kNan}), {1, -5, kNan, kNan}));
  BOOST_CHECK(same(binary("exp_diff", {1, -kInf, -kInf}, {1, 3, -kInf}), {1, 0, 0}));
}

BOOST_AUTO_TEST_CASE(scalar_operands) {
  BOOST_CHECK(same(unary("add", {1, 2}, {{"value", 3}}), {4, 5}));
  BOOST_CHECK(same(unary("sub", {1, 2}, {{"value", 3}}), {-2, -1}));
  BOOST_CHECK(same(unary("mul", {1, 2}, {{"value", 0.1}}), {f(0.1f), f(0.2f)}));
  BOOST_CHECK(same(unary("div", {1, 2}, {{"value", 3}}), {f(1.0f / 3.0f), f(2.0f / 3.0f)}));
  BOOST_CHECK(same(unary("rsub", {1, 2}, {{"value", 3}}), {2, 1}));
  BOOST_CHECK(same(unary("rdiv", {1, 3}, {{"value", 1}}), {1, f(1.0f / 3.0f)}));
  BOOST_CHECK(same(unary("maximum", {1, 5, kNan}, {{"value", 3}}), {3, 5, kNan}));
  BOOST_CHECK(same(unary("minimum", {1, 5, kNan}, {{"value", 3}}), {1, 3, kNan}));
  BOOST_CHECK(same(unary("scale", {1, 5}, {{"factor", 2}}), {2, 10}));
  BOOST_CHECK(same(unary("clamp", {-9, 0.5, 9, kNan}, {{"lo", -1}, {"hi", 1}}), {-1, 0.5, 1, kNan}));
}

BOOST_AUTO_TEST_CASE(fma_rounds_twice) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; the product rounds to 1 + 2^-11, a fused one would keep 2^-24.
  const double x = 1 + std::ldexp(1.0, -12);
  const TensorHandle to = out({1});
  run(math_op("fma", {{"a", in({1}, {x})}, {"b", in({1}, {x})}, {"c", in({1}, {-1})}}, to));
  BOOST_CHECK_EQUAL(tensors.get(to)[0], std::ldexp(1.0, -11));
}

BOOST_AUTO_TEST_CASE(where_selects_and_shows_an_unwritten_condition) {
  const TensorHandle to = out({4});
  run(math_op("where",
              {{"cond", in({4}, {1, 0, -2, kNan})}, {"a", in({4}, {1, 2, 3, 4})}, {"b", in({4}, {5, 6, 7, 8})}}, to));
  BOOST_CHECK(same(tensors.get(to), {1, 6, 3, kNan}));
}

BOOST_AUTO_TEST_CASE(operands_broadcast_and_are_named_in_any_order) {
  const TensorHandle a = in({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const TensorHandle b = in({2, 1}, {10, 20});
  const TensorHandle to = out({2, 2, 3});
  run(math_op("add", {{"b", b}, {"a", a}}, to));
  BOOST_CHECK(same(tensors.get(to), {11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26}));
  const TensorHandle column = in({3, 1}, {1, 2, 3});
  const TensorHandle scalar = in({1, 1}, {5});
  const TensorHandle sum = out({3, 1});
  run(math_op("sub", {{"a", column}, {"b", scalar}}, sum));
  BOOST_CHECK(same(tensors.get(sum), {-4, -3, -2}));
}

BOOST_AUTO_TEST_CASE(long_rows_are_walked_in_pieces) {
  const std::int64_t n = 2500;
  const auto x = random_values(static_cast<std::size_t>(2 * n), 1), y = random_values(2, 2),
             z = random_values(static_cast<std::size_t>(n), 3);
  const TensorHandle to = out({2, n});
  run(math_op("fma", {{"a", in({2, n}, x)}, {"b", in({2, 1}, y)}, {"c", in({n}, z)}}, to));
  const auto found = tensors.get(to);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float product = static_cast<float>(x[i]) * static_cast<float>(y[i / static_cast<std::size_t>(n)]);
    BOOST_REQUIRE_EQUAL(found[i], f(product + static_cast<float>(z[i % static_cast<std::size_t>(n)])));
  }
}

BOOST_AUTO_TEST_CASE(views_are_read_by_their_strides) {
  TensorHandle turned = in({2, 3}, {1, 2, 3, 4, 5, 6});
  turned.shape = Shape{3, 2};
  turned.strides = {1, 3, 0, 0};
  TensorHandle repeated = in({3, 1}, {10, 20, 30});
  repeated.shape = Shape{3, 2};
  repeated.strides = {1, 0, 0, 0};
  const TensorHandle to = out({3, 2});
  run(math_op("add", {{"a", turned}, {"b", repeated}}, to));
  BOOST_CHECK(same(tensors.get(to), {11, 14, 22, 25, 33, 36}));
  TensorHandle column = in({64}, random_values(64, 5));  // every 16th element: too sparse for one access
  const auto all = tensors.get(column);
  column.shape = Shape{4};
  column.strides = {16, 0, 0, 0};
  const TensorHandle picked = out({4});
  run(math_op("copy", {{"src", column}}, picked), CommandKind::copy);
  BOOST_CHECK(same(tensors.get(picked), {all[0], all[16], all[32], all[48]}));
}

BOOST_AUTO_TEST_CASE(results_go_into_views_and_never_into_broadcast_ones) {
  TensorHandle turned = out({2, 3});
  turned.shape = Shape{3, 2};
  turned.strides = {1, 3, 0, 0};
  run(math_op("neg", {{"src", in({3, 2}, {1, 2, 3, 4, 5, 6})}}, turned));
  BOOST_CHECK(same(tensors.get(turned), {-1, -2, -3, -4, -5, -6}));
  TensorHandle repeated = out({1, 2});
  repeated.shape = Shape{3, 2};
  repeated.strides = {0, 1, 0, 0};
  BOOST_CHECK_THROW(run(math_op("neg", {{"src", in({3, 2}, {1, 2, 3, 4, 5, 6})}}, repeated)), ModelError);
}

BOOST_AUTO_TEST_CASE(out_may_be_an_input) {
  const TensorHandle x = in({3}, {1, 2, 3});
  run(math_op("mul", {{"a", x}, {"b", x}}, x));
  BOOST_CHECK(same(tensors.get(x), {1, 4, 9}));
  run(math_op("sub", {{"a", in({3}, {1, 1, 1})}, {"b", x}}, x));
  BOOST_CHECK(same(tensors.get(x), {0, -3, -8}));
}

BOOST_AUTO_TEST_CASE(results_are_rounded_once_to_the_outputs_dtype) {
  const TensorHandle to = out({2}, DType::f16);
  run(math_op("add", {{"a", in({2}, {2048, 1}, DType::f16)}, {"b", in({2}, {3, std::ldexp(1.0, -11)}, DType::f16)}},
              to));
  BOOST_CHECK(same(tensors.get(to), {2052, 1}));  // 2051 is a tie; 1 + 2^-11 too
  const TensorHandle wide = out({1}, DType::bf16);
  run(math_op("mul", {{"a", in({1}, {1e19}, DType::bf16)}, {"b", in({1}, {3e19}, DType::bf16)}}, wide));
  BOOST_CHECK(std::isfinite(tensors.get(wide)[0]));
  BOOST_CHECK_GT(tensors.get(wide)[0], 2.9e38);
}

BOOST_AUTO_TEST_CASE(moved_values_keep_their_bytes) {
  const List big{16777217, -2147483648.0, 2147483647};
  const TensorHandle to = out({3}, DType::i32);
  run(math_op("copy", {{"src", in({3}, big, DType::i32)}}, to), CommandKind::copy);
  BOOST_CHECK(same(tensors.get(to), big));
  const TensorHandle small = out({3}, DType::i8);
  run(math_op("cast", {{"src", in({3}, big, DType::i32)}}, small));
  BOOST_CHECK(same(tensors.get(small), {127, -128, 127}));
  const TensorHandle floats = out({3}, DType::f32);
  run(math_op("cast", {{"src", in({3}, big, DType::i32)}}, floats));
  BOOST_CHECK(same(tensors.get(floats), {16777216, -2147483648.0, 2147483648.0}));
  const TensorHandle turned = out({3, 2}, DType::f16);
  run(math_op("trans", {{"src", in({2, 3}, {1, 2, 3, 4, 5, 6}, DType::f16)}}, turned));
  BOOST_CHECK(same(tensors.get(turned), {1, 4, 2, 5, 3, 6}));
  const TensorHandle spread = out({2, 3});
  run(math_op("copy", {{"src", in({1, 3}, {1, 2, 3})}}, spread), CommandKind::copy);
  BOOST_CHECK(same(tensors.get(spread), {1, 2, 3, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(cast_to_a_narrow_type_rounds_in_f32_memory) {
  BOOST_CHECK(
      same(unary("cast", {2049, 2051, 70000}, {{"dtype", static_cast<double>(DType::f16)}}), {2048, 2052, kInf}));
}

BOOST_AUTO_TEST_CASE(constants) {
  const TensorHandle x = out({2, 3}, DType::f16);
  run(math_op("full", {}, x, {{"value", -kInf}}));
  BOOST_CHECK(same(tensors.get(x), List(6, -kInf)));
  const TensorHandle mask = out({4, 4});
  run(math_op("causal_mask", {}, mask, {{"row_pos", 10}, {"col_pos", 9}}));
  BOOST_CHECK(same(tensors.get(mask), {0, 0, -kInf, -kInf, 0, 0, 0, -kInf, 0, 0, 0, 0, 0, 0, 0, 0}));
  run(math_op("causal_mask", {}, mask, {{"row_pos", 9}, {"col_pos", 9}, {"row_period", 2}}));
  BOOST_CHECK(same(tensors.get(mask),
                   {0, -kInf, -kInf, -kInf, 0, 0, -kInf, -kInf, 0, -kInf, -kInf, -kInf, 0, 0, -kInf, -kInf}));
  run(math_op("causal_mask", {}, mask, {{"row_pos", 0}, {"col_pos", 100}}));
  BOOST_CHECK(same(tensors.get(mask), List(16, -kInf)));
}

BOOST_AUTO_TEST_CASE(reductions_keep_lanes_and_add_them_pairwise) {
  machine.vector_width = 4;
  // Lanes of width 4 over 11 elements: {0,4,8} {1,5,9} {2,6,10} {3,7}, then (l0 + l1) + (l2 + l3).
  const auto x = random_values(22, 7);
  const auto v = [&](std::size_t i) { return static_cast<float>(x[i]); };
  const TensorHandle to = out({2, 1});
  run(math_op("rsum", {{"src", in({2, 11}, x)}}, to, {{"axis", -1}}));
  for (std::size_t r = 0; r < 2; ++r) {
    const std::size_t o = 11 * r;
    const float l0 = v(o) + v(o + 4) + v(o + 8), l1 = v(o + 1) + v(o + 5) + v(o + 9);
    const float l2 = v(o + 2) + v(o + 6) + v(o + 10), l3 = v(o + 3) + v(o + 7);
    BOOST_CHECK_EQUAL(tensors.get(to)[r], f((l0 + l1) + (l2 + l3)));
  }
  // Three lanes: (l0 + l1) + l2.
  const TensorHandle three = out({1});
  run(math_op("rsum", {{"src", in({3}, {x[0], x[1], x[2]})}}, three, {{"axis", 0}}));
  BOOST_CHECK_EQUAL(tensors.get(three)[0], f((v(0) + v(1)) + v(2)));
}

BOOST_AUTO_TEST_CASE(reductions_work_along_every_axis) {
  machine.vector_width = 2;
  const auto x = random_values(2 * 5 * 3, 8);
  for (int axis = 0; axis < 3; ++axis) {
    Shape shape{2, 5, 3}, kept = shape;
    kept[axis] = 1;
    const TensorHandle sum = out(kept), max = out(kept);
    run(math_op("rsum", {{"src", in(shape, x)}}, sum, {{"axis", static_cast<double>(axis)}}));
    run(math_op("rmax", {{"src", in(shape, x)}}, max, {{"axis", static_cast<double>(axis - 3)}}));
    const auto strides = dense_strides(shape), to = dense_strides(kept);
    List expected_sum(static_cast<std::size_t>(kept.numel()), 0), expected_max(expected_sum.size(), -kInf);
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t j = 0; j < 5; ++j)
        for (std::int64_t k = 0; k < 3; ++k) {
          const auto from = static_cast<std::size_t>(i * strides[0] + j * strides[1] + k);
          const auto at = static_cast<std::size_t>((axis == 0 ? 0 : i) * to[0] + (axis == 1 ? 0 : j) * to[1] +
                                                   (axis == 2 ? 0 : k) * to[2]);
          expected_sum[at] += x[from];
          expected_max[at] = std::max(expected_max[at], x[from]);
        }
    BOOST_CHECK(same(tensors.get(max), expected_max));
    const auto found = tensors.get(sum);
    for (std::size_t i = 0; i < found.size(); ++i) BOOST_CHECK_SMALL(found[i] - expected_sum[i], 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_long_sum_of_ones_is_exact) {
  const TensorHandle ones = in({1, 300000}, List(300000, 1));
  const TensorHandle to = out({1, 1});
  run(math_op("rsum", {{"src", ones}}, to, {{"axis", -1}}));
  BOOST_CHECK_EQUAL(tensors.get(to)[0], 300000);
}

BOOST_AUTO_TEST_CASE(empty_tensors_reduce_to_the_identity) {
  const TensorHandle none = in({2, 0}, {});
  const TensorHandle sum = out({2, 1}), max = out({2, 1});
  run(math_op("rsum", {{"src", none}}, sum, {{"axis", 1}}));
  run(math_op("rmax", {{"src", none}}, max, {{"axis", 1}}));
  BOOST_CHECK(same(tensors.get(sum), {0, 0}));
  BOOST_CHECK(same(tensors.get(max), {-kInf, -kInf}));
  run(math_op("exp", {{"src", none}}, out({2, 0})));
}

BOOST_AUTO_TEST_CASE(row_vectors_broadcast_along_a_named_axis) {
  const TensorHandle o = in({2, 3}, {1, 2, 3, 4, 5, 6});
  const TensorHandle kept = in({2, 1}, {2, 10}), bare = in({2}, {2, 10});
  for (const auto& corr : {kept, bare}) {
    const TensorHandle to = out({2, 3});
    run(math_op("mul_bcast", {{"a", o}, {"b", corr}}, to, {{"bcast_axis", -1}}));
    BOOST_CHECK(same(tensors.get(to), {2, 4, 6, 40, 50, 60}));
  }
  const TensorHandle p = out({2, 3});
  run(math_op("exp_diff", {{"a", o}, {"b", in({2, 1}, {3, 6})}}, p, {{"bcast_axis", -1}}));
  BOOST_CHECK_EQUAL(tensors.get(p)[2], 1);
  BOOST_CHECK_EQUAL(tensors.get(p)[4], f(num::exp(-1.0f)));
}

BOOST_AUTO_TEST_CASE(users_add_operations_and_whole_tensor_ones) {
  MathOp square;
  square.kind = "square";
  square.operands = {"src"};
  square.element = [](const float* const* x, const double*, float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) y[i] = x[0][i] * x[0][i];
  };
  table.add(square);
  BOOST_CHECK(same(unary("square", {1, -3}), {1, 9}));
  BOOST_CHECK_THROW(table.add(square), InputError);
  MathOp iota;
  iota.kind = "iota";
  iota.whole = [](const MathCall& call) {
    for (std::int64_t i = 0; i < call.out_shape.numel(); ++i) call.out[i] = static_cast<float>(i);
  };
  table.add(iota);
  const TensorHandle to = out({2, 2});
  run(math_op("iota", {}, to));
  BOOST_CHECK(same(tensors.get(to), {0, 1, 2, 3}));
  MathOp empty;
  empty.kind = "nothing";
  BOOST_CHECK_THROW(table.add(empty), InputError);
}

BOOST_AUTO_TEST_CASE(errors_name_the_operation_and_what_is_allowed) {
  const auto message = [&](OpSpec op) -> std::string {
    try {
      run(std::move(op));
    } catch (const ModelError& e) {
      return e.what();
    }
    return "";
  };
  const TensorHandle x = in({2, 3}, List(6, 1));
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  BOOST_CHECK(has(message(math_op("cosh", {{"src", x}}, x)), "math operation cosh: found {src}; allowed: abs add"));
  BOOST_CHECK(
      has(message(math_op("add", {{"src", x}}, x)), "found {src}; allowed: {a, b} or {src}+value or {src, other}"));
  BOOST_CHECK(has(message(math_op("exp", {{"src", x}}, x, {{"gain", 2}})), "found {src}+gain"));
  BOOST_CHECK(has(message(math_op("add", {{"a", x}, {"b", in({2, 2}, {1, 2, 3, 4})}}, x)),
                  "operand b: found shape [2, 2]; allowed: one that broadcasts to [2, 3]"));
  BOOST_CHECK(has(message(math_op("rsum", {{"src", x}}, out({2}), {{"axis", -1}})), "found [2]; allowed: [2, 1]"));
  BOOST_CHECK(has(message(math_op("rsum", {{"src", x}}, out({2, 1}), {{"axis", 2}})), "axis: found 2"));
}

BOOST_AUTO_TEST_SUITE_END()
