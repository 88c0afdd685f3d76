#include <kb/platform/session.h>

#include <kb/platform/data_pass.h>
#include <kb/platform/emit_host.h>
#include <kb/platform/kernel_scope.h>
#include <kb/platform/platform.h>
#include <kb/platform/recording.h>
#include <kb/platform/version.h>
#include <kb/tlm_if/numerics.h>
#include <kb/traces/npy.h>
#include <kb/traces/op_log_reader.h>
#include <kb/traces/output_file.h>
#include <kb/traces/reserved_space.h>
#include <kb/traces/summary.h>

#include <fmt/format.h>
#include <sys/resource.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

namespace kb {

namespace {

std::atomic<bool> interrupt_requested{false};

const char* name_of(Mode m) {
  switch (m) {
    case Mode::timing: return "timing";
    case Mode::data: return "data";
    case Mode::emit: return "emit";
  }
  return "?";
}

/// Files given with --input, as the tensors that a bench asks for.
class NpyInputs : public InputSource {
 public:
  explicit NpyInputs(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [name, path] : files) {
      if (tensors_.count(name) != 0)
        throw InputError(fmt::format("--input {}: found twice; allowed: one file per tensor", name));
      const NpyArray array = read_npy(path);
      Shape shape;
      for (const auto d : array.shape) shape.push_back(d);
      LogicalTensor t(shape, array.dtype);
      if (t.size_bytes() > 0) std::memcpy(t.bytes(), array.data.data(), t.size_bytes());
      tensors_.emplace(name, std::move(t));
    }
  }
  std::optional<LogicalTensor> find(const std::string& name) override {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) return std::nullopt;
    used_.push_back(name);
    return it->second;
  }
  /// Throws InputError for a file that no tensor of the bench took.
  void check_all_used() const {
    for (const auto& [name, tensor] : tensors_)
      if (std::find(used_.begin(), used_.end(), name) == used_.end())
        throw InputError(fmt::format("--input {}: found a name that this bench does not read", name));
  }

 private:
  std::map<std::string, LogicalTensor> tensors_;
  std::vector<std::string> used_;
};

std::vector<std::int64_t> dims_of(const LogicalTensor& tensor) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < tensor.shape().rank(); ++i) dims.push_back(tensor.shape()[i]);
  return dims;
}

/// --dump: DIR/tensors/NAME.npy.
class NpyOutputs : public OutputSink {
 public:
  NpyOutputs(const std::string& dir, std::vector<std::string>& files) : dir_(dir), files_(files) {}
  void write(const std::string& name, const LogicalTensor& tensor) override {
    const std::string path = dir_ + "/" + name + ".npy";
    write_npy(path, tensor.dtype(), dims_of(tensor), tensor.bytes());
    files_.push_back(path);
  }

 private:
  std::string dir_;
  std::vector<std::string>& files_;
};

/// replay: compares outputs with the dumped ones instead of writing them.
class NpyComparison : public OutputSink {
 public:
  explicit NpyComparison(const std::string& dir) : dir_(dir) {}
  void write(const std::string& name, const LogicalTensor& tensor) override {
    const std::string path = dir_ + "/" + name + ".npy";
    const NpyArray saved = read_npy(path);
    ++compared_;
    // bf16 was widened when it was written.
    const bool widened = tensor.dtype() == DType::bf16;
    std::vector<float> wide(widened ? static_cast<std::size_t>(tensor.numel()) : 0);
    if (widened) num::load_f32(DType::bf16, tensor.bytes(), wide.data(), wide.size());
    const void* now = widened ? static_cast<const void*>(wide.data()) : tensor.bytes();
    const std::size_t size = widened ? wide.size() * sizeof(float) : tensor.size_bytes();
    if (saved.shape != dims_of(tensor) || saved.dtype != (widened ? DType::f32 : tensor.dtype()) ||
        saved.data.size() != size || (size > 0 && std::memcmp(saved.data.data(), now, size) != 0))
      different_.push_back(name);
  }
  std::size_t compared() const { return compared_; }
  const std::vector<std::string>& different() const { return different_; }

 private:
  std::string dir_;
  std::size_t compared_ = 0;
  std::vector<std::string> different_;
};

SummaryValue summary_value(const ResultValue& v) {
  return std::visit([](const auto& x) { return SummaryValue(x); }, v);
}

