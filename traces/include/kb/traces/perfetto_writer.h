// A timeline of the run for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <kb/tlm_if/op_log.h>
#include <kb/traces/output_file.h>
#include <kb/traces/trace_filter.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kb {

/// Chrome's trace event format (the array form), streamed. One process per PE (and per parent of other components), one
/// thread per component; operations that overlap on a component go to further threads of its name ("dma #2"), because
/// events of one thread must nest. An operation is a complete event ("X") with its command, tile, bytes and sizes as
/// arguments, a command one from acceptance to completion under the name of its kind; the commands in flight of a PE
/// are a counter ("C"). Times are microseconds with six decimals, exact to a picosecond. A file cut short by a full
/// disk lacks the closing bracket, which the format makes optional.
class PerfettoWriter : public OpSink {
 public:
  /// Throws IoError. `components` must outlive the writer.
  PerfettoWriter(const std::string& path, const ComponentTable& components, TraceFilter filter = {});

  void record(const OpRecord& r) override;

  void finish();
  void abandon() noexcept;

  /// Events written, metadata not counted.
  std::uint64_t events() const { return events_; }

 private:
  struct Track {
    bool known = false, covered = false;
    std::uint32_t process = 0;
    std::string name;
    std::vector<std::pair<Ps, std::uint32_t>> lanes;  // end of the last event, thread number
  };
  Track& track(std::uint32_t component);
  std::uint32_t process(const std::string& name);
  std::uint32_t lane(Track& track, Ps start, Ps end);
  void metadata(const char* what, std::uint32_t pid, std::uint32_t tid, const std::string& name);
  void begin_event();

  OutputFile file_;
  const ComponentTable& components_;
  TraceFilter filter_;
  std::vector<Track> tracks_;
  std::map<std::string, std::uint32_t> processes_;
  std::vector<std::int64_t> in_flight_;  // by PE
  std::uint32_t threads_ = 0;
  std::uint64_t events_ = 0;
  bool first_ = true;
  bool closed_ = false;
};

}  // namespace kb
