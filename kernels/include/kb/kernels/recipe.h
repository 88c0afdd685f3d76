// Recipes: named macros that are expanded into flat operations before a command leaves the cpu (spec 3.5).
#pragma once

#include <kb/tlm_if/handle.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kb::tl {

enum class Access : std::uint8_t { read, read_write };

/// What a recipe's rules see when it is lowered: its operands, its scalars, and operand `b` of the head GEMM.
class RecipeArgs {
 public:
  RecipeArgs(std::map<std::string, TensorHandle> tensors, std::map<std::string, double> scalars)
      : tensors_(std::move(tensors)), scalars_(std::move(scalars)) {}

  /// Operand (or "head.b", where the head is a GEMM) by name; std::logic_error for one that was not declared.
  const TensorHandle& operator[](const std::string& name) const;
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  double scalar(const std::string& name) const;

 private:
  std::map<std::string, TensorHandle> tensors_;
  std::map<std::string, double> scalars_;
};

struct RecipeOperand {
  std::string name;
  Access access = Access::read;
};

/// A scratch tensor of the recipe, allocated in the scope that is open when the composite is issued.
struct RecipeScratch {
  std::string name;
  std::function<Shape(const RecipeArgs&)> shape;
  std::function<DType(const RecipeArgs&)> dtype;
};

/// One flat op: the kind, its operands as {name in the op, slot}, its scalars, the slot written. A slot is an
/// operand or a scratch tensor of the recipe.
struct RecipeStep {
  std::string kind;
  std::vector<std::pair<std::string, std::string>> reads;
  std::string writes;
  std::vector<std::pair<std::string, std::function<double(const RecipeArgs&)>>> extra;
};

/// A constant scalar of a step.
inline std::function<double(const RecipeArgs&)> constant(double value) {
  return [value](const RecipeArgs&) { return value; };
}

struct Recipe {
  std::string name;
  std::vector<RecipeOperand> operands;
  std::vector<std::string> scalars;  // that the caller must give
  std::vector<RecipeScratch> scratch;
  std::string primary_out;  // slot bound to operand `a` of the head GEMM; empty: none
  std::vector<RecipeStep> steps;
  /// Throws std::invalid_argument with "found ...; allowed: ..." for shapes or types that do not fit; may be empty.
  std::function<void(const RecipeArgs&)> check;
};

/// Recipes by name. A kernel gets the standard ones unless it is bound with others.
class RecipeRegistry {
 public:
  /// Throws InputError for a name that is taken or a step that names an unknown slot.
  void add(Recipe recipe);
  const Recipe* find(const std::string& name) const;
  std::vector<std::string> names() const;

  /// The recipes of this library: softmax_merge. Copy it to add your own.
  static const RecipeRegistry& standard();

 private:
  std::map<std::string, Recipe> recipes_;
};

/// Online softmax: merges a score tile into the running state and leaves the probabilities as operand `a`.
Recipe softmax_merge_recipe();

}  // namespace kb::tl
