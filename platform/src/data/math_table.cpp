#include <kb/platform/math_table.h>

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/numerics.h>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace kb {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::size_t kMaxInputs = 8;
constexpr std::size_t kMaxScalars = 8;
// Elements handed to an element function at a time; rows of broadcast operands are expanded to this length.
constexpr std::int64_t kRun = 1024;

using In = Eigen::Map<const Eigen::ArrayXf>;
using Out = Eigen::Map<Eigen::ArrayXf>;

In row(const float* p, std::size_t n) {
  return In(p, static_cast<Eigen::Index>(n));
}
Out row(float* p, std::size_t n) {
  return Out(p, static_cast<Eigen::Index>(n));
}

// NaN goes through comparisons, so that a value nobody wrote shows in the result.
float maximum(float a, float b) {
  return (a > b || a != a) ? a : b;
}
float minimum(float a, float b) {
  return (a < b || a != a) ? a : b;
}

template <typename F>
MathOp unary(const char* kind, F f) {
  MathOp op;
  op.kind = kind;
  op.operands = {"src"};
  op.element = [f](const float* const* in, const double*, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = f(in[0][i]);
  };
  return op;
}

MathOp binary(const char* kind, std::vector<std::string> operands, MathOp::Element element) {
  MathOp op;
  op.kind = kind;
  op.operands = std::move(operands);
  op.element = std::move(element);
  return op;
}

MathOp with_scalar(const char* kind, const char* scalar, MathOp::Element element) {
  MathOp op;
  op.kind = kind;
  op.operands = {"src"};
  op.scalars = {scalar};
  op.element = std::move(element);
  return op;
}

// In element functions: `in`, `s` (scalars), `out`, `n`.
void add_rows(const float* const* in, const double*, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) + row(in[1], n);
}
void sub_rows(const float* const* in, const double*, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) - row(in[1], n);
}
void mul_rows(const float* const* in, const double*, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) * row(in[1], n);
}
void div_rows(const float* const* in, const double*, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) / row(in[1], n);
}
void max_rows(const float* const* in, const double*, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = maximum(in[0][i], in[1][i]);
}
void min_rows(const float* const* in, const double*, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = minimum(in[0][i], in[1][i]);
}
void exp_diff_rows(const float* const* in, const double*, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = num::exp_diff(in[0][i], in[1][i]);
}
void add_value(const float* const* in, const double* s, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) + static_cast<float>(s[0]);
}
void sub_value(const float* const* in, const double* s, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) - static_cast<float>(s[0]);
}
void mul_value(const float* const* in, const double* s, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) * static_cast<float>(s[0]);
}
void div_value(const float* const* in, const double* s, float* out, std::size_t n) {
  const auto v = static_cast<float>(s[0]);
  for (std::size_t i = 0; i < n; ++i) out[i] = in[0][i] / v;
}
void rsub_value(const float* const* in, const double* s, float* out, std::size_t n) {
  row(out, n) = static_cast<float>(s[0]) - row(in[0], n);
}
void rdiv_value(const float* const* in, const double* s, float* out, std::size_t n) {
  const auto v = static_cast<float>(s[0]);
  for (std::size_t i = 0; i < n; ++i) out[i] = v / in[0][i];
}
void max_value(const float* const* in, const double* s, float* out, std::size_t n) {
  const auto v = static_cast<float>(s[0]);
  for (std::size_t i = 0; i < n; ++i) out[i] = maximum(in[0][i], v);
}
void min_value(const float* const* in, const double* s, float* out, std::size_t n) {
  const auto v = static_cast<float>(s[0]);
  for (std::size_t i = 0; i < n; ++i) out[i] = minimum(in[0][i], v);
}
void clamp_rows(const float* const* in, const double* s, float* out, std::size_t n) {
  const auto lo = static_cast<float>(s[0]);
  const auto hi = static_cast<float>(s[1]);
  for (std::size_t i = 0; i < n; ++i) out[i] = in[0][i] < lo ? lo : in[0][i] > hi ? hi : in[0][i];
}
void fma_rows(const float* const* in, const double*, float* out, std::size_t n) {
  row(out, n) = row(in[0], n) * row(in[1], n) + row(in[2], n);
}
void where_rows(const float* const* in, const double*, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float cond = in[0][i];
    out[i] = cond != cond ? cond : cond != 0.0f ? in[1][i] : in[2][i];
  }
}
void fill_value(const float* const*, const double* s, float* out, std::size_t n) {
  std::fill_n(out, n, static_cast<float>(s[0]));
}

