// Whether anything of this platform is still under way, and what to do when something went wrong: what a
// platform needs to find deadlocks and to end a run with the right error.
#pragma once

#include <cstdint>
#include <exception>
#include <systemc>

namespace kb {

/// Counts what is under way: tokens, messages, timed waits, transactions outstanding. A kernel that waits while
/// the count is zero waits for ever (spec 5.1), whatever foreign clocks do. One per platform.
class Activity {
 public:
  void begin() { ++count_; }
  void end() {
    if (--count_ == 0) idle_.notify(sc_core::SC_ZERO_TIME);
  }
  bool any() const { return count_ != 0; }
  std::int64_t count() const { return count_; }
  /// Notified one delta after the count fell to zero; ask any() again then.
  const sc_core::sc_event& idle() const { return idle_; }

 private:
  std::int64_t count_ = 0;
  sc_core::sc_event idle_{"activity_idle"};
};

/// Takes the errors of processes: an exception that leaves an SC process reaches sc_start as a report without
/// its type. The first one counts; the platform ends the run and throws it to the host's caller.
class FaultSink {
 public:
  virtual ~FaultSink() = default;
  virtual void fault(std::exception_ptr error) = 0;
};

}  // namespace kb
