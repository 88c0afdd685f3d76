// One run of one bench, from a topology to the files of its output directory.
#pragma once

#include <kb/kernels/bench.h>
#include <kb/platform/config.h>
#include <kb/platform/recording.h>
#include <kb/tlm_if/errors.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// Everything that identifies a run (spec 7.1).
struct RunSpec {
  std::string topology;
  std::vector<Override> overrides;  // topology keys
  std::string bench;
  std::map<std::string, std::string> params;  // bench parameters
  Mode mode = Mode::timing;
  std::uint64_t seed = 1;
  std::string out;  // directory; empty: no files
  bool log = true;
  TraceOptions traces;
  std::vector<std::pair<std::string, std::string>> inputs;  // NAME -> FILE.npy
  bool dump = false;
  std::uint64_t build_shuffle = 0;             // not 0: seed of another order of construction, which must not matter
};

/// Simulated time, what is going on, fraction where known (else below 0).
using Progress = std::function<void(double time_ns, const std::string& what, double fraction)>;

/// What came of a run. `status` is "done", or "failed"/"interrupted" with the message; a run whose numerics
/// are wrong is done, with exit code 1.
struct RunOutcome {
  std::string status;
  std::string message;
  ExitCode code = ExitCode::done;
  BenchResult result;
  std::string summary_json;  // as written to DIR/summary.json
  std::string table;         // for the terminal
  std::vector<std::string> files;
  std::string view_command;  // GTKWave, when a VCD was written
};

/// Runs a bench. Throws InputError and IoError for what is found before simulation; everything later ends in
/// the outcome, with output files closed and readable.
RunOutcome run_session(const RunSpec& spec, const BenchRegistry& benches, const Progress& progress = {});

/// Recomputes the data pass of a finished run from DIR/op_log.jsonl and DIR/tensors, and compares its outputs
/// byte for byte with the dumped ones. Throws IoError, InputError, or ModelError naming the bad record.
RunOutcome replay_session(const std::string& dir, const BenchRegistry& benches);

/// Asks a running session to stop at the next opportunity (async-signal-safe).
void request_interrupt();

}  // namespace kb
