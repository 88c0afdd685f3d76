// The arrival times of the flits of a message or packet at one place, as a few arithmetic runs.
#pragma once

#include <kb/tlm_if/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kb {

/// A train of flits in address order. Times are when each flit's last bit is there (a "flit arrives" when it
/// is whole). Runs of equal spacing keep the cost of a hop independent of the number of flits, and make the
/// hop exact for every arrival pattern (spec 1.4 carries head and tail only, which is exact for even trains).
class FlitTrain {
 public:
  struct Run {
    Ps first = 0;             // arrival of the run's first flit
    Ps step = 0;              // spacing; 0 is allowed (flits that arrive together)
    std::uint32_t count = 0;
  };

  /// The runs of a train; the first two, which is all that most trains have, lie in the train itself.
  class Runs {
   public:
    std::size_t size() const { return size_; }
    const Run& operator[](std::size_t i) const { return i < kInside ? inside_[i] : more_[i - kInside]; }
    Run& operator[](std::size_t i) { return i < kInside ? inside_[i] : more_[i - kInside]; }
    const Run& back() const { return (*this)[size_ - 1]; }
    Run& back() { return (*this)[size_ - 1]; }
    void push_back(const Run& run) {
      if (size_ < kInside)
        inside_[size_] = run;
      else
        more_.push_back(run);
      ++size_;
    }
    void clear() {
      size_ = 0;
      more_.clear();
    }

   private:
    static constexpr std::size_t kInside = 2;
    std::array<Run, kInside> inside_{};
    std::vector<Run> more_;
    std::size_t size_ = 0;
  };

  void clear() { runs_.clear(); flits_ = 0; }
  bool empty() const { return flits_ == 0; }
  std::uint32_t flits() const { return flits_; }
  Ps head() const { return runs_[0].first; }
  Ps tail() const {
    const Run& r = runs_.back();
    return r.first + r.step * static_cast<Ps>(r.count - 1);
  }
  const Runs& runs() const { return runs_; }

  /// Appends one flit; times must not decrease.
  void append(Ps arrival);
  void append_run(Ps first, Ps step, std::uint32_t count);
  /// Adds a constant to every time.
  void shift(Ps by);

  /// A reading position in a train.
  struct Cursor {
    std::size_t run = 0;
    std::uint32_t used = 0;  // flits of that run already read
  };
  /// Appends the next `count` flits of `from` (which must be there) and moves the position.
  void append_from(const FlitTrain& from, Cursor& at, std::uint32_t count);
  /// The time of the flit at the position, which must be there; moves on to the next.
  Ps next(Cursor& at) const;

  /// `count` whole flits that are all there at `at`.
  static FlitTrain all_at(Ps at, std::uint32_t count);

  /// Sends the train over a link (spec 1.4): flit j leaves at max(arrival_j, leave_{j-1}) + its time, the first
  /// not before `free`; arrivals at the far end are later by `prop`. All flits take `flit`, the last `last_flit`.
  /// `out` is overwritten (it may not alias *this). Returns nothing: free' = max(head, free) + own flit times.
  void over_link(Ps free, Ps flit, Ps last_flit, Ps prop, FlitTrain& out) const;

 private:
  Runs runs_;
  std::uint32_t flits_ = 0;
};

/// Bytes of the last flit of a message as links and memory see it: rounded up to 32 B (spec 1.4).
constexpr std::uint64_t round_last_flit(std::uint64_t bytes) { return (bytes + 31) / 32 * 32; }

}  // namespace kb
