// Where a PE's time went, each instant counted once.
#pragma once

#include <kb/tlm_if/command.h>
#include <kb/tlm_if/program.h>
#include <kb/tlm_if/run_stats.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace kb {

/// Splits the time since the launch's start among the parts of LatencyPart. Engines announce when they work, at the
/// time itself or ahead of it; of the parts that apply to an instant the first counts. Memory is bounded by what is in
/// flight. Nothing of the model reads it.
class LatencySplitter {
 public:
  void open(Ps start);

  /// Some engine of the part works over [from, to).
  void busy(LatencyPart part, Ps from, Ps to);
  /// The part applies from `at` on, until it has ended as often as it began.
  void begin(LatencyPart part, Ps at) { change(part, +1, at); }
  void end(LatencyPart part, Ps at) { change(part, -1, at); }

  /// The kernel's thread enters a phase.
  void enter(KernelPhase phase);
  /// The cpu hands over a command; it is one of the present phase.
  void issued(CommandId id);
  void completed(CommandId id);

  /// The split of [start, end]; the parts add up to its length.
  LatencySplit close(Ps start, Ps end) const;

 private:
  struct Change {
    Ps at;
    LatencyPart part;
    std::int32_t by;
  };
  struct Issued {
    CommandId id;
    bool reduction;
    bool completed;
  };

  void change(LatencyPart part, std::int32_t by, Ps at);
  void advance(Ps to);
  void apply(const Change& c);
  void weigh_reduction();

  LatencySplit time_{};
  std::array<std::int32_t, kLatencyParts> active_{};
  Ps until_ = 0;                 // split up to here
  std::vector<Change> pending_;  // by time
  std::deque<Issued> commands_;  // from the oldest unfinished one on
  KernelPhase phase_ = KernelPhase::compute;
  bool reducing_ = false;
};

}  // namespace kb
