// Benches: programs on the host's side that allocate tensors, launch kernels, check results and report.
#pragma once

#include <kb/kernels/logical_tensor.h>
#include <kb/kernels/params.h>
#include <kb/tlm_if/host.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kb {

/// Where a bench's inputs may come from besides its own generator (files given with --input).
class InputSource {
 public:
  virtual ~InputSource() = default;
  /// The user's tensor of that name in the shape and dtype it was stored with; nothing when none was given.
  virtual std::optional<LogicalTensor> find(const std::string& name) = 0;
};

/// Where tensors go that a run is asked to keep (--dump). `name` is the logical name: q, k, v, o, a, b, c, x, y.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void write(const std::string& name, const LogicalTensor& tensor) = 0;
};

/// Distribution of generated inputs (parameter `inputs`).
enum class InputKind : std::uint8_t { normal, peaky, ones, integers };
const char* name_of(InputKind k);
InputKind input_kind_from_name(const std::string& name);
/// The parameter `inputs` that gemm, allreduce and attention share.
ParamSpec inputs_param();

/// What a bench sees of the run it is part of.
class BenchContext {
 public:
  struct Options {
    Params params;
    std::uint64_t seed = 1;
    InputSource* inputs = nullptr;                                           // null: everything is generated
    OutputSink* outputs = nullptr;                                           // null: nothing is dumped
    std::function<void(const std::string& what, double fraction)> progress;  // fraction < 0: not known
  };
  BenchContext(Host& host, Options options);

  Host& host() { return host_; }
  const MachineInfo& machine() const { return host_.machine(); }
  Mode mode() const { return host_.mode(); }
  bool with_data() const { return mode() == Mode::data; }
  const Params& params() const { return options_.params; }
  std::uint64_t seed() const { return options_.seed; }

  /// The input `name`: the user's, checked against shape and dtype (bf16 also as f32, rounded once), else
  /// generated. Only the shape outside data mode. `gain` multiplies normal values before rounding when the
  /// kind is peaky. Throws InputError naming what was found and what is expected.
  LogicalTensor input(const std::string& name, const Shape& shape, DType dtype, InputKind kind, double gain = 1.0);
  /// Whether any input so far came from the user.
  bool user_inputs() const { return user_inputs_; }
  /// Hands an output to the sink, if there is one and there is data.
  void output(const std::string& name, const LogicalTensor& tensor);

  void progress(const std::string& what, double fraction = -1.0);

  /// For a bench that runs others as its parts.
  const Options& options() const { return options_; }

 private:
  Host& host_;
  Options options_;
  bool user_inputs_ = false;
};

/// Comparison of a result with the bench's own double-precision reference.
struct Numerics {
  bool checked = false;
  bool pass = true;
  double max_abs_err = 0;
  double rel_rmse = 0;   // RMSE / RMS of the reference
  double tolerance = 0;  // on rel_rmse
  std::uint64_t elements = 0;
};

/// A value in a result's table or key list.
using ResultValue = std::variant<std::int64_t, double, bool, std::string>;

struct ResultTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<ResultValue>> rows;
};

/// One launch (or direct transfer run) of a bench, under a name that is unique in the result.
struct NamedLaunch {
  std::string name;
  LaunchResult result;
};

/// What a bench returns. Counters of a summary are the sums over `launches`.
struct BenchResult {
  double latency_ns = 0;  // as spec 7.2 defines it for this bench
  std::vector<NamedLaunch> launches;
  Numerics numerics;
  std::vector<std::pair<std::string, ResultValue>> extra;  // further keys of the summary
  std::vector<ResultTable> tables;
  std::string verdict;  // a sentence on what bounds the run
};

/// Implemented by each bench and by users' own. Benches keep no state between runs.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual std::string name() const = 0;
  /// One line, then further lines with details.
  virtual std::string doc() const = 0;
  virtual std::vector<ParamSpec> params() const = 0;
  /// Topology keys with values that given parameters stand for, {"pe.ipcq.slots", "2"}: the machine of a run is built
  /// with them, whatever the topology file says.
  virtual std::vector<std::pair<std::string, std::string>> topology_keys(const Params&) const { return {}; }
  /// Throws InputError for parameters that do not fit the machine, before anything is launched.
  virtual BenchResult run(BenchContext& context) const = 0;
};

/// The benches that a program offers, in alphabetical order. A program of its own adds its benches to a registry
/// beside (or instead of) the standard ones and hands it to the command line.
class BenchRegistry {
 public:
  /// Throws InputError when the name is taken.
  void add(std::unique_ptr<Bench> bench);
  const Bench* find(const std::string& name) const;
  /// Throws InputError naming the nearest bench.
  const Bench& get(const std::string& name) const;
  std::vector<const Bench*> list() const;

 private:
  std::vector<std::unique_ptr<Bench>> benches_;
};

/// Adds every bench of this library.
void add_standard_benches(BenchRegistry& registry);

/// Reads `params` against the bench's declarations and runs it.
BenchResult run_bench(const Bench& bench, Host& host, const std::map<std::string, std::string>& params,
                      BenchContext::Options options = {});

/// Compares `got` with `reference` (same number of elements). Any NaN or inf on either side fails.
Numerics compare(const LogicalTensor& got, const std::vector<double>& reference, double tolerance);

/// What bounds a launch, as a sentence: "bound by memory: 1024.0 ns of 1100.0 ns (93 %)".
std::string bound_sentence(const LaunchResult& result);

}  // namespace kb
