// Description of a composite command: prologue recipes, a GEMM or math head, an ordered epilogue, an output.
#pragma once

#include <kb/kernels/handle.h>
#include <kb/tlm_if/command.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kb::tl {

/// A named argument of a recipe or an epilogue operation: a tensor, a number or a type.
struct NamedArg {
  std::string name;
  std::variant<Handle, double, DType> value;
};

/// A recipe by name with its operands and scalars (spec 3.5).
struct PrologueItem {
  std::string recipe;
  std::vector<NamedArg> args;
};

/// An epilogue operation by name (spec 3.4): bias(bias), relu, scale(factor), add(other), mul(other),
/// dequant(scale), cast(dtype).
struct EpilogueItem {
  std::string op;
  std::vector<NamedArg> args;
  std::optional<OpScope> scope;  // default: k_tile for dequant, output_tile for the rest
};

/// Built with gemm(), gemm_from_prologue() or math(), then refined by the calls below; handed to
/// Context::composite(), which checks all of it. Calls return *this so that they chain.
class Composite {
 public:
  Composite& prologue(const std::string& recipe, std::vector<NamedArg> args) {
    prologue_.push_back({recipe, std::move(args)});
    return *this;
  }
  Composite& epilogue(const std::string& op, std::vector<NamedArg> args = {},
                      std::optional<OpScope> scope = std::nullopt) {
    epilogue_.push_back({op, std::move(args), scope});
    return *this;
  }
  /// HBM (a ref) or in place in TCM. Without it an output in scratch is allocated.
  Composite& into(const Handle& out) {
    out_ = out;
    return *this;
  }
  /// Type of the allocated output; default f32 (i32 for i8 operands).
  Composite& out_dtype(DType dtype) {
    out_dtype_ = dtype;
    return *this;
  }
  /// The operand is stored transposed: a as [K, M], b as [N, K]. Same as passing trans(h).
  Composite& trans_a() {
    trans_a_ = true;
    return *this;
  }
  Composite& trans_b() {
    trans_b_ = true;
    return *this;
  }

 private:
  friend class Context;
  friend Composite gemm(const Handle& a, const Handle& b);
  friend Composite gemm_from_prologue(const Handle& b);
  friend Composite math(const std::string& op, std::vector<NamedArg> args);

  std::string head_;
  std::optional<Handle> a_, b_;      // gemm head
  std::vector<NamedArg> head_args_;  // math head
  std::vector<PrologueItem> prologue_;
  std::vector<EpilogueItem> epilogue_;
  std::optional<Handle> out_;
  std::optional<DType> out_dtype_;
  bool trans_a_ = false, trans_b_ = false;
};

/// Head a [M,K] x b [K,N].
inline Composite gemm(const Handle& a, const Handle& b) {
  Composite c;
  c.head_ = "gemm";
  c.a_ = a;
  c.b_ = b;
  return c;
}

/// Head P x b, where P is the primary output of the prologue's last recipe.
inline Composite gemm_from_prologue(const Handle& b) {
  Composite c;
  c.head_ = "gemm";
  c.b_ = b;
  return c;
}

/// A math head by the kind of its op and its named operands and scalars: math("exp", {{"src", x}}),
/// math("fma", {{"a", a}, {"b", b}, {"c", c}}), math("mul", {{"src", x}, {"value", 0.5}}).
inline Composite math(const std::string& op, std::vector<NamedArg> args) {
  Composite c;
  c.head_ = op;
  c.head_args_ = std::move(args);
  return c;
}

}  // namespace kb::tl
