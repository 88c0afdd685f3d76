// What a report page shows, as the JSON that its script reads.
#pragma once

#include "run_files.h"
#include "sweep_store.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kb::cli {

/// Of one run. `pes` names PEs for the timeline ("sip0.cube0.pe1"); none: the first few and the last to finish.
/// Throws InputError for a PE that the op log does not have.
nlohmann::ordered_json run_report(const RunFiles& run, const std::vector<std::string>& pes);

/// Of a sweep.
nlohmann::ordered_json sweep_report(const SweepStore& store);

/// What a run was limited by, in a sentence or two.
std::string limiting_sentence(const nlohmann::ordered_json& summary);

}  // namespace kb::cli
