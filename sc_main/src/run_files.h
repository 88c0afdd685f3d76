// The files that a run left: its summary and its op log.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kb::cli {

struct RunFiles {
  std::string path;                // as the user named it
  nlohmann::ordered_json summary;  // null where there is none
  std::string op_log;              // path; empty where there is none
  std::string config;              // path of config.yaml, the effective configuration; empty where there is none
  std::string links;               // path of links.csv, the use of links and channels; empty where there is none
};

/// Of a run's folder, or of an op log alone. Files of a run that did not end well (NAME.part) count too.
/// Throws IoError when there is neither.
RunFiles open_run(const std::string& path);

/// One engine's closed account in a summary: the parts of its time, in ns, in the order busy, stalls, idle.
struct EngineAccount {
  std::string engine;
  std::vector<std::pair<std::string, double>> parts;
  double total() const;
  double part(const std::string& name) const;
};

/// Of a summary, ns; 0 where no time was simulated.
double latency_of(const nlohmann::ordered_json& summary);

/// All engines of a summary that have a time.
std::vector<EngineAccount> engine_accounts(const nlohmann::ordered_json& summary);

/// 1234567.25 as "1,234,567.250".
std::string grouped(double value, int decimals = 3);

}  // namespace kb::cli