RunSummary summarise(const RunSpec& spec, const std::vector<Params::Item>& params, const BenchResult& result) {
  RunSummary s;
  s.bench = spec.bench;
  for (const auto& p : params) {
    if (p.type == ParamType::flag) {
      s.params.emplace_back(p.name, p.value == "true");
    } else {
      char* end = nullptr;
      const long long number = std::strtoll(p.value.c_str(), &end, 10);
      const bool is_number = p.type == ParamType::integer && !p.value.empty() && *end == '\0';
      s.params.emplace_back(p.name,
                            is_number ? SummaryValue(static_cast<std::int64_t>(number)) : SummaryValue(p.value));
    }
  }
  s.topology = std::filesystem::path(spec.topology).filename().string();
  s.mode = name_of(spec.mode);
  s.seed = spec.seed;
  s.version = version();
  s.latency_ns = result.latency_ns;
  std::vector<const LaunchResult*> launches;
  for (const auto& l : result.launches) launches.push_back(&l.result);
  s.totals = totals_of(launches);
  if (result.numerics.checked)
    s.numerics = RunSummary::NumericsVerdict{result.numerics.max_abs_err, result.numerics.rel_rmse,
                                             result.numerics.tolerance, result.numerics.pass};
  for (const auto& [key, value] : result.extra) s.extra.emplace_back(key, summary_value(value));
  for (const auto& t : result.tables) {
    SummaryTable table{t.name, t.columns, {}};
    for (const auto& row : t.rows) {
      std::vector<SummaryValue> cells;
      for (const auto& cell : row) cells.push_back(summary_value(cell));
      table.rows.push_back(std::move(cells));
    }
    s.tables.push_back(std::move(table));
  }
  s.verdict = result.verdict;
  return s;
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void write_text(const std::string& path, const std::string& text, std::vector<std::string>& files) {
  OutputFile file(path);
  file.append(text);
  file.finish();
  files.push_back(path);
}

std::string csv_of(const ResultTable& table) {
  std::string text;
  for (std::size_t i = 0; i < table.columns.size(); ++i) text += (i ? "," : "") + table.columns[i];
  text += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i) text += ",";
      text += std::visit(
          [](const auto& v) -> std::string {
            using T = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<T, std::string>)
              return v;
            else if constexpr (std::is_same_v<T, double>)
              return fmt::format("{:.3f}", v);
            else
              return fmt::format("{}", v);
          },
          row[i]);
    }
    text += "\n";
  }
  return text;
}

/// DIR/links.csv: what every link and memory channel that was used carried, and how long it was busy, over all
/// launches.
std::string links_csv(const std::vector<LinkStats>& links) {
  std::string text = "name,bw_gbs,bytes,busy_ns\n";
  for (const auto& l : links)
    if (l.bytes != 0)
      text += fmt::format("{},{},{},{}.{:03}\n", l.name, l.bw_gbs, l.bytes, l.busy / 1000, l.busy % 1000);
  return text;
}

void make_directory(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) throw IoError(fmt::format("{}: cannot create the directory: {}", dir, error.message()));
}

/// Removes what a former run wrote to `dir` and this one may not: a log or a trace beside the summary of another run
/// would be taken for its own. Tensors stay, they can be this run's inputs, and so do links, which a user made.
void remove_former_run(const std::string& dir) {
  for (const char* name : {"summary.json", "op_log.jsonl", "links.csv", "trace.vcd", "trace.gtkw", "trace.perfetto.json",
                           "trace.sqlite"})
    for (const char* ending : {"", ".part"}) {
      const std::string path = dir + "/" + name + ending;
      std::error_code error;
      if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) continue;
      std::filesystem::remove(path, error);
      if (error) throw IoError(fmt::format("{}: cannot remove what a former run wrote: {}", path, error.message()));
    }
}

/// A host that replays a saved op log in place of every launch.
class ReplayHost : public TensorHost {
 public:
  ReplayHost(const SystemConfig& config, Host& machine, OpLogReader& reader, DataPass& pass)
      : TensorHost(config, Mode::data), inner_(machine), reader_(reader), pass_(pass) {}

  Tensor allocate(const std::string& name, DType dtype, Space space,
                  const std::vector<std::pair<std::uint32_t, Shape>>& shards) override {
    return inner_.allocate(name, dtype, space, shards);
  }
  void free(const Tensor& tensor) override { inner_.free(tensor); }
  void write(const Tensor& t, std::size_t shard, const void* bytes, std::size_t size) override {
    inner_.write(t, shard, bytes, size);
  }
  void read(const Tensor& t, std::size_t shard, void* bytes, std::size_t size) override {
    inner_.read(t, shard, bytes, size);
  }
  LaunchResult launch(const KernelProgram&, const LaunchOptions& options) override {
    LaunchResult result;
    for (const auto rank : participants(options)) {
      PeStats pe;
      pe.id = machine().pe_of(rank);
      result.pes.push_back(pe);
    }
    // The next launch begins at the first `launch` record after every PE of this one is done; what is still on its
    // way then (credits) belongs to this one.
    std::size_t done = 0;
    while (have_next_ || reader_.next(next_)) {
      have_next_ = true;
      if (next_.name == OpName::launch && done == result.pes.size()) break;
      if (next_.name == OpName::launch_done) ++done;
      pass_.record(next_);
      have_next_ = false;
    }
    pass_.flush();
    return result;
  }
  LaunchResult run_transfers(const std::vector<DirectTransfer>&) override {
    throw InputError("replay: found a bench that only moves data; allowed: runs of kernels in data mode");
  }
  Ps host_copy(bool, std::uint64_t, std::uint64_t) override {
    throw InputError("replay: found a bench that only moves data; allowed: runs of kernels in data mode");
  }

