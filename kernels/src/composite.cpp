// Lowering of a composite to its flat list of operations (spec 2.2, 3.4, 3.5).
#include <kb/kernels/context.h>
#include <kb/kernels/params.h>
#include <kb/tlm_if/errors.h>

#include "math_ops.h"
#include "views.h"

#include <algorithm>
#include <stdexcept>

namespace kb::tl {

/// What kind of argument an epilogue operation takes, in the order of NamedArg's alternatives.
enum class ArgKind { tensor, number, type };

namespace {

constexpr unsigned bit(OpScope s) {
  return 1u << static_cast<unsigned>(s);
}
constexpr unsigned kLinear = bit(OpScope::k_tile) | bit(OpScope::output_tile) | bit(OpScope::kernel);
constexpr unsigned kOncePerElement = bit(OpScope::output_tile) | bit(OpScope::kernel);

}  // namespace

/// Rules of one epilogue operation. In the K loop an operation sees one partial product, so only those that are
/// linear in it make sense there.
struct EpilogueRule {
  const char* op;
  const char* arg;  // null: none
  ArgKind kind;
  OpScope scope;
  unsigned scopes;
  const char* math;  // the element-wise operation that does the same to a whole tensor
};

namespace {

constexpr EpilogueRule kEpilogueRules[] = {
    {"bias", "bias", ArgKind::tensor, OpScope::output_tile, kOncePerElement, "add"},
    {"relu", nullptr, ArgKind::tensor, OpScope::output_tile, kOncePerElement, "relu"},
    {"scale", "factor", ArgKind::number, OpScope::output_tile, kLinear, "mul"},
    {"add", "other", ArgKind::tensor, OpScope::output_tile, kOncePerElement, "add"},
    {"mul", "other", ArgKind::tensor, OpScope::output_tile, kLinear, "mul"},
    {"dequant", "scale", ArgKind::tensor, OpScope::k_tile, kLinear, "mul"},
    {"cast", "dtype", ArgKind::type, OpScope::output_tile, bit(OpScope::output_tile), "cast"},
};

const char* name_of(ArgKind k) {
  return k == ArgKind::tensor ? "a tensor" : k == ArgKind::number ? "a number" : "a dtype";
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "none" : text;
}

std::string args_of(const std::vector<NamedArg>& args) {
  std::vector<std::string> names;
  for (const auto& a : args) names.push_back(a.name);
  return join(names);
}

const NamedArg* find_arg(const std::vector<NamedArg>& args, const std::string& name) {
  for (const auto& a : args)
    if (a.name == name) return &a;
  return nullptr;
}

std::string expectation(const EpilogueRule& rule) {
  return rule.arg == nullptr
             ? std::string(rule.op) + "()"
             : std::string(rule.op) + "(" + rule.arg + "), " + rule.arg + " being " + name_of(rule.kind);
}

std::string scopes_of(const EpilogueRule& rule) {
  std::string text;
  for (const OpScope s : {OpScope::k_tile, OpScope::output_tile, OpScope::kernel})
    if (rule.scopes & bit(s)) text += (text.empty() ? "" : ", ") + std::string(kb::name_of(s));
  return text;
}

/// A cast at the end says what the result is, unless the caller does.
std::optional<DType> closing_cast(const std::vector<EpilogueItem>& epilogue) {
  if (epilogue.empty() || epilogue.back().op != "cast") return std::nullopt;
  const NamedArg* arg = find_arg(epilogue.back().args, "dtype");
  const auto* type = arg == nullptr ? nullptr : std::get_if<DType>(&arg->value);
  return type == nullptr ? std::nullopt : std::optional<DType>(*type);
}

bool same_place(const TensorHandle& a, const TensorHandle& b) {
  return a.space == b.space && a.addr == b.addr && a.shape == b.shape && a.dtype == b.dtype;
}

}  // namespace

struct Context::Lowering {
  std::string call;
  Command command;
  std::optional<TensorHandle> primary;  // operand `a` of the head, left by a recipe
  HeadDims dims;                        // gemm head

