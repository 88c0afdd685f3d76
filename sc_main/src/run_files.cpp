#include "run_files.h"

#include "files.h"

#include <kb/tlm_if/errors.h>

#include <fmt/format.h>
#include <cmath>
#include <filesystem>

namespace kb::cli {

using Json = nlohmann::ordered_json;

namespace {

/// NAME, or NAME.part of a run that was cut short; empty when there is neither.
std::string find_output(const std::string& path) {
  if (file_exists(path)) return path;
  if (file_exists(path + ".part")) return path + ".part";
  return {};
}

}  // namespace

RunFiles open_run(const std::string& path) {
  RunFiles run;
  run.path = path;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    if (!file_exists(path))
      throw IoError(path + ": found nothing there; allowed: the folder of a run (--out), or an op log");
    run.op_log = path;
    return run;
  }
  const std::string summary = find_output(path + "/summary.json");
  run.op_log = find_output(path + "/op_log.jsonl");
  run.config = find_output(path + "/config.yaml");
  run.links = find_output(path + "/links.csv");
  if (summary.empty() && run.op_log.empty())
    throw IoError(path + ": found neither summary.json nor op_log.jsonl; allowed: the folder of a run (--out)");
  if (!summary.empty()) {
    run.summary = Json::parse(read_file(summary), nullptr, false);
    if (!run.summary.is_object()) throw IoError(summary + ": is no summary of a run");
  }
  return run;
}

double EngineAccount::total() const {
  double sum = 0;
  for (const auto& p : parts) sum += p.second;
  return sum;
}

double EngineAccount::part(const std::string& name) const {
  for (const auto& p : parts)
    if (p.first == name) return p.second;
  return 0;
}

double latency_of(const Json& summary) {
  const auto latency = summary.find("latency_ns");
  return latency != summary.end() && latency->is_number() ? latency->get<double>() : 0;
}

std::vector<EngineAccount> engine_accounts(const Json& summary) {
  std::vector<EngineAccount> accounts;
  const auto engines = summary.find("engines");
  if (engines == summary.end() || !engines->is_object()) return accounts;
  for (const auto& [name, engine] : engines->items()) {
    EngineAccount a;
    a.engine = name;
    a.parts.emplace_back("busy", engine.value("busy_ns", 0.0));
    if (const auto stalls = engine.find("stall_ns"); stalls != engine.end())
      for (const auto& [cause, ns] : stalls->items()) a.parts.emplace_back(cause, ns.get<double>());
    a.parts.emplace_back("idle", engine.value("idle_ns", 0.0));
    if (a.total() > 0) accounts.push_back(std::move(a));
  }
  return accounts;
}

std::string grouped(double value, int decimals) {
  std::string s = fmt::format("{:.{}f}", value, decimals);
  if (!std::isfinite(value)) return s;
  const std::ptrdiff_t begin = s[0] == '-' ? 1 : 0;
  for (auto end = static_cast<std::ptrdiff_t>(std::min(s.find('.'), s.size())) - 3; end > begin; end -= 3)
    s.insert(static_cast<std::size_t>(end), 1, ',');
  return s;
}

}  // namespace kb::cli
