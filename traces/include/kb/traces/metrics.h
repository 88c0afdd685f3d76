// Definitions of every metric that a run shows: what is counted, over what time, in what unit.
#pragma once

#include <vector>

namespace kb {

struct MetricDefinition {
  const char* name;  // key in summary.json, dotted
  const char* unit;
  const char* text;
};

/// In the order of summary.json.
const std::vector<MetricDefinition>& metric_definitions();

}  // namespace kb
