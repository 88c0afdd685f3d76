// Binds a kernel function to its arguments, ready to be launched.
#pragma once

#include <kb/kernels/context.h>
#include <kb/tlm_if/program.h>

#include <string>
#include <tuple>
#include <utility>

namespace kb::tl {

/// A kernel `void fn(tl::Context&, const Args&...)` with copies of its arguments. All PEs of a launch share them,
/// read-only; what differs between PEs is derived from program_id() or shard_of().
template <typename Fn, typename... Args>
class BoundKernel : public KernelProgram {
 public:
  BoundKernel(std::string name, const RecipeRegistry& recipes, Fn fn, Args... args)
      : name_(std::move(name)), recipes_(recipes), fn_(std::move(fn)), args_(std::move(args)...) {}

  const char* name() const override { return name_.c_str(); }

  void run(PePort& pe) const override {
    Context context(pe, recipes_);
    std::apply([&](const Args&... args) { fn_(context, args...); }, args_);
    pe.used_scratch(context.scratch().high_water());
  }

 private:
  std::string name_;
  RecipeRegistry recipes_;
  Fn fn_;
  std::tuple<Args...> args_;
};

/// host.launch(bind_kernel("axpy", axpy, 2.0, x, y)).
template <typename Fn, typename... Args>
BoundKernel<std::decay_t<Fn>, std::decay_t<Args>...> bind_kernel(const std::string& name, Fn&& fn, Args&&... args) {
  return {name, RecipeRegistry::standard(), std::forward<Fn>(fn), std::forward<Args>(args)...};
}

/// The same with recipes of one's own.
template <typename Fn, typename... Args>
BoundKernel<std::decay_t<Fn>, std::decay_t<Args>...> bind_kernel_with(const RecipeRegistry& recipes,
                                                                      const std::string& name, Fn&& fn,
                                                                      Args&&... args) {
  return {name, recipes, std::forward<Fn>(fn), std::forward<Args>(args)...};
}

}  // namespace kb::tl
