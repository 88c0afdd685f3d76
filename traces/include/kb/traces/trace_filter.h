// Which part of a run a trace shows.
#pragma once

#include <kb/tlm_if/units.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// Components by glob over their hierarchical names, and a window of simulated time.
struct TraceFilter {
  std::string scope = "*";  // '*', '?' and [...] of fnmatch; '*' matches dots too
  std::optional<std::pair<Ps, Ps>> window;

  bool covers(const std::string& name) const;
  /// Cuts [start, end] to the window; false when nothing of it lies inside.
  bool cut(Ps& start, Ps& end) const {
    if (!window) return true;
    if (end < window->first || start > window->second) return false;
    if (start < window->first) start = window->first;
    if (end > window->second) end = window->second;
    return true;
  }
};

}  // namespace kb