  /// Lists a tensor that the command both reads and writes, once.
  void read_write(const TensorHandle& h) {
    for (const auto& known : command.rw_handles)
      if (same_place(known, h)) return;
    command.rw_handles.push_back(h);
  }
};

Handle Context::composite(const Composite& c) {
  Lowering l;
  l.call = "tl.composite(" + c.head_ + ")";
  l.command.kind = CommandKind::composite;
  lower_prologue(l, c);
  if (c.head_ == "gemm") {
    lower_gemm_head(l, c);
    for (const auto& item : c.epilogue_) lower_gemm_epilogue(l, item);
  } else {
    lower_math_head(l, c);
  }
  const auto gemms =
      std::count_if(l.command.ops.begin(), l.command.ops.end(), [](const OpSpec& op) { return op.kind == "gemm"; });
  if (gemms > 1) fail(l.call, std::to_string(gemms) + " GEMMs in one list", "at most one GEMM");

  TensorHandle out;
  for (const auto& op : l.command.ops)
    if (op.has_out) out = op.out;
  if (const int head = l.command.gemm_index(); head >= 0) out = l.command.ops[static_cast<std::size_t>(head)].out;
  out.pending = pe_.issue(std::move(l.command));
  return wrap(out);
}

// ---- prologue -------------------------------------------------------------------------------------------------

void Context::lower_prologue(Lowering& l, const Composite& c) {
  for (const auto& item : c.prologue_) {
    const Recipe* recipe = recipes_.find(item.recipe);
    const std::string where = l.call + ", recipe " + item.recipe;
    if (recipe == nullptr)
      fail(l.call, "unknown recipe " + item.recipe,
           join(recipes_.names()) + nearest_hint(item.recipe, recipes_.names()));

    std::vector<std::string> expected;
    for (const auto& o : recipe->operands) expected.push_back(o.name);
    for (const auto& s : recipe->scalars) expected.push_back(s);
    for (const auto& a : item.args)
      if (std::count(expected.begin(), expected.end(), a.name) == 0 ||
          std::count_if(item.args.begin(), item.args.end(), [&a](const NamedArg& o) { return o.name == a.name; }) != 1)
        fail(where, "superfluous operand " + a.name, "each of " + join(expected) + " once");
    for (const auto& name : expected)
      if (find_arg(item.args, name) == nullptr) fail(where, "operands " + args_of(item.args), join(expected));

    std::map<std::string, TensorHandle> tensors;
    std::map<std::string, double> scalars;
    for (const auto& o : recipe->operands) {
      const auto* h = std::get_if<Handle>(&find_arg(item.args, o.name)->value);
      if (h == nullptr) fail(where, "operand " + o.name + " without a tensor", "a tensor");
      check_use(where, *h);
      if (h->space() != Space::tcm)
        fail(where, "prologue operand " + o.name + " " + describe(h->raw()) + " in " + kb::name_of(h->space()),
             "prologue operands in TCM; tl.load brings them there");
      if (h->shape().numel() == 0)
        fail(where, "operand " + o.name + " of shape " + h->shape().str(), "dimensions of 1 and above");
      if (o.access == Access::read_write && !h->raw().dense())
        fail(where, "operand " + o.name + " as a view that is not dense", "a dense tensor, since the recipe writes it");
      tensors[o.name] = o.access == Access::read_write ? h->raw() : dense_operand(where, *h);
    }
    for (const auto& s : recipe->scalars) {
      const auto* v = std::get_if<double>(&find_arg(item.args, s)->value);
      if (v == nullptr) fail(where, "operand " + s + " without a number", "a number");
      scalars[s] = *v;
    }
    if (c.b_ && c.b_->valid()) tensors["head.b"] = c.b_->raw();

    const RecipeArgs rule_args(tensors, scalars);
    if (recipe->check) {
      try {
        recipe->check(rule_args);
      } catch (const std::invalid_argument& e) {
        throw ModelError(where + " on " + pe_.name() + ": " + e.what());
      }
    }
    for (const auto& slot : recipe->scratch)
      tensors[slot.name] = fresh(where, slot.shape(rule_args), slot.dtype(rule_args));

    for (const auto& step : recipe->steps) {
      OpSpec op;
      op.kind = step.kind;
      op.scope = OpScope::kernel;
      for (const auto& read : step.reads) op.operands.push_back({read.first, tensors.at(read.second)});
      for (const auto& scalar : step.extra) op.extra.push_back({scalar.first, scalar.second(rule_args)});
      op.has_out = true;
      op.out = tensors.at(step.writes);
      l.command.ops.push_back(std::move(op));
    }
    for (const auto& o : recipe->operands)
      if (o.access == Access::read_write) l.read_write(tensors.at(o.name));
    if (!recipe->primary_out.empty()) {
      if (c.head_ != "gemm")
        fail(where, "a primary output in front of a math head", "a GEMM head, whose operand a it becomes");
      if (c.a_ || l.primary)
        fail(where, "operand a of the GEMM bound twice",
             "either the recipe's primary output " + recipe->primary_out + " or an operand a");
      l.primary = tensors.at(recipe->primary_out);
    }
  }
}

// ---- GEMM head ------------------------------------------------------------------------------------------------

void Context::lower_gemm_head(Lowering& l, const Composite& c) {
  if (!c.a_ && !l.primary) fail(l.call, "no operand a", "an operand a or a recipe with a primary output");
  if (!c.b_) fail(l.call, "no operand b", "an operand b");
  GemmOperand a = c.a_ ? gemm_operand(l.call, "a", *c.a_, c.trans_a_) : GemmOperand{*l.primary, c.trans_a_};
  if (a.handle.shape.rank() != 2) fail(l.call, "operand a " + describe(a.handle), "two dimensions");
  const GemmOperand b = gemm_operand(l.call, "b", *c.b_, c.trans_b_);
  l.dims = check_gemm(l.call, a, b);

  DType default_dtype = c.out_dtype_.value_or(is_float(a.handle.dtype) ? DType::f32 : DType::i32);
  if (const auto type = closing_cast(c.epilogue_); type && !c.out_dtype_) default_dtype = *type;

  OpSpec op = gemm_op(a, b, l.dims);
  op.scope = OpScope::output_tile;
  op.out =
      destination(l.call, Dest{c.out_, c.out_ ? c.out_dtype_ : std::nullopt}, Shape{l.dims.m, l.dims.n}, default_dtype);
  if (op.out.space == Space::sram) fail(l.call, "out in sram", "an output in TCM or HBM");
  for (const auto& o : op.operands)
    if (range_of(o.handle).overlaps(range_of(op.out)))
      fail(l.call, "out over operand " + o.name, "an output apart from the operands");
  l.command.ops.push_back(std::move(op));
}

// ---- epilogue -------------------------------------------------------------------------------------------------

const EpilogueRule& Context::check_epilogue(const Lowering& l, const EpilogueItem& item) const {
  if (item.op == "gemm") fail(l.call, "2 GEMMs in one list", "at most one GEMM");
  std::vector<std::string> known;
  for (const auto& rule : kEpilogueRules) {
    known.push_back(rule.op);
    if (item.op != rule.op) continue;
    const std::size_t wanted = rule.arg == nullptr ? 0 : 1;
    if (item.args.size() != wanted || (wanted == 1 && item.args[0].name != rule.arg) ||
        (wanted == 1 && item.args[0].value.index() != static_cast<std::size_t>(rule.kind)))
      fail(l.call + ", epilogue " + item.op, "operands " + args_of(item.args), expectation(rule));
    return rule;
  }
  fail(l.call, "unknown epilogue operation " + item.op,
       join(known) + nearest_hint(item.op, known));
}

void Context::lower_gemm_epilogue(Lowering& l, const EpilogueItem& item) {
  const std::string where = l.call + ", epilogue " + item.op;
  const EpilogueRule& rule = check_epilogue(l, item);

  OpSpec op;
  op.kind = item.op;
  op.scope = item.scope.value_or(rule.scope);
  if (!(rule.scopes & bit(op.scope))) fail(where, std::string("scope ") + kb::name_of(op.scope), scopes_of(rule));

  // Positions and scopes must agree: the K loop comes before the output tile, which comes before what runs once.
  const auto level = [](OpScope s) { return s == OpScope::k_tile ? 0 : s == OpScope::output_tile ? 1 : 2; };
  const auto head = static_cast<std::size_t>(l.command.gemm_index());
  const TensorHandle out = l.command.ops[head].out;
  for (std::size_t i = head + 1; i < l.command.ops.size(); ++i)
    if (level(l.command.ops[i].scope) > level(op.scope))
      fail(where, std::string("scope ") + kb::name_of(op.scope) + " after scope " + kb::name_of(l.command.ops[i].scope),
           "the order k_tile, output_tile, kernel");

  if (rule.kind == ArgKind::tensor && rule.arg != nullptr) {
    const Handle& h = std::get<Handle>(item.args[0].value);
    check_use(where, h);
    if (h.space() != Space::tcm)
      fail(where, std::string("operand ") + rule.arg + " " + describe(h.raw()) + " in " + kb::name_of(h.space()),
           "epilogue operands in TCM; tl.load brings them there");
    const std::int64_t k_tiles = cdiv<std::int64_t>(l.dims.k, machine().tile[1]);
    const auto [m, n] = std::pair(l.dims.m, l.dims.n);
    std::vector<Shape> allowed;
    if (item.op == "bias")
      allowed = {Shape{n}, Shape{1, n}};
    else if (item.op == "dequant" && op.scope == OpScope::k_tile)
      allowed = {Shape{k_tiles, 1}, Shape{k_tiles, n}, Shape{1, 1}, Shape{1, n}};
    else if (item.op == "dequant")
      allowed = {Shape{1, 1}, Shape{1, n}};
    else
      allowed = {Shape{m, n}, Shape{m, 1}, Shape{1, n}, Shape{1, 1}};
    if (std::find(allowed.begin(), allowed.end(), h.shape()) == allowed.end()) {
      std::vector<std::string> texts;
      for (const auto& s : allowed) texts.push_back(s.str());
      fail(where, std::string("operand ") + rule.arg + " " + describe(h.raw()), join(texts));
    }
    const TensorHandle operand = dense_operand(where, h);
    if (range_of(operand).overlaps(range_of(out))) {
      if (!same_place(operand, out))
        fail(where, std::string("operand ") + rule.arg + " over part of out", "out itself, or a tensor apart from it");
      l.read_write(out);
    }
    op.operands = {{rule.arg, operand}};
  } else if (rule.kind == ArgKind::number) {
    op.extra = {{rule.arg, std::get<double>(item.args[0].value)}};
  } else if (rule.kind == ArgKind::type) {
    op.extra = {{rule.arg, static_cast<double>(std::get<DType>(item.args[0].value))}};
  }

  if (op.scope == OpScope::kernel) {
    // After the loop the operation works on the whole stored output, as any element-wise operation would.
    if (out.space != Space::tcm)
      fail(where, std::string("scope kernel with out in ") + kb::name_of(out.space),
           "an output in TCM, or scope output_tile");
    OpSpec whole;
    whole.kind = rule.math;
    whole.scope = OpScope::kernel;
    whole.has_out = true;
    whole.out = out;
    if (!op.operands.empty()) {
      whole.operands = {{"a", out}, {"b", op.operands[0].handle}};
    } else {
      whole.operands = {{"src", out}};
      if (rule.kind == ArgKind::number) whole.extra = {{"value", op.extra[0].value}};
    }
    l.read_write(out);
    l.command.ops.push_back(std::move(whole));
    return;
  }
  l.command.ops.push_back(std::move(op));
}

// ---- math head ------------------------------------------------------------------------------------------------

void Context::lower_math_head(Lowering& l, const Composite& c) {
  std::vector<std::pair<std::string, Handle>> tensors;
  std::vector<Scalar> scalars;
  for (const auto& arg : c.head_args_) {
    if (const auto* h = std::get_if<Handle>(&arg.value))
      tensors.emplace_back(arg.name, *h);
    else if (const auto* v = std::get_if<double>(&arg.value))
      scalars.push_back({arg.name, *v});
    else
      fail(l.call, "argument " + arg.name + " as a dtype", "tensors and numbers; out_dtype() sets the type");
  }
  const MathSignature* signature = find_math(c.head_, tensors.size());
  bool fits = signature != nullptr && scalars.size() == signature->scalars.size();
  for (std::size_t i = 0; fits && i < tensors.size(); ++i) fits = tensors[i].first == signature->operands[i];
  for (std::size_t i = 0; fits && i < scalars.size(); ++i) fits = scalars[i].name == signature->scalars[i];
  if (!fits) {
    std::vector<std::string> kinds{"gemm"};
    std::string forms;
    for (const auto& s : math_signatures()) {
      if (std::find(kinds.begin(), kinds.end(), s.kind) == kinds.end()) kinds.push_back(s.kind);
      if (s.kind == c.head_)
        forms += (forms.empty() ? "" : " or ") + ("tensors " + join(s.operands)) + " and numbers " + join(s.scalars);
    }
    if (!forms.empty()) fail(l.call, "arguments " + args_of(c.head_args_), forms);
    fail(l.call, "unknown head " + c.head_, join(kinds) + nearest_hint(c.head_, kinds));
  }
  MathResult head = build_math(l.call, c.head_, tensors, scalars);

  // The chain keeps its value in f32 (integers as they are) and rounds where it is stored.
  const DType chain_dtype = is_float(head.dtype) ? DType::f32 : head.dtype;
  DType out_dtype = c.out_dtype_.value_or(chain_dtype);
  if (const auto type = closing_cast(c.epilogue_); type && !c.out_dtype_) out_dtype = *type;
  const TensorHandle out =
      destination(l.call, Dest{c.out_, c.out_ ? c.out_dtype_ : std::nullopt}, head.shape, out_dtype);
  if (out.space == Space::sram) fail(l.call, "out in sram", "an output in TCM or HBM");
  for (const auto& o : head.op.operands)
    if (same_place(o.handle, out)) l.read_write(out);

  TensorHandle current = c.epilogue_.empty() ? out : fresh(l.call, head.shape, chain_dtype);
  head.op.has_out = true;
  head.op.out = current;
  l.command.ops.push_back(std::move(head.op));
  // Epilogue operations become further links of the chain, each over the whole tensor.
  for (std::size_t i = 0; i < c.epilogue_.size(); ++i) {
    const EpilogueItem& item = c.epilogue_[i];
    const EpilogueRule& rule = check_epilogue(l, item);
    const std::string where = l.call + ", epilogue " + item.op;
    if (item.scope && *item.scope == OpScope::k_tile)
      fail(where, "scope k_tile with a math head", "output_tile, kernel");
    OpSpec next;
    next.kind = rule.math;
    next.has_out = true;
    if (rule.arg != nullptr && rule.kind == ArgKind::tensor) {
      const TensorHandle h = math_operand(where, std::get<Handle>(item.args[0].value));
      const std::optional<Shape> both = broadcast_shapes(head.shape, h.shape);
      if (!both || *both != head.shape)
        fail(where, std::string("operand ") + rule.arg + " " + describe(h),
             "a shape that broadcasts to " + head.shape.str());
      next.operands = {{"a", current}, {"b", h}};
      if (same_place(h, out)) l.read_write(out);
    } else {
      next.operands = {{"src", current}};
      if (rule.kind == ArgKind::number) next.extra = {{"value", std::get<double>(item.args[0].value)}};
    }
    if (i + 1 == c.epilogue_.size())
      current = out;
    else if (rule.kind == ArgKind::type)
      current = fresh(where, head.shape, std::get<DType>(item.args[0].value));
    next.out = current;
    l.command.ops.push_back(std::move(next));
  }
}

}  // namespace kb::tl
