// How a process of the PE is woken, and how it is told things without depending on the order of processes.
#pragma once

#include <kb/tlm_if/units.h>

#include <cstdint>
#include <systemc>
#include <utility>
#include <vector>

namespace kb {

/// The single event of a process that computes its next wake-up. Never notifies immediately: something to do
/// now is done one delta later (spec 1.4).
class Wake {
 public:
  explicit Wake(const char* name) : event_(name) {}
  const sc_core::sc_event& event() const { return event_; }

  /// Wakes the process at `when` or earlier.
  void at(Ps when, Ps now) {
    if (when >= pending_) return;
    pending_ = when;
    if (when <= now)
      event_.notify(sc_core::SC_ZERO_TIME);
    else
      event_.notify(until(when));
  }
  /// To be called first by the process; it has to ask again for what it still waits for.
  void fired() { pending_ = kNever; }

 private:
  sc_core::sc_event event_;
  Ps pending_ = kNever;
};

/// What callbacks have told a process. An entry appended in the present delta is not seen before the next one,
/// so that it does not matter whether the callback or the process ran first.
template <typename T>
class Inbox {
 public:
  void append(T value, Ps at) { items_.push_back({std::move(value), at, sc_core::sc_delta_count()}); }
  bool empty() const { return items_.empty(); }

  /// Hands every entry that is due at `now` and visible to `take(value, at)` and removes it. The order of the
  /// entries of one delta is arbitrary: `take` sorts, or does what commutes. Returns when to look again.
  template <typename Take>
  Ps drain(Ps now, std::uint64_t delta, Take take) {
    return drain_until(now, now, delta, take);
  }
  /// The same for everything that is visible, due in the future included.
  template <typename Take>
  Ps drain_all(Ps now, std::uint64_t delta, Take take) {
    return drain_until(kNever, now, delta, take);
  }

 private:
  struct Item {
    T value;
    Ps at;
    std::uint64_t stamp;
  };
  template <typename Take>
  Ps drain_until(Ps limit, Ps now, std::uint64_t delta, Take& take) {
    Ps next = kNever;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (item.stamp < delta && item.at <= limit) {
        take(item.value, item.at);
      } else {
        const Ps look = item.stamp < delta ? item.at : now;  // unseen ones: in the next delta
        if (look < next) next = look;
        if (kept != i) items_[kept] = std::move(item);
        ++kept;
      }
    }
    items_.resize(kept);
    return next;
  }
  std::vector<Item> items_;
};

}  // namespace kb
