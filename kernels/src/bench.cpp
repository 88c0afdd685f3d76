#include <kb/kernels/bench.h>
#include <kb/kernels/input_generator.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

namespace kb {

const char* name_of(InputKind k) {
  static constexpr const char* kNames[] = {"normal", "peaky", "ones", "integers"};
  return kNames[static_cast<int>(k)];
}

InputKind input_kind_from_name(const std::string& name) {
  for (const InputKind k : {InputKind::normal, InputKind::peaky, InputKind::ones, InputKind::integers})
    if (name == name_of(k)) return k;
  throw InputError("inputs: found '" + name + "'; allowed: normal | peaky | ones | integers");
}

ParamSpec inputs_param() {
  return word_param("inputs", "normal", {"normal", "peaky", "ones", "integers"},
                    "values of generated inputs in data mode: N(0,1); the same with scores four times as peaky; 1; "
                    "whole numbers in -8 .. 8");
}

BenchContext::BenchContext(Host& host, Options options) : host_(host), options_(std::move(options)) {}

LogicalTensor BenchContext::input(const std::string& name, const Shape& shape, DType dtype, InputKind kind,
                                  double gain) {
  if (options_.inputs != nullptr) {
    if (std::optional<LogicalTensor> given = options_.inputs->find(name)) {
      const bool widened = dtype == DType::bf16 && given->dtype() == DType::f32;
      if (given->shape() != shape || (given->dtype() != dtype && !widened))
        throw InputError("input " + name + ": found " + given->shape().str() + " " + name_of(given->dtype()) +
                         "; allowed: " + shape.str() + " " + name_of(dtype) +
                         (dtype == DType::bf16 ? " (also as f32)" : ""));
      user_inputs_ = true;
      if (!with_data()) return {shape, dtype, false};
      if (!widened) return std::move(*given);
      LogicalTensor narrowed(shape, dtype);
      for (std::int64_t i = 0; i < narrowed.numel(); ++i) narrowed.set(i, given->at(i));
      return narrowed;
    }
  }
  if (!with_data()) return {shape, dtype, false};
  return InputGenerator(seed(), name).tensor(shape, dtype, kind, gain);
}

void BenchContext::output(const std::string& name, const LogicalTensor& tensor) {
  if (options_.outputs != nullptr && tensor.has_data()) options_.outputs->write(name, tensor);
}

void BenchContext::progress(const std::string& what, double fraction) {
  if (options_.progress) options_.progress(what, fraction);
}

void BenchRegistry::add(std::unique_ptr<Bench> bench) {
  const std::string name = bench->name();
  const auto at = std::lower_bound(benches_.begin(), benches_.end(), name,
                                   [](const std::unique_ptr<Bench>& b, const std::string& n) { return b->name() < n; });
  if (at != benches_.end() && (*at)->name() == name)
    throw InputError("bench " + name + ": found a second one of that name; allowed: one");
  benches_.insert(at, std::move(bench));
}

const Bench* BenchRegistry::find(const std::string& name) const {
  for (const auto& b : benches_)
    if (b->name() == name) return b.get();
  return nullptr;
}

const Bench& BenchRegistry::get(const std::string& name) const {
  if (const Bench* bench = find(name)) return *bench;
  std::vector<std::string> names;
  std::string all;
  for (const auto& b : benches_) {
    names.push_back(b->name());
    all += (all.empty() ? "" : ", ") + b->name();
  }
  throw InputError("bench: found unknown bench '" + name + "'; allowed: " + all +
                   nearest_hint(name, names));
}

std::vector<const Bench*> BenchRegistry::list() const {
  std::vector<const Bench*> all;
  for (const auto& b : benches_) all.push_back(b.get());
  return all;
}

BenchResult run_bench(const Bench& bench, Host& host, const std::map<std::string, std::string>& params,
                      BenchContext::Options options) {
  options.params = Params(bench.name(), bench.params(), params);
  BenchContext context(host, std::move(options));
  return bench.run(context);
}

Numerics compare(const LogicalTensor& got, const std::vector<double>& reference, double tolerance) {
  if (static_cast<std::size_t>(got.numel()) != reference.size())
    throw std::logic_error("compare: " + std::to_string(got.numel()) + " elements against " +
                           std::to_string(reference.size()));
  Numerics n;
  n.checked = true;
  n.tolerance = tolerance;
  n.elements = reference.size();
  double error_squares = 0, reference_squares = 0;
  bool finite = true;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double value = got.at(static_cast<std::int64_t>(i));
    if (!std::isfinite(value) || !std::isfinite(reference[i])) {
      finite = false;
      continue;
    }
    const double error = std::abs(value - reference[i]);
    n.max_abs_err = std::max(n.max_abs_err, error);
    error_squares += error * error;
    reference_squares += reference[i] * reference[i];
  }
  // A reference of zeros leaves nothing to divide by: then any error at all is infinite.
  n.rel_rmse = reference_squares > 0 ? std::sqrt(error_squares / reference_squares)
                                     : (error_squares > 0 ? std::numeric_limits<double>::infinity() : 0.0);
  n.pass = finite && n.rel_rmse <= tolerance;
  return n;
}

std::string bound_sentence(const LaunchResult& result) {
  const double latency = ns_from_ps(result.latency());
  const Bounds& b = result.bounds;
  if (b.bound_by.empty()) return fmt::format("no bound: {:.3f} ns without work on any engine", latency);
  const double largest = std::max({b.compute_ns, b.memory_ns, b.tcm_ns, b.dispatch_ns});
  return fmt::format("bound by {}: {:.3f} ns of {:.3f} ns ({:.1f} %)", b.bound_by, largest, latency,
                     latency > 0 ? 100 * largest / latency : 0.0);
}

}  // namespace kb