std::string shape_error(const OpSpec& op, const std::string& what) {
  return "math operation " + op.kind + ": " + what;
}

/// Axis of `rank` dimensions, negative ones counted from the end. Throws ModelError.
int axis_of(const OpSpec& op, const char* name, int rank) {
  const double value = op.scalar(name);
  const int axis = static_cast<int>(value);
  if (static_cast<double>(axis) != value || axis < -rank || axis >= rank)
    throw ModelError(shape_error(op, std::string(name) + ": found " + std::to_string(value) +
                                         "; allowed: " + std::to_string(-rank) + ".." + std::to_string(rank - 1)));
  return axis < 0 ? axis + rank : axis;
}

/// Reduction along `axis`: lane i mod width takes element i, the first element of a lane starts it; then lanes
/// are added pairwise, (0+1)(2+3)..., an odd last one handed on, until one is left. Elements of inner axes lie
/// side by side, so that a lane is a vector of them.
template <typename Combine>
void reduce(const MathCall& call, float identity, Combine combine) {
  const Values& src = call.in[0];
  const int rank = src.shape.rank();
  const int axis = axis_of(call.op, "axis", rank);
  Shape expected = src.shape;
  expected[axis] = 1;
  if (call.out_shape != expected)
    throw ModelError(shape_error(call.op, "out: found " + call.out_shape.str() + "; allowed: " + expected.str() +
                                              ", the shape of src with the axis kept as size 1"));
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= src.shape[i];
  for (int i = axis + 1; i < rank; ++i) inner *= src.shape[i];
  const std::int64_t n = src.shape[axis];
  if (n == 0) {
    std::fill_n(call.out, outer * inner, identity);
    return;
  }
  const std::int64_t lanes = std::min<std::int64_t>(n, call.vector_width);
  const std::int64_t block = lanes * inner;
  if (call.scratch.size() < static_cast<std::size_t>(block)) call.scratch.resize(static_cast<std::size_t>(block));
  float* lane = call.scratch.data();
  for (std::int64_t o = 0; o < outer; ++o) {
    const float* p = src.data + o * n * inner;
    std::copy_n(p, block, lane);
    for (std::int64_t i = block; i < n * inner; i += block) combine(lane, p + i, lane, std::min(block, n * inner - i));
    for (std::int64_t left = lanes; left > 1; left = (left + 1) / 2) {
      for (std::int64_t j = 0; j < left / 2; ++j)
        combine(lane + 2 * j * inner, lane + (2 * j + 1) * inner, lane + j * inner, inner);
      if (left % 2 != 0) std::copy_n(lane + (left - 1) * inner, inner, lane + left / 2 * inner);
    }
    std::copy_n(lane, inner, call.out + o * inner);
  }
}

void rsum(const MathCall& call) {
  reduce(call, 0.0f, [](const float* a, const float* b, float* to, std::int64_t n) {
    const auto count = static_cast<std::size_t>(n);
    row(to, count) = row(a, count) + row(b, count);
  });
}

void rmax(const MathCall& call) {
  reduce(call, -kInf, [](const float* a, const float* b, float* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = maximum(a[i], b[i]);
  });
}

