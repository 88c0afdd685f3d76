// The operations of a few PEs, out of an op log of any length, in bounded memory.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kb::cli {

/// {"pes": [{"name", "rows": [{"engine", "ops": [[start_ps, length_ps, name, command, [m,n,k]|null, count]]}]}],
///  "names": [...], "end_ns", "merged": bool}; null when the log has no operation of a PE.
nlohmann::ordered_json timeline_of(const std::string& op_log, std::vector<std::string> pes);

}  // namespace kb::cli
