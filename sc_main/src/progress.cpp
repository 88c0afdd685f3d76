#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cstdio>

namespace kb::cli {

namespace {
constexpr std::chrono::milliseconds kPeriod{500};
}

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

CountedProgress::CountedProgress(std::string what, std::size_t total, std::size_t before)
    : what_(std::move(what)),
      total_(total),
      before_(before),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_) {}

bool CountedProgress::due() const {
  return terminal_ && std::chrono::steady_clock::now() - last_ >= kPeriod;
}

void CountedProgress::show(std::size_t done, std::size_t failed) {
  if (!due()) return;
  last_ = std::chrono::steady_clock::now();
  shown_ = true;
  const double wall = std::chrono::duration<double>(last_ - begin_).count();
  std::string left = "the end is not known yet";
  if (done > before_)
    left = "about " + clock_text(wall / static_cast<double>(done - before_) * static_cast<double>(total_ - done)) +
           " left";
  fmt::print(stderr, "\r\033[K{}: {} of {} ({:.1f} %){}, {} gone, {}", what_, done, total_,
             100.0 * static_cast<double>(done) / static_cast<double>(total_),
             failed > 0 ? fmt::format(", {} failed", failed) : "", clock_text(wall), left);
  std::fflush(stderr);
}

void CountedProgress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace kb::cli