 private:
  Host& inner_;
  OpLogReader& reader_;
  DataPass& pass_;
  OpRecord next_;
  bool have_next_ = false;
};

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError(fmt::format("{}: cannot be opened", path));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

void request_interrupt() {
  interrupt_requested = true;
}

RunOutcome run_session(const RunSpec& spec, const BenchRegistry& benches, const Progress& progress) {
  const auto wall_start = std::chrono::steady_clock::now();
  interrupt_requested = false;
  const Bench& bench = benches.get(spec.bench);
  const Params params(bench.name(), bench.params(), spec.params);
  std::vector<Override> overrides = spec.overrides;
  for (auto& key : bench.topology_keys(params)) overrides.push_back(std::move(key));
  const SystemConfig config = load_config(spec.topology, overrides);
  NpyInputs inputs(spec.inputs);

  RunOutcome outcome;
  outcome.status = "done";
  if (!spec.out.empty()) {
    make_directory(spec.out);
    remove_former_run(spec.out);
    if (spec.dump) make_directory(spec.out + "/tensors");
    write_text(spec.out + "/config.yaml", dump_config(config), outcome.files);
  }

  KernelScope kernel;
  std::string what = bench.name();
  double fraction = -1.0;
  std::unique_ptr<EmitHost> emit;
  std::unique_ptr<Platform> platform;
  NpyOutputs outputs(spec.out + "/tensors", outcome.files);

  const bool files = !spec.out.empty();
  ReservedSpace last_files(files ? spec.out : std::string());
  const bool recorded = files && spec.mode != Mode::emit;
  Recording recording(spec.out, recorded && spec.log, recorded ? spec.traces : TraceOptions{});

  Host* host = nullptr;
  if (spec.mode == Mode::emit) {
    emit = std::make_unique<EmitHost>(config);
    host = emit.get();
  } else {
    PlatformOptions options;
    options.mode = spec.mode;
    options.build_shuffle = spec.build_shuffle;
    recording.observe(options);
    options.tick = [&](Ps now) {
      if (progress) progress(ns_from_ps(now), what, fraction);
      return !interrupt_requested.load();
    };
    platform = std::make_unique<Platform>("tray", config, options);
    host = &platform->host();
    recording.open(*platform);
  }

  BenchContext::Options context;
  context.params = params;
  context.seed = spec.seed;
  context.inputs = &inputs;
  context.outputs = spec.dump ? &outputs : nullptr;
  context.progress = [&](const std::string& w, double f) {
    what = w;
    fraction = f;
    if (progress) progress(ns_from_ps(sc_core::sc_get_status() == sc_core::SC_ELABORATION ? 0 : now_ps()), w, f);
  };

  const auto fail = [&](const std::string& status, const std::string& message, ExitCode code) {
    outcome.status = status;
    outcome.message = message;
    outcome.code = code;
    recording.abandon();
  };
  try {
    BenchContext ctx(*host, std::move(context));
    outcome.result = bench.run(ctx);
    inputs.check_all_used();
    if (platform) platform->check_conservation();
    recording.finish();
    if (outcome.result.numerics.checked && !outcome.result.numerics.pass) {
      outcome.code = ExitCode::wrong_result;
      outcome.message = fmt::format("{}: found a relative RMSE of {:.3g}; allowed: {:.3g}, and no NaN or inf",
                                    spec.bench, outcome.result.numerics.rel_rmse, outcome.result.numerics.tolerance);
    }
  } catch (const InputError&) {
    recording.abandon();
    throw;  // found before simulation: nothing to report but the message
  } catch (const Interrupted& e) {
    fail("interrupted", e.what(), e.code());
  } catch (const Error& e) {
    fail("failed", e.what(), e.code());
  } catch (const std::exception& e) {
    fail("failed", e.what(), ExitCode::model_error);
  }

  RunSummary summary = summarise(spec, params.items(), outcome.result);
  // What one of the files that follow meets does not hide what went wrong before, nor keep the others from being
  // written.
  const auto write_file = [&](const std::string& name, const std::string& text) {
    try {
      write_text(spec.out + "/" + name, text, outcome.files);
    } catch (const IoError& e) {
      if (outcome.message.empty()) fail("failed", e.what(), e.code());
    }
  };
  if (files) {
    last_files.release();
    for (const auto& file : recording.files()) outcome.files.push_back(file);
    outcome.view_command = recording.view_command();
    for (const auto& t : outcome.result.tables) write_file(t.name + ".csv", csv_of(t));
    if (platform) write_file("links.csv", links_csv(summary.totals.links));
  }
  summary.status = outcome.status;
  summary.message = outcome.message;
  summary.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_start).count();
  summary.activations = platform ? platform->activations() : 0;
  summary.peak_rss_mb = peak_rss_mb();
  if (const auto log = recording.op_log()) summary.op_log = RunSummary::OpLogDigest{log->records, log->hash};
  outcome.summary_json = summary_json(summary);
  outcome.table = summary_table(summary);
  if (files) write_file("summary.json", outcome.summary_json);
  return outcome;
}

