#include <kb/kernels/context.h>
#include <kb/tlm_if/errors.h>

#include "math_ops.h"
#include "views.h"

#include <algorithm>
#include <cmath>

namespace kb::tl {

namespace {

bool is_whole(double v) {
  return v == std::floor(v);
}

}  // namespace

Context::Context(PePort& pe, const RecipeRegistry& recipes)
    : pe_(pe), recipes_(recipes), arena_(pe.machine().scratch_bytes) {}

void Context::fail(const std::string& call, const std::string& found, const std::string& allowed) const {
  throw ModelError(call + " on " + pe_.name() + ": found " + found + "; allowed: " + allowed);
}

// ---- where am I ----------------------------------------------------------------------------------------------

std::uint32_t Context::program_id(int axis) const {
  const PeId id = pe_.id();
  switch (axis) {
    case 0: return id.pe;
    case 1: return id.cube;
    case 2: return id.sip;
    default: fail("tl.program_id", "axis " + std::to_string(axis), "0 (PE), 1 (cube), 2 (SIP)");
  }
}

std::uint32_t Context::num_programs(int axis) const {
  switch (axis) {
    case 0: return machine().pes_per_cube;
    case 1: return machine().cubes_per_sip();
    case 2: return machine().sips;
    default: fail("tl.num_programs", "axis " + std::to_string(axis), "0 (PE), 1 (cube), 2 (SIP)");
  }
}

const Shard& Context::shard_of(const Tensor& tensor) const {
  const std::uint32_t mine = rank();
  for (const auto& shard : tensor.shards)
    if (shard.pe == mine) return shard;
  fail("tl.shard_of", "tensor " + tensor.name + " without a shard on this PE", "a tensor placed on the PE");
}

// ---- names and allocation -------------------------------------------------------------------------------------

Handle Context::ref(std::uint64_t addr, const Shape& shape, DType dtype) {
  return wrap(make_handle(++last_id_, shape, dtype, Space::hbm, addr, false));
}

Handle Context::resident(std::uint64_t offset, const Shape& shape, DType dtype) {
  const TensorHandle h = make_handle(++last_id_, shape, dtype, Space::tcm, offset, true);
  if (offset < arena_.capacity() || h.bytes() > machine().tcm_bytes || offset > machine().tcm_bytes - h.bytes())
    fail("tl.resident", describe(h) + " at TCM offset " + std::to_string(offset),
         "a tensor between scratch and the end of TCM, offsets " + std::to_string(arena_.capacity()) + " .. " +
             std::to_string(machine().tcm_bytes));
  return wrap(h);
}

TensorHandle Context::fresh(const std::string& call, const Shape& shape, DType dtype) {
  const auto count = static_cast<std::uint64_t>(shape.numel());
  if (count > std::uint64_t{1} << 60)
    fail(call, "a tensor of shape " + shape.str(),
         "one that fits scratch, " + std::to_string(arena_.capacity()) + " B");
  const std::uint64_t offset = arena_.allocate(count * size_of(dtype), call + " on " + pe_.name());
  TensorHandle h = make_handle(++last_id_, shape, dtype, Space::tcm, offset, true);
  h.scope = arena_.innermost();
  settle(range_of(h), "tl: scratch reuse");
  return h;
}

Handle Context::empty(const Shape& shape, DType dtype) {
  return wrap(fresh("tl.empty", shape, dtype));
}

// ---- checks ---------------------------------------------------------------------------------------------------

void Context::check_use(const std::string& call, const Handle& h) {
  if (!h.valid()) fail(call, "an empty handle", "a handle that a tl call returned");
  if (&h.context() != this) fail(call, "a handle of another PE", "handles of this PE; send and recv move data");
  const TensorHandle& raw = h.raw();
  if (raw.scope != 0 && !arena_.alive(raw.scope))
    fail(call,
         "a handle " + describe(raw) + " whose scratch scope (number " + std::to_string(raw.scope) + ") has ended",
         "handles of open scopes; copy_to keeps a value");
  if (!pending_recvs_.empty()) settle(range_of(raw), call.c_str());
}

void Context::settle(const AddressRange& range, const char* why) {
  for (std::size_t i = 0; i < pending_recvs_.size();) {
    if (!pending_recvs_[i].range.overlaps(range)) {
      ++i;
      continue;
    }
    pe_.wait(pending_recvs_[i].id, why);
    pending_recvs_.erase(pending_recvs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Context::settle(CommandId id) {
  pending_recvs_.erase(
      std::remove_if(pending_recvs_.begin(), pending_recvs_.end(), [id](const PendingRecv& p) { return p.id == id; }),
      pending_recvs_.end());
}

TensorHandle Context::math_operand(const std::string& call, const Handle& h) {
  check_use(call, h);
  const TensorHandle& raw = h.raw();
  if (raw.space != Space::tcm)
    fail(call, "operand " + describe(raw) + " in " + kb::name_of(raw.space),
         "operands in TCM; tl.load brings them there");
  if (raw.shape.numel() == 0) fail(call, "operand of shape " + raw.shape.str(), "dimensions of 1 and above");
  return is_transposed(raw) ? dense_operand(call, h) : raw;
}

TensorHandle Context::dense_operand(const std::string& call, const Handle& h) {
  check_use(call, h);
  TensorHandle raw = h.raw();
  if (raw.space != Space::tcm)
    fail(call, "operand " + describe(raw) + " in " + kb::name_of(raw.space),
         "operands in TCM; tl.load brings them there");
  if (raw.dense()) return raw;
  OpSpec op;
  op.has_out = true;
  op.out = fresh(call, raw.shape, raw.dtype);
  if (is_transposed(raw)) {
    op.kind = "trans";
    op.operands = {{"src", stored_form(raw)}};
  } else {
    op.kind = "copy";
    op.operands = {{"src", raw}};
  }
  return emit(CommandKind::math, std::move(op)).raw();
}

Context::GemmOperand Context::gemm_operand(const std::string& call, const char* name, const Handle& h, bool trans) {
  check_use(call, h);
  const TensorHandle& raw = h.raw();
  if (raw.shape.rank() != 2) fail(call, std::string("operand ") + name + " " + describe(raw), "two dimensions");
  if (raw.space == Space::sram) fail(call, std::string("operand ") + name + " in sram", "operands in TCM or HBM");
  if (raw.dense()) return {raw, trans};
  if (is_transposed(raw)) return {stored_form(raw), !trans};
  if (raw.space != Space::tcm)
    fail(call, std::string("operand ") + name + " as a repeated view in HBM", "a dense tensor");
  return {dense_operand(call, h), trans};
}

TensorHandle Context::destination(const std::string& call, const Dest& dest, const Shape& shape, DType default_dtype) {
  if (!dest.out) return fresh(call, shape, dest.dtype.value_or(default_dtype));
  check_use(call, *dest.out);
  const TensorHandle& out = dest.out->raw();
  if (out.shape != shape) fail(call, "out " + describe(out), "the shape of the result, " + shape.str());
  if (dest.dtype && *dest.dtype != out.dtype)
    fail(call, "out " + describe(out) + " with dtype " + kb::name_of(*dest.dtype), "one of the two, or the same type");
  if (!out.dense()) fail(call, "out as a view that is not dense, " + describe(out), "a dense tensor");
  return out;
}

Handle Context::view(const Handle& h, const Shape& shape, const std::array<std::int64_t, Shape::kMaxRank>& strides) {
  TensorHandle raw = h.raw();
  raw.id = ++last_id_;
  raw.shape = shape;
  raw.strides = strides;
  return wrap(raw);
}

Handle Context::emit(CommandKind kind, OpSpec op) {
  Command command;
  command.kind = kind;
  TensorHandle out = op.out;
  command.ops.push_back(std::move(op));
  out.pending = pe_.issue(std::move(command));
  return wrap(out);
}

// ---- memory ---------------------------------------------------------------------------------------------------

Handle Context::load(std::uint64_t addr, const Shape& shape, DType dtype, const Dest& dest) {
  if (shape.numel() == 0) fail("tl.load", "shape " + shape.str(), "dimensions of 1 and above");
  if (dest.dtype && *dest.dtype != dtype)
    fail("tl.load", std::string("a load of ") + kb::name_of(dtype) + " as " + kb::name_of(*dest.dtype),
         "the stored type; tl.cast converts");
  OpSpec op;
  op.kind = "dma_read";
  op.has_out = true;
  op.out = destination("tl.load", dest, shape, dtype);
  if (op.out.dtype != dtype || op.out.space != Space::tcm)
    fail("tl.load", "out " + describe(op.out) + " in " + kb::name_of(op.out.space),
         std::string("a tensor of ") + kb::name_of(dtype) + " in TCM");
  op.operands = {{"src", make_handle(++last_id_, shape, dtype, Space::hbm, addr, false)}};
  op.extra = {{"bytes", static_cast<double>(op.out.bytes())}};
  return emit(CommandKind::dma_read, std::move(op));
}

void Context::store(std::uint64_t addr, const Handle& h) {
  if (h.valid() && h.shape().numel() == 0) fail("tl.store", "shape " + h.shape().str(), "dimensions of 1 and above");
  const TensorHandle src = dense_operand("tl.store", h);
  OpSpec op;
  op.kind = "dma_write";
  op.operands = {{"src", src}};
  op.has_out = true;
  op.out = make_handle(++last_id_, src.shape, src.dtype, Space::hbm, addr, false);
  op.extra = {{"bytes", static_cast<double>(src.bytes())}};
  emit(CommandKind::dma_write, std::move(op));
}

// ---- matrix engine --------------------------------------------------------------------------------------------

Context::HeadDims Context::check_gemm(const std::string& call, const GemmOperand& a, const GemmOperand& b) const {
  const auto logical = [](const GemmOperand& o) {
    const Shape& s = o.handle.shape;
    return o.trans ? Shape{s[1], s[0]} : s;
  };
  const Shape sa = logical(a), sb = logical(b);
  const std::string found =
      "a " + sa.str() + " " + kb::name_of(a.handle.dtype) + " x b " + sb.str() + " " + kb::name_of(b.handle.dtype);
  if (sa[1] != sb[0]) fail(call, found, "a [M, K] x b [K, N] with one K");
  if (a.handle.dtype != b.handle.dtype) fail(call, found, "operands of one dtype");
  if (a.handle.dtype == DType::i32) fail(call, found, "f16, bf16, f32 or i8");
  if (sa[0] == 0 || sa[1] == 0 || sb[1] == 0) fail(call, found, "M, K, N of 1 and above");
  return {sa[0], sa[1], sb[1]};
}

OpSpec Context::gemm_op(const GemmOperand& a, const GemmOperand& b, const HeadDims& dims) const {
  OpSpec op;
  op.kind = "gemm";
  op.operands = {{"a", a.handle}, {"b", b.handle}};
  op.extra = {
      {"m", static_cast<double>(dims.m)}, {"k", static_cast<double>(dims.k)}, {"n", static_cast<double>(dims.n)}};
  op.trans_a = a.trans;
  op.trans_b = b.trans;
  op.has_out = true;
  return op;
}

Handle Context::dot(const Handle& a, const Handle& b, const Dest& dest, bool trans_a, bool trans_b) {
  static const std::string kCall = "tl.dot";
  const GemmOperand ga = gemm_operand(kCall, "a", a, trans_a);
  const GemmOperand gb = gemm_operand(kCall, "b", b, trans_b);
  const HeadDims dims = check_gemm(kCall, ga, gb);
  OpSpec op = gemm_op(ga, gb, dims);
  op.out = destination(kCall, dest, Shape{dims.m, dims.n}, is_float(ga.handle.dtype) ? DType::f32 : DType::i32);
  for (const auto& o : op.operands)
    if (range_of(o.handle).overlaps(range_of(op.out)))
      fail(kCall, "out over operand " + o.name, "an output apart from the operands");
  const Handle result = emit(CommandKind::gemm, std::move(op));
  pe_.wait(result.raw().pending, "tl.dot");
  return result;
}

void Context::wait(const Handle& h) {
  if (!h.valid()) fail("tl.wait", "an empty handle", "a handle that a tl call returned");
  if (h.raw().pending == 0) return;
  pe_.wait(h.raw().pending, "tl.wait");
  settle(h.raw().pending);
}

// ---- element-wise ---------------------------------------------------------------------------------------------

Context::MathResult Context::build_math(const std::string& call, const std::string& kind, const NamedHandles& operands,
                                        std::vector<Scalar> extra) {
  MathResult r;
  r.op.kind = kind;
  std::optional<DType> widest;
  for (const auto& o : operands) {
    const TensorHandle h = math_operand(call, o.second);
    const std::optional<Shape> both = r.op.operands.empty() ? h.shape : broadcast_shapes(r.shape, h.shape);
    if (!both) {
      std::string found;
      for (const auto& each : operands)
        found += (found.empty() ? "" : ", ") + each.first + " " + describe(each.second.raw());
      fail(call, found, "shapes that broadcast: equal, or 1, from the last axis on");
    }
    r.shape = *both;
    r.op.operands.push_back({o.first, h});
    // The condition of a selection chooses; it does not widen the result.
    if (o.first != "cond") widest = widest ? promote(*widest, h.dtype) : h.dtype;
  }
  r.dtype = widest.value_or(DType::f32);
  const MathSignature* signature = find_math(kind, operands.size());
  if (signature != nullptr && signature->reduction) {
    const int rank = r.shape.rank();
    const int axis = static_cast<int>(extra[0].value);
    if (axis < -rank || axis >= rank)
      fail(call, "axis " + std::to_string(axis) + " of " + r.shape.str(),
           std::to_string(-rank) + " .. " + std::to_string(rank - 1));
    r.shape[axis < 0 ? rank + axis : axis] = 1;
    if (kind == "rsum" && r.dtype == DType::i8) r.dtype = DType::i32;
  } else if (!is_float(r.dtype)) {
    // Functions that leave the integers, and an integer tensor with a fractional scalar.
    if ((signature != nullptr && signature->type == ResultType::wider_float) ||
        std::any_of(extra.begin(), extra.end(), [](const Scalar& s) { return !is_whole(s.value); }))
      r.dtype = DType::f32;
  }
  r.op.extra = std::move(extra);
  return r;
}

Handle Context::elementwise(const std::string& call, const std::string& kind, const NamedHandles& operands,
                            std::vector<Scalar> extra, const Dest& dest) {
  MathResult r = build_math(call, kind, operands, std::move(extra));
  r.op.has_out = true;
  r.op.out = destination(call, dest, r.shape, r.dtype);
  if (r.op.out.space != Space::tcm)
    fail(call, "out in " + std::string(kb::name_of(r.op.out.space)), "an output in TCM");
  return emit(CommandKind::math, std::move(r.op));
}

Handle Context::exp(const Handle& x, const Dest& d) {
  return elementwise("tl.exp", "exp", {{"src", x}}, {}, d);
}
Handle Context::log(const Handle& x, const Dest& d) {
  return elementwise("tl.log", "log", {{"src", x}}, {}, d);
}
Handle Context::sqrt(const Handle& x, const Dest& d) {
  return elementwise("tl.sqrt", "sqrt", {{"src", x}}, {}, d);
}
Handle Context::rsqrt(const Handle& x, const Dest& d) {
  return elementwise("tl.rsqrt", "rsqrt", {{"src", x}}, {}, d);
}
Handle Context::abs(const Handle& x, const Dest& d) {
  return elementwise("tl.abs", "abs", {{"src", x}}, {}, d);
}
Handle Context::neg(const Handle& x, const Dest& d) {
  return elementwise("tl.neg", "neg", {{"src", x}}, {}, d);
}
Handle Context::sigmoid(const Handle& x, const Dest& d) {
  return elementwise("tl.sigmoid", "sigmoid", {{"src", x}}, {}, d);
}
Handle Context::cast(const Handle& x, DType dtype) {
  return elementwise("tl.cast", "cast", {{"src", x}}, {}, as(dtype));
}

Handle Context::add(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.add", "add", {{"a", a}, {"b", b}}, {}, d);
}
Handle Context::sub(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.sub", "sub", {{"a", a}, {"b", b}}, {}, d);
}
Handle Context::mul(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.mul", "mul", {{"a", a}, {"b", b}}, {}, d);
}
Handle Context::div(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.div", "div", {{"a", a}, {"b", b}}, {}, d);
}
Handle Context::maximum(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.maximum", "maximum", {{"a", a}, {"b", b}}, {}, d);
}
Handle Context::minimum(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.minimum", "minimum", {{"a", a}, {"b", b}}, {}, d);
}
Handle Context::exp_diff(const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.exp_diff", "exp_diff", {{"a", a}, {"b", b}}, {}, d);
}

Handle Context::add(const Handle& a, double b, const Dest& d) {
  return elementwise("tl.add", "add", {{"src", a}}, {{"value", b}}, d);
}
Handle Context::sub(const Handle& a, double b, const Dest& d) {
  return elementwise("tl.sub", "sub", {{"src", a}}, {{"value", b}}, d);
}
Handle Context::mul(const Handle& a, double b, const Dest& d) {
  return elementwise("tl.mul", "mul", {{"src", a}}, {{"value", b}}, d);
}
Handle Context::div(const Handle& a, double b, const Dest& d) {
  return elementwise("tl.div", "div", {{"src", a}}, {{"value", b}}, d);
}
Handle Context::maximum(const Handle& a, double b, const Dest& d) {
  return elementwise("tl.maximum", "maximum", {{"src", a}}, {{"value", b}}, d);
}
Handle Context::minimum(const Handle& a, double b, const Dest& d) {
  return elementwise("tl.minimum", "minimum", {{"src", a}}, {{"value", b}}, d);
}
Handle Context::rsub(double value, const Handle& x, const Dest& d) {
  return elementwise("tl.rsub", "rsub", {{"src", x}}, {{"value", value}}, d);
}
Handle Context::rdiv(double value, const Handle& x, const Dest& d) {
  return elementwise("tl.rdiv", "rdiv", {{"src", x}}, {{"value", value}}, d);
}

Handle Context::fma(const Handle& a, const Handle& b, const Handle& c, const Dest& d) {
  return elementwise("tl.fma", "fma", {{"a", a}, {"b", b}, {"c", c}}, {}, d);
}
Handle Context::clamp(const Handle& x, double lo, double hi, const Dest& d) {
  if (!(lo <= hi)) fail("tl.clamp", "lo " + std::to_string(lo) + ", hi " + std::to_string(hi), "lo <= hi");
  return elementwise("tl.clamp", "clamp", {{"src", x}}, {{"lo", lo}, {"hi", hi}}, d);
}
Handle Context::where(const Handle& cond, const Handle& a, const Handle& b, const Dest& d) {
  return elementwise("tl.where", "where", {{"cond", cond}, {"a", a}, {"b", b}}, {}, d);
}

// ---- reductions -----------------------------------------------------------------------------------------------

Handle Context::max(const Handle& x, int axis, const Dest& d) {
  return elementwise("tl.max", "rmax", {{"src", x}}, {{"axis", static_cast<double>(axis)}}, d);
}
Handle Context::sum(const Handle& x, int axis, const Dest& d) {
  return elementwise("tl.sum", "rsum", {{"src", x}}, {{"axis", static_cast<double>(axis)}}, d);
}

Handle Context::softmax(const Handle& x, int axis) {
  const Handle shifted = sub(x, max(x, axis));
  const Handle e = exp(shifted);
  return div(e, sum(e, axis));
}

// ---- constants ------------------------------------------------------------------------------------------------

Handle Context::full(const Shape& shape, double value, DType dtype) {
  if (shape.numel() == 0) fail("tl.full", "shape " + shape.str(), "dimensions of 1 and above");
  OpSpec op;
  op.kind = "full";
  op.extra = {{"value", value}};
  op.has_out = true;
  op.out = fresh("tl.full", shape, dtype);
  return emit(CommandKind::math, std::move(op));
}

void Context::fill(const Handle& h, double value) {
  check_use("tl.fill", h);
  if (h.space() != Space::tcm || !h.raw().dense() || h.shape().numel() == 0)
    fail("tl.fill", describe(h.raw()) + " in " + kb::name_of(h.space()), "a dense tensor in TCM that is not empty");
  OpSpec op;
  op.kind = "full";
  op.extra = {{"value", value}};
  op.has_out = true;
  op.out = h.raw();
  emit(CommandKind::math, std::move(op));
}

Handle Context::causal_mask(std::int64_t rows, std::int64_t cols, const CausalWindow& w, const Dest& dest) {
  static const std::string kCall = "tl.causal_mask";
  if (rows < 1 || cols < 1 || w.row_pos < 0 || w.col_pos < 0 || w.row_period < 0 || w.row_stride < 1 ||
      w.col_stride < 1)
    fail(kCall,
         Shape{std::max<std::int64_t>(rows, 0), std::max<std::int64_t>(cols, 0)}.str() + ", row_pos " +
             std::to_string(w.row_pos) + ", col_pos " + std::to_string(w.col_pos) + ", row_period " +
             std::to_string(w.row_period) + ", strides " + std::to_string(w.row_stride) + ", " +
             std::to_string(w.col_stride),
         "rows, cols and strides of 1 and above, positions and period of 0 and above");
  OpSpec op;
  op.kind = "causal_mask";
  op.extra = {{"row_pos", static_cast<double>(w.row_pos)}, {"col_pos", static_cast<double>(w.col_pos)}};
  if (w.row_period != 0) op.extra.push_back({"row_period", static_cast<double>(w.row_period)});
  if (w.row_stride != 1) op.extra.push_back({"row_stride", static_cast<double>(w.row_stride)});
  if (w.col_stride != 1) op.extra.push_back({"col_stride", static_cast<double>(w.col_stride)});
  op.has_out = true;
  op.out = destination(kCall, dest, Shape{rows, cols}, DType::f32);
  if (op.out.space != Space::tcm) fail(kCall, "out in " + std::string(kb::name_of(op.out.space)), "an output in TCM");
  return emit(CommandKind::math, std::move(op));
}

// ---- views ----------------------------------------------------------------------------------------------------

Handle Context::trans(const Handle& h) {
  check_use("tl.trans", h);
  const TensorHandle& raw = h.raw();
  if (raw.shape.rank() != 2) fail("tl.trans", describe(raw), "two dimensions");
  return view(h, Shape{raw.shape[1], raw.shape[0]}, {raw.strides[1], raw.strides[0], 0, 0});
}

Handle Context::broadcast(const Handle& h, const Shape& shape) {
  check_use("tl.broadcast", h);
  const TensorHandle raw =
      is_transposed(h.raw()) && h.space() == Space::tcm ? dense_operand("tl.broadcast", h) : h.raw();
  const int lead = shape.rank() - raw.shape.rank();
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  bool fits = lead >= 0;
  for (int i = 0; fits && i < raw.shape.rank(); ++i) {
    const auto to = static_cast<std::size_t>(i + lead);
    if (raw.shape[i] == shape[i + lead])
      strides[to] = raw.strides[static_cast<std::size_t>(i)];
    else if (raw.shape[i] != 1)
      fits = false;
  }
  if (!fits)
    fail("tl.broadcast", describe(raw) + " to " + shape.str(),
         "a shape that keeps every axis or repeats one of size 1");
  return view(wrap(raw), shape, strides);
}

Handle Context::reshape(const Handle& h, const Shape& shape) {
  check_use("tl.reshape", h);
  const TensorHandle& raw = h.raw();
  if (shape.numel() != raw.shape.numel())
    fail("tl.reshape", describe(raw) + " to " + shape.str(),
         "a shape of " + std::to_string(raw.shape.numel()) + " elements");
  if (!raw.dense()) fail("tl.reshape", "a view that is not dense, " + describe(raw), "a dense tensor");
  return view(h, shape, dense_strides(shape));
}

Handle Context::slice(const Handle& h, std::int64_t first, const Shape& shape) {
  check_use("tl.slice", h);
  const TensorHandle& raw = h.raw();
  if (first < 0 || first > raw.shape.numel() || shape.numel() > raw.shape.numel() - first)
    fail("tl.slice", shape.str() + " from element " + std::to_string(first) + " of " + describe(raw),
         "a part of its " + std::to_string(raw.shape.numel()) + " elements");
  if (!raw.dense()) fail("tl.slice", "a view that is not dense, " + describe(raw), "a dense tensor");
  TensorHandle part = raw;
  part.id = ++last_id_;
  part.shape = shape;
  part.strides = dense_strides(shape);
  part.addr += static_cast<std::uint64_t>(first) * size_of(raw.dtype);
  return wrap(part);
}

void Context::copy_to(const Handle& dst, const Handle& src) {
  static const std::string kCall = "tl.copy_to";
  const TensorHandle from = math_operand(kCall, src);
  check_use(kCall, dst);
  const TensorHandle& to = dst.raw();
  if (to.space != Space::tcm || !to.dense())
    fail(kCall, "dst " + describe(to) + " in " + kb::name_of(to.space), "a dense tensor in TCM");
  if (to.shape != from.shape || to.dtype != from.dtype)
    fail(kCall, "dst " + describe(to) + ", src " + describe(from), "one shape and one dtype");
  OpSpec op;
  op.kind = "copy";
  op.operands = {{"src", from}};
  op.has_out = true;
  op.out = to;
  emit(CommandKind::copy, std::move(op));
}

// ---- queues ---------------------------------------------------------------------------------------------------

void Context::send(Direction direction, const Handle& h, bool split) {
  const std::string call = std::string("tl.send(") + kb::name_of(direction) + ")";
  const TensorHandle src = dense_operand(call, h);
  if (!pe_.has_peer(direction)) fail(call, "a direction without a peer", "directions installed for this launch");
  if (!split && src.bytes() > machine().ipcq_slot_bytes)
    fail(call, describe(src) + ", " + std::to_string(src.bytes()) + " B",
         "at most a slot, pe.ipcq.slot_bytes = " + std::to_string(machine().ipcq_slot_bytes) + ", or split");
  Command command;
  command.kind = CommandKind::ipcq_send;
  command.direction = direction;
  command.split = split;
  OpSpec op;
  op.kind = "ipcq_send";
  op.operands = {{"src", src}};
  command.ops.push_back(std::move(op));
  pe_.issue(std::move(command));
}

Handle Context::receive(const std::string& call, Direction direction, const Shape& shape, DType dtype, const Dest& dest,
                        bool consume) {
  if (!pe_.has_peer(direction)) fail(call, "a direction without a peer", "directions installed for this launch");
  if (dest.dtype && *dest.dtype != dtype)
    fail(call, std::string("a message of ") + kb::name_of(dtype) + " as " + kb::name_of(*dest.dtype),
         "the type that is sent");
  Command command;
  command.kind = CommandKind::ipcq_recv;
  command.direction = direction;
  command.consume = consume;
  OpSpec op;
  op.kind = "ipcq_recv";
  op.has_out = true;
  op.out = destination(call, dest, shape, dtype);
  if (op.out.space != Space::tcm || op.out.dtype != dtype)
    fail(call, "out " + describe(op.out) + " in " + kb::name_of(op.out.space),
         std::string("a tensor of ") + kb::name_of(dtype) + " in TCM");
  command.split = op.out.bytes() > machine().ipcq_slot_bytes;
  TensorHandle out = op.out;
  command.ops.push_back(std::move(op));
  out.pending = pe_.issue(std::move(command));
  pending_recvs_.push_back({out.pending, range_of(out)});
  return wrap(out);
}

Handle Context::recv(Direction direction, const Shape& shape, DType dtype, const Dest& dest) {
  const std::string call = std::string("tl.recv(") + kb::name_of(direction) + ")";
  const Handle h = receive(call, direction, shape, dtype, dest, true);
  pe_.wait(h.raw().pending, call.c_str());
  settle(h.raw().pending);
  return h;
}

Handle Context::recv_async(Direction direction, const Shape& shape, DType dtype, const Dest& dest) {
  return receive(std::string("tl.recv_async(") + kb::name_of(direction) + ")", direction, shape, dtype, dest, true);
}

Handle Context::recv_no_consume(Direction direction, const Shape& shape, DType dtype, const Dest& dest) {
  const std::string call = std::string("tl.recv_no_consume(") + kb::name_of(direction) + ")";
  const Handle h = receive(call, direction, shape, dtype, dest, false);
  pe_.wait(h.raw().pending, call.c_str());
  settle(h.raw().pending);
  return h;
}

}  // namespace kb::tl
