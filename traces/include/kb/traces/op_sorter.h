// Puts the records of all modules into their one final order and hands them to the sinks.
#pragma once

#include <kb/tlm_if/op_log.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kb {

/// Modules hand in a record when they know it, at a simulated time not later than its t_end; it is held until
/// simulated time has passed t_end, and delivered in the order (t_end, kind, component, number). What is held
/// are the operations in progress and at most one batch of finished ones, so that memory is bounded
/// by the machine and not by the length of the run.
class OpSorter : public OpRecorder {
 public:
  enum class Clock : std::uint8_t {
    simulation,  // advances by itself, once per batch of records, to the simulated time of the moment
    manual,      // advances when told to
  };
  explicit OpSorter(Clock clock = Clock::simulation) : clock_(clock) {}

  /// Sinks are called in the order in which they were added. They must outlive the sorter or be removed.
  void add_sink(OpSink& sink);
  void remove_sink(OpSink& sink);

  /// Throws ModelError for a record that ends before what has been delivered. With the simulation's clock it
  /// passes on what sinks throw.
  void emit(OpRecord&& r) override;

  /// Delivers the records with t_end < now: no later record can come before them.
  void advance(Ps now);
  /// Delivers everything. For the end of a run that failed: sinks keep what happened, and are not told that
  /// the launch is complete.
  void drain();
  /// End of a launch at `now`: delivers what has ended before, then flushes the sinks. Foreign traffic may go on beside
  /// it, so that what ends at `now` is not final; it is delivered if one of the launch's commands is among it, which
  /// takes a completion that is at the host in no time. kNever: everything.
  void flush(Ps now = kNever);

  std::uint64_t delivered() const { return delivered_; }
  /// Records held at present.
  std::size_t held() const { return held_.size(); }

 private:
  struct Key {
    Ps t_end;
    std::uint64_t place;  // kind and component
    std::uint64_t number;
    std::uint32_t slot;  // in records_
    friend bool operator<(const Key& a, const Key& b) {
      return a.t_end != b.t_end ? a.t_end < b.t_end : a.place != b.place ? a.place < b.place : a.number < b.number;
    }
  };

  void deliver(std::size_t count);

  Clock clock_;
  std::vector<OpSink*> sinks_;
  std::vector<OpRecord> records_;
  std::vector<std::uint32_t> free_;
  std::vector<Key> held_;
  std::size_t due_ = 0;  // advance again when so many are held
  Ps passed_ = 0;        // every record with t_end < passed_ is out
  std::uint64_t delivered_ = 0;
};

}  // namespace kb