void causal_mask(const MathCall& call) {
  const int rank = call.out_shape.rank();
  if (rank < 1) throw ModelError(shape_error(call.op, "out: found a scalar; allowed: [rows, cols]"));
  const std::int64_t cols = call.out_shape[rank - 1];
  const std::int64_t rows = cols == 0 ? 0 : call.out_shape.numel() / cols;
  const auto row_pos = static_cast<std::int64_t>(call.op.scalar("row_pos"));
  const auto col_pos = static_cast<std::int64_t>(call.op.scalar("col_pos"));
  const auto period = static_cast<std::int64_t>(call.op.scalar("row_period", 0));
  const auto row_stride = static_cast<std::int64_t>(call.op.scalar("row_stride", 1));
  const auto col_stride = static_cast<std::int64_t>(call.op.scalar("col_stride", 1));
  if (period < 0) throw ModelError(shape_error(call.op, "row_period: found a negative number; allowed: 1 and above"));
  if (row_stride < 1 || col_stride < 1)
    throw ModelError(shape_error(call.op, "row_stride, col_stride: found a number below 1; allowed: 1 and above"));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t position = row_pos + row_stride * (period > 0 ? r % period : r);
    const std::int64_t visible =
        position < col_pos ? 0 : std::min<std::int64_t>((position - col_pos) / col_stride + 1, cols);
    float* out = call.out + r * cols;
    std::fill_n(out, visible, 0.0f);
    std::fill_n(out + visible, cols - visible, -kInf);
  }
}

/// Steps, in elements, of an operand along the four axes of the output (leading ones first); 0 where it is
/// broadcast. With `bcast_axis`, an operand of one rank less gets an axis of size 1 there.
std::array<std::int64_t, Shape::kMaxRank> broadcast_steps(const OpSpec& op, const std::string& name, Shape shape,
                                                          const Shape& out) {
  if (op.has_scalar("bcast_axis")) {
    const int axis = axis_of(op, "bcast_axis", out.rank());
    if (shape.rank() + 1 == out.rank() && shape.rank() > 0) {
      Shape kept;
      for (int i = 0; i < out.rank(); ++i) kept.push_back(i == axis ? 1 : shape[i < axis ? i : i - 1]);
      shape = kept;
    }
  }
  std::array<std::int64_t, Shape::kMaxRank> steps{};
  const auto refuse = [&] {
    throw ModelError(shape_error(
        op, "operand " + name + ": found shape " + shape.str() + "; allowed: one that broadcasts to " + out.str()));
  };
  const int skip = out.rank() - shape.rank();
  if (skip < 0) refuse();
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != out[i + skip] && shape[i] != 1) refuse();
    steps[static_cast<std::size_t>(Shape::kMaxRank - out.rank() + i + skip)] = shape[i] == out[i + skip] ? step : 0;
    step *= shape[i];
  }
  return steps;
}

void evaluate_elements(const MathOp::Element& element, const MathOp& meaning, const OpSpec& op, const Values* in,
                       std::size_t inputs, const Shape& out_shape, float* out, std::vector<float>& scratch) {
  std::array<double, kMaxScalars> scalars{};
  for (std::size_t i = 0; i < meaning.scalars.size(); ++i) scalars[i] = op.scalar(meaning.scalars[i].c_str());

  // Four axes, leading ones of size 1; then neighbouring axes that every operand walks as one are merged.
  std::array<std::int64_t, Shape::kMaxRank> dims{1, 1, 1, 1};
  for (int i = 0; i < out_shape.rank(); ++i)
    dims[static_cast<std::size_t>(Shape::kMaxRank - out_shape.rank() + i)] = out_shape[i];
  std::array<std::array<std::int64_t, Shape::kMaxRank>, kMaxInputs> steps{};
  for (std::size_t j = 0; j < inputs; ++j) steps[j] = broadcast_steps(op, meaning.operands[j], in[j].shape, out_shape);
  for (std::size_t axis = Shape::kMaxRank - 1; axis-- > 0;) {
    if (dims[axis] == 1) continue;
    const bool adopt = dims[3] == 1;
    const bool merge = adopt || std::all_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(inputs),
                                            [&](const auto& step) { return step[axis] == step[3] * dims[3]; });
    if (!merge) break;
    for (std::size_t j = 0; j < inputs; ++j) {
      if (adopt) steps[j][3] = steps[j][axis];
      steps[j][axis] = 0;
    }
    dims[3] *= dims[axis];
    dims[axis] = 1;
  }

  const auto run = static_cast<std::size_t>(std::min(kRun, dims[3]));
  if (scratch.size() < run * kMaxInputs) scratch.resize(run * kMaxInputs);
  std::array<const float*, kMaxInputs> at{};
  for (std::int64_t i0 = 0; i0 < dims[0]; ++i0)
    for (std::int64_t i1 = 0; i1 < dims[1]; ++i1)
      for (std::int64_t i2 = 0; i2 < dims[2]; ++i2) {
        for (std::size_t j = 0; j < inputs; ++j) {
          at[j] = in[j].data + i0 * steps[j][0] + i1 * steps[j][1] + i2 * steps[j][2];
          if (steps[j][3] == 0) {
            std::fill_n(scratch.data() + j * run, run, *at[j]);
            at[j] = scratch.data() + j * run;
          }
        }
        for (std::int64_t i3 = 0; i3 < dims[3]; i3 += kRun) {
          const auto n = static_cast<std::size_t>(std::min(kRun, dims[3] - i3));
          element(at.data(), scalars.data(), out, n);
          out += n;
          for (std::size_t j = 0; j < inputs; ++j)
            if (steps[j][3] != 0) at[j] += n;
        }
      }
}

