// The files that a run leaves behind its launches: op log and traces of a platform.
#pragma once

#include <kb/platform/platform.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// Which traces are written beside the op log.
struct TraceOptions {
  bool vcd = false;
  bool perfetto = false;
  bool sqlite = false;
  std::string scope = "*";                             // glob over component names
  std::optional<std::pair<double, double>> window_ns;  // simulated time
};

/// Writes DIR/op_log.jsonl and DIR/trace.* as `kernbench run` does. In this order:
///
///   Recording recording("out", true, traces);
///   PlatformOptions options;
///   recording.observe(options);
///   Platform platform("tray", config, options);
///   recording.open(platform);
///   ... simulate ...
///   recording.finish();
///
/// Files are written as NAME.part and get their names in finish(); a recording that is destroyed without it leaves
/// them so, closed and readable. It must live for as long as the platform simulates.
class Recording {
 public:
  /// The directory is made in open().
  Recording(std::string dir, bool op_log, TraceOptions traces = {});
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Joins the observers of a platform that is about to be built. Nothing is joined where nothing is to be written.
  void observe(PlatformOptions& options);
  /// Opens the files. Throws IoError.
  void open(Platform& platform);
  /// Completes the files. Throws IoError for the first that cannot be completed, after the others.
  void finish();
  /// Closes them as NAME.part.
  void abandon() noexcept;

  /// Paths of the files as they are called now.
  std::vector<std::string> files() const;
  /// Opens the finished waveform in GTKWave; empty without one.
  std::string view_command() const;
  /// Records and hash of the op log, where there is one.
  struct Digest {
    std::uint64_t records = 0;
    std::uint64_t hash = 0;
  };
  std::optional<Digest> op_log() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
