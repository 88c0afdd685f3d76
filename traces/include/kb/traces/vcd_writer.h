// A waveform of the run: what every engine, queue and link does when, for GTKWave.
#pragma once

#include <kb/tlm_if/op_log.h>
#include <kb/traces/trace_filter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kb {

/// Signals, each under the name of its component:
///   of every kind of operation that the component does (in a scope of the operation's name where the component
///   does several): `busy`; `op`, what it does, a string; `command`, the number of the command in its PE; `tile`, a
///   string m.n.k; `active`, operations in progress; `waiting`, those that have reached the component and have
///   not started (for components that say so)
///   of the component that accepts commands: `in_flight`, commands accepted and not done
///   of every queue, in the receiving PE: `head` and `tail`, slots written and freed, and `credits`, the slots that
///   the sender may still fill
///   of links and memory channels: `busy`
/// An operation of no length does not show. Where several of a kind are in progress, `op`, `command` and `tile`
/// are those of the one that started last.
///
/// Changes are written in the order of time, although an operation is known when it ends and may have begun at any
/// time before: changes are collected, sorted in runs of bounded size that go to a nameless file beside the
/// trace, and merged when the trace is finished, in several passes where there are many. Memory stays constant whatever
/// the length of the run.
class VcdWriter : public OpSink {
 public:
  struct Options {
    TraceFilter filter;
    std::uint32_t queue_slots = 4;  // credits at the start
    /// Changes held in memory before they are sorted into a run.
    std::size_t run_length = 1u << 18;
  };

  /// Writes `path`, and beside it the save file with the extension .gtkw. Throws IoError. `components` must outlive
  /// the writer.
  VcdWriter(const std::string& path, const ComponentTable& components, Options options);
  ~VcdWriter() override;

  void record(const OpRecord& r) override;

  /// Names the links and memory channels, in the order of their numbers.
  void set_links(std::vector<std::string> names);
  /// A link carries bytes from `from` to `to`. Calls may come in any order and overlap.
  void link_busy(std::uint32_t link, Ps from, Ps to);

  /// Merges, writes both files and gives them their names. Throws IoError.
  void finish();
  /// The same for a run that failed; the waveform stays NAME.part. Does nothing after finish().
  void abandon() noexcept;

  /// Value changes written, after finish() or abandon().
  std::uint64_t changes() const;
  /// The most changes that were in memory at a time so far: a run, and what the merge reads ahead (2^16).
  std::size_t most_held() const;
  /// The command that opens the finished trace.
  std::string view_command() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