bool same_names(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string signature(const std::vector<std::string>& operands, const std::vector<std::string>& scalars) {
  std::string text = "{";
  for (const auto& name : operands) text += (text.size() > 1 ? ", " : "") + name;
  text += "}";
  for (const auto& name : scalars) text += "+" + name;
  return text;
}

}  // namespace

MathTable MathTable::builtin() {
  MathTable t;
  t.add(unary("exp", [](float x) { return num::exp(x); }));
  t.add(unary("log", [](float x) { return num::log(x); }));
  t.add(unary("sqrt", [](float x) { return std::sqrt(x); }));
  t.add(unary("rsqrt", [](float x) { return num::rsqrt(x); }));
  t.add(unary("abs", [](float x) { return std::fabs(x); }));
  t.add(unary("neg", [](float x) { return -x; }));
  t.add(unary("sigmoid", [](float x) { return num::sigmoid(x); }));
  t.add(unary("relu", [](float x) { return x > 0.0f || x != x ? x : 0.0f; }));

  // The dtype of the output does the conversion; on a tile, which stays f32, the scalar does.
  {
    MathOp cast;
    cast.kind = "cast";
    cast.operands = {"src"};
    t.add(cast);
    cast.scalars = {"dtype"};
    cast.element = [](const float* const* in, const double* s, float* out, std::size_t n) {
      const auto type = static_cast<DType>(static_cast<int>(s[0]));
      for (std::size_t i = 0; i < n; ++i) out[i] = num::round_to(type, in[0][i]);
    };
    t.add(cast);
    MathOp copy;
    copy.kind = "copy";
    copy.operands = {"src"};
    t.add(copy);
    MathOp trans = copy;
    trans.kind = "trans";
    trans.transpose = true;
    t.add(trans);
  }

  const std::vector<std::string> ab{"a", "b"};
  t.add(binary("add", ab, add_rows));
  t.add(binary("sub", ab, sub_rows));
  t.add(binary("mul", ab, mul_rows));
  t.add(binary("div", ab, div_rows));
  t.add(binary("maximum", ab, max_rows));
  t.add(binary("minimum", ab, min_rows));
  t.add(binary("max_elem", ab, max_rows));
  MathOp exp_diff = binary("exp_diff", ab, exp_diff_rows);
  exp_diff.optional_scalars = {"bcast_axis"};
  t.add(exp_diff);
  MathOp mul_bcast = binary("mul_bcast", ab, mul_rows);
  mul_bcast.optional_scalars = {"bcast_axis"};
  t.add(mul_bcast);

  t.add(with_scalar("add", "value", add_value));
  t.add(with_scalar("sub", "value", sub_value));
  t.add(with_scalar("mul", "value", mul_value));
  t.add(with_scalar("div", "value", div_value));
  t.add(with_scalar("rsub", "value", rsub_value));
  t.add(with_scalar("rdiv", "value", rdiv_value));
  t.add(with_scalar("maximum", "value", max_value));
  t.add(with_scalar("minimum", "value", min_value));
  t.add(with_scalar("scale", "factor", mul_value));
  MathOp clamp = with_scalar("clamp", "lo", clamp_rows);
  clamp.scalars = {"lo", "hi"};
  t.add(clamp);

  t.add(binary("fma", {"a", "b", "c"}, fma_rows));
  t.add(binary("where", {"cond", "a", "b"}, where_rows));

  MathOp reduction;
  reduction.operands = {"src"};
  reduction.scalars = {"axis"};
  reduction.kind = "rmax";
  reduction.whole = rmax;
  t.add(reduction);
  reduction.kind = "rsum";
  reduction.whole = rsum;
  t.add(reduction);

  MathOp full = binary("full", {}, fill_value);
  full.scalars = {"value"};
  t.add(full);
  MathOp mask;
  mask.kind = "causal_mask";
  mask.scalars = {"row_pos", "col_pos"};
  mask.optional_scalars = {"row_period", "row_stride", "col_stride"};
  mask.whole = causal_mask;
  t.add(mask);

  t.add(binary("bias", {"src", "bias"}, add_rows));
  t.add(binary("add", {"src", "other"}, add_rows));
  t.add(binary("mul", {"src", "other"}, mul_rows));
  MathOp dequant = binary("dequant", {"src", "scale"}, mul_rows);
  dequant.row_per_k_tile = true;
  t.add(dequant);
  return t;
}

