// Many runs of one machine with small changes, each a process of its own, each run once however often it is asked for.
#pragma once

#include "files.h"
#include "workers.h"

#include <kb/platform/config.h>
#include <kb/platform/sweep.h>

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kb::cli {

/// One run: what differs from the machine as it is, and what it runs.
struct Trial {
  std::string bench;
  std::vector<Setting> settings;  // topology keys and bench.NAME
  std::string mode = "timing";
  bool log = false;     // keep the op log, and what else the run writes
  std::string traces;   // --trace, with `log`
  std::string machine;  // another configuration than the experiment's, as text
  std::uint64_t seed = 1;

  Trial with(const std::string& key, const std::string& value) const;
  /// "gemm M 64 K 64, pe.dma.outstanding 4"
  std::string text() const;
};

struct TrialResult {
  int code = 0;
  std::string error;
  nlohmann::ordered_json summary;  // null where there is none
  std::string dir;                 // of its files, with `log`
  bool done() const { return code == 0; }
  /// A number of the summary by dotted name; 0 where there is none.
  double number(const std::string& path) const;
  double latency() const { return number("latency_ns"); }
};

/// The value of a dotted name in a JSON object; null where there is none.
nlohmann::ordered_json at_path(const nlohmann::ordered_json& object, const std::string& path);

class Experiment {
 public:
  Experiment(std::string program, const SystemConfig& machine, std::size_t jobs);

  /// Notes a run and returns its number; the same one for the same run.
  std::size_t add(const Trial& trial);
  /// Runs what has been added since the last time. Throws Interrupted.
  void run(const std::string& what);
  const TrialResult& operator[](std::size_t number) const { return results_.at(number); }
  std::size_t size() const { return trials_.size(); }

 private:
  std::string program_;
  std::string machine_;
  std::size_t jobs_;
  ScratchDirectory scratch_;
  std::vector<Trial> trials_;
  std::vector<TrialResult> results_;
  std::map<std::string, std::size_t> known_;
};

}  // namespace kb::cli
