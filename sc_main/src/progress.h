// Progress of many runs on a terminal: how many are done, how long it will take. Silent in a pipe.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace kb::cli {

/// "1:02:03", "2:03"
std::string clock_text(double seconds);

/// A line that is rewritten a few times a second.
class CountedProgress {
 public:
  /// `before` of the `total` were done before this process began: they say nothing of the speed.
  CountedProgress(std::string what, std::size_t total, std::size_t before = 0);
  /// Whether show() would print now; for counts that cost something to find.
  bool due() const;
  void show(std::size_t done, std::size_t failed);
  void clear();

 private:
  std::string what_;
  std::size_t total_, before_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace kb::cli
