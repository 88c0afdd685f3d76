#include <kb/kernels/params.h>
#include <kb/kernels/recipe.h>
#include <kb/tlm_if/errors.h>

#include <set>
#include <stdexcept>

namespace kb::tl {

const TensorHandle& RecipeArgs::operator[](const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end())
    throw std::logic_error("recipe rule asks for operand '" + name + "', which it did not declare");
  return it->second;
}

double RecipeArgs::scalar(const std::string& name) const {
  const auto it = scalars_.find(name);
  if (it == scalars_.end())
    throw std::logic_error("recipe rule asks for scalar '" + name + "', which it did not declare");
  return it->second;
}

void RecipeRegistry::add(Recipe recipe) {
  const std::string where = "recipe " + recipe.name;
  if (recipe.name.empty()) throw InputError("recipe: found an empty name; allowed: a name");
  if (recipes_.count(recipe.name)) throw InputError(where + ": found a second one of that name; allowed: one");
  std::set<std::string> slots;
  std::set<std::string> writable;
  for (const auto& o : recipe.operands) {
    if (!slots.insert(o.name).second) throw InputError(where + ": found operand " + o.name + " twice; allowed: once");
    if (o.access == Access::read_write) writable.insert(o.name);
  }
  for (const auto& s : recipe.scratch) {
    if (!slots.insert(s.name).second) throw InputError(where + ": found slot " + s.name + " twice; allowed: once");
    writable.insert(s.name);
  }
  for (const auto& step : recipe.steps) {
    for (const auto& read : step.reads)
      if (!slots.count(read.second))
        throw InputError(where + ", step " + step.kind + ": found unknown slot " + read.second +
                         "; allowed: an operand or a scratch tensor of the recipe");
    if (!writable.count(step.writes))
      throw InputError(where + ", step " + step.kind + ": found a write to " + step.writes +
                       "; allowed: a scratch tensor or an operand with access RW");
  }
  if (!recipe.primary_out.empty() && !writable.count(recipe.primary_out))
    throw InputError(where + ": found primary output " + recipe.primary_out +
                     "; allowed: a scratch tensor or an operand with access RW");
  const std::string name = recipe.name;
  recipes_.emplace(name, std::move(recipe));
}

const Recipe* RecipeRegistry::find(const std::string& name) const {
  const auto it = recipes_.find(name);
  return it == recipes_.end() ? nullptr : &it->second;
}

std::vector<std::string> RecipeRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& r : recipes_) all.push_back(r.first);
  return all;
}

const RecipeRegistry& RecipeRegistry::standard() {
  static const RecipeRegistry kStandard = [] {
    RecipeRegistry r;
    r.add(softmax_merge_recipe());
    return r;
  }();
  return kStandard;
}

namespace {

void check_softmax_merge(const RecipeArgs& args) {
  const Shape& s = args["s"].shape;
  const Shape& o = args["O"].shape;
  const auto complain = [&args](const std::string& name, const std::string& allowed) {
    const TensorHandle& h = args[name];
    throw std::invalid_argument("found " + name + " " + h.shape.str() + " " + name_of(h.dtype) +
                                "; allowed: " + allowed);
  };
  if (s.rank() != 2 || args["s"].dtype != DType::f32) complain("s", "[M, T] f32");
  const Shape state{s[0], 1};
  for (const char* name : {"m", "l"})
    if (args[name].shape != state || args[name].dtype != DType::f32) complain(name, state.str() + " f32");
  if (o.rank() != 2 || o[0] != s[0] || args["O"].dtype != DType::f32)
    complain("O", "[" + std::to_string(s[0]) + ", d] f32");
}

}  // namespace

Recipe softmax_merge_recipe() {
  const auto row_state = [](const RecipeArgs& a) { return Shape{a["s"].shape[0], 1}; };
  const auto f32 = [](const RecipeArgs&) { return DType::f32; };
  const auto last_axis = constant(-1);
  Recipe r;
  r.name = "softmax_merge";
  r.operands = {{"s", Access::read}, {"m", Access::read_write}, {"l", Access::read_write}, {"O", Access::read_write}};
  r.scratch = {{"m_loc", row_state, f32},
               {"m_new", row_state, f32},
               {"corr", row_state, f32},
               {"l_loc", row_state, f32},
               // The probabilities feed the matrix engine, so they take the type of its other operand.
               {"P", [](const RecipeArgs& a) { return a["s"].shape; },
                [](const RecipeArgs& a) { return a.has("head.b") ? a["head.b"].dtype : DType::f32; }}};
  r.primary_out = "P";
  r.steps = {{"rmax", {{"src", "s"}}, "m_loc", {{"axis", last_axis}}},
             {"max_elem", {{"a", "m"}, {"b", "m_loc"}}, "m_new", {}},
             {"exp_diff", {{"a", "m"}, {"b", "m_new"}}, "corr", {}},
             {"exp_diff", {{"a", "s"}, {"b", "m_new"}}, "P", {{"bcast_axis", constant(1)}}},
             {"rsum", {{"src", "P"}}, "l_loc", {{"axis", last_axis}}},
             {"fma", {{"a", "l"}, {"b", "corr"}, {"c", "l_loc"}}, "l", {}},
             {"mul_bcast", {{"a", "O"}, {"b", "corr"}}, "O", {{"bcast_axis", constant(1)}}},
             {"copy", {{"src", "m_new"}}, "m", {}}};
  r.check = check_softmax_merge;
  return r;
}

}  // namespace kb::tl
