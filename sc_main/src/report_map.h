// The machine as a picture: where its components lie, and how much each link and memory was used.
#pragma once

#include <kb/platform/config.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kb::cli {

/// `links` is the text of a run's links.csv: name,bw_gbs,bytes,busy_ns. `time_ns` is the time that use is a share of.
///
/// {"size": [w, h], "nodes": [[x, y, kind, name, use]], "links": [[x0, y0, x1, y1, use, name, bytes, bw_gbs]],
///  "top": [{"name", "bw_gbs", "bytes", "busy_ns", "use"}], "busiest": text}
nlohmann::ordered_json map_of(const SystemConfig& config, const std::string& links, double time_ns);

}  // namespace kb::cli