void MathTable::add(MathOp op) {
  const std::string name = "math operation " + op.kind + " " + signature(op.operands, op.scalars);
  if (op.element && op.whole) throw InputError(name + ": found two semantics; allowed: element or whole");
  if (op.operands.size() > kMaxInputs || op.scalars.size() > kMaxScalars)
    throw InputError(name + ": found too many operands or scalars; allowed: at most 8 of each");
  if (!op.element && !op.whole && op.operands != std::vector<std::string>{"src"})
    throw InputError(name + ": found no semantics; allowed without: operations that move {src}");
  auto& known = ops_[op.kind];
  for (const auto& other : known)
    if (same_names(other.operands, op.operands) && same_names(other.scalars, op.scalars))
      throw InputError(name + ": found a second definition; allowed: one");
  known.push_back(std::move(op));
}

const MathOp& MathTable::find(const OpSpec& op, bool tile) const {
  std::vector<std::string> operands;
  if (tile) operands.push_back("src");
  for (const auto& o : op.operands) operands.push_back(o.name);
  const auto known = ops_.find(op.kind);
  if (known != ops_.end())
    for (const auto& meaning : known->second) {
      if (!same_names(meaning.operands, operands)) continue;
      const bool complete = std::all_of(meaning.scalars.begin(), meaning.scalars.end(),
                                        [&](const std::string& s) { return op.has_scalar(s.c_str()); });
      const bool clean = std::all_of(op.extra.begin(), op.extra.end(), [&](const Scalar& s) {
        return holds(meaning.scalars, s.name) || holds(meaning.optional_scalars, s.name);
      });
      if (complete && clean) return meaning;
    }
  std::vector<std::string> scalars;
  for (const auto& s : op.extra) scalars.push_back(s.name);
  std::string allowed;
  if (known == ops_.end()) {
    for (const auto& entry : ops_) allowed += (allowed.empty() ? "" : " ") + entry.first;
  } else {
    for (const auto& meaning : known->second)
      allowed += (allowed.empty() ? "" : " or ") + signature(meaning.operands, meaning.scalars);
  }
  throw ModelError("math operation " + op.kind + ": found " + signature(operands, scalars) + "; allowed: " + allowed);
}

void evaluate(const MathOp& meaning, const OpSpec& op, const Values* in, std::size_t inputs, const Shape& out_shape,
              float* out, std::uint32_t vector_width, std::vector<float>& scratch) {
  if (inputs != meaning.operands.size())
    throw ModelError("math operation " + op.kind + ": found " + std::to_string(inputs) +
                     " inputs; allowed: " + std::to_string(meaning.operands.size()));
  if (out_shape.numel() == 0) return;
  if (meaning.whole) {
    meaning.whole(MathCall{op, in, inputs, out_shape, out, vector_width, scratch});
  } else if (meaning.element) {
    evaluate_elements(meaning.element, meaning, op, in, inputs, out_shape, out, scratch);
  } else {
    static const MathOp::Element copy = [](const float* const* from, const double*, float* to, std::size_t n) {
      std::copy_n(from[0], n, to);
    };
    evaluate_elements(copy, meaning, op, in, inputs, out_shape, out, scratch);
  }
}

}  // namespace kb