RunOutcome replay_session(const std::string& dir, const BenchRegistry& benches) {
  nlohmann::json summary;
  try {
    summary = nlohmann::json::parse(read_text(dir + "/summary.json"));
  } catch (const nlohmann::json::exception& e) {
    throw InputError(fmt::format("{}/summary.json: found {}; allowed: the summary of a finished run", dir, e.what()));
  }
  const auto text = [&summary, &dir](const char* key) {
    if (!summary.contains(key) || !summary[key].is_string())
      throw InputError(fmt::format("{}/summary.json: key '{}': found nothing; allowed: a run's summary", dir, key));
    return summary[key].get<std::string>();
  };
  if (text("mode") != "data")
    throw InputError(
        fmt::format("{}: found a run in mode {}; allowed: replay of --mode data --dump", dir, text("mode")));
  if (text("status") != "done")
    throw InputError(fmt::format("{}: found a run that is {}; allowed: done", dir, text("status")));
  const Bench& bench = benches.get(text("bench"));
  std::map<std::string, std::string> given;
  for (const auto& [key, value] : summary["params"].items())
    given[key] = value.is_string() ? value.get<std::string>() : value.dump();
  const Params params(bench.name(), bench.params(), given);
  const SystemConfig config = load_config(dir + "/config.yaml");

  std::vector<std::pair<std::string, std::string>> files;
  const std::string tensors = dir + "/tensors";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(tensors, error))
    if (entry.path().extension() == ".npy" && entry.path().filename().string()[0] != '.')
      files.emplace_back(entry.path().stem().string(), entry.path().string());
  if (error) throw IoError(fmt::format("{}: {}; replay needs a run with --dump", tensors, error.message()));
  NpyInputs inputs(files);
  NpyComparison outputs(tensors);

  KernelScope kernel;
  PlatformOptions options;
  options.mode = Mode::data;
  Platform platform("tray", config, options);
  const MathTable table = MathTable::builtin();
  OpLogReader reader(dir + "/op_log.jsonl");
  DataPass pass(platform.host().machine(), platform.memory(), table);
  ReplayHost host(config, platform.host(), reader, pass);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);

  BenchContext::Options context;
  context.params = params;
  context.seed = summary.value("seed", std::uint64_t{1});
  context.inputs = &inputs;
  context.outputs = &outputs;
  BenchContext ctx(host, std::move(context));
  RunOutcome outcome;
  outcome.status = "done";
  outcome.result = bench.run(ctx);
  OpRecord rest;
  while (reader.next(rest)) {
  }
  if (summary.contains("op_log")) {
    const auto& digest = summary["op_log"];
    const auto records = digest.value("records", std::uint64_t{0});
    if (records != reader.records() || digest.value("hash", std::string()) != fmt::format("{:016x}", reader.hash()))
      throw ModelError(
          fmt::format("{}/op_log.jsonl: found {} records with hash {:016x}; allowed: {} records with hash {} (the "
                      "log was changed)",
                      dir, reader.records(), reader.hash(), records, digest.value("hash", std::string())));
  }
  if (!outputs.different().empty()) {
    outcome.code = ExitCode::wrong_result;
    outcome.message = fmt::format("replay: found other bytes in {}", fmt::join(outputs.different(), ", "));
  } else if (!outcome.result.numerics.pass) {
    outcome.code = ExitCode::wrong_result;
    outcome.message = "replay: found numerics out of tolerance";
  }
  outcome.table = fmt::format("replay of {}: {} records, {} tensors compared, {}\n", dir, reader.records(),
                              outputs.compared(), outputs.different().empty() ? "all bytes equal" : "bytes differ");
  return outcome;
}

}  // namespace kb
