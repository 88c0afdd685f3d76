// Runs of benches through the session, as the command line makes them.
#pragma once

#include "temp_dir.h"

#include <kb/platform/session.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

namespace kb::test {

inline std::string topology(const std::string& name) { return std::string(KB_SOURCE_DIR) + "/topologies/" + name + ".yaml"; }

inline const BenchRegistry& benches() {
  static const BenchRegistry* const kBenches = [] {
    auto* r = new BenchRegistry;
    add_standard_benches(*r);
    return r;
  }();
  return *kBenches;
}

using Settings = std::map<std::string, std::string>;

inline RunSpec spec(const std::string& machine, const std::string& bench, const Settings& params, Mode mode = Mode::timing) {
  RunSpec s;
  s.topology = topology(machine);
  s.bench = bench;
  s.params = params;
  s.mode = mode;
  return s;
}

/// Runs and requires success; a run checks its accounts, bounds and conservation itself.
inline RunOutcome run(const RunSpec& s) {
  RunOutcome r = run_session(s, benches());
  BOOST_REQUIRE_MESSAGE(r.code == ExitCode::done, s.bench << ": " << r.message);
  return r;
}
inline RunOutcome run(const std::string& machine, const std::string& bench, const Settings& params, Mode mode = Mode::timing) {
  return run(spec(machine, bench, params, mode));
}

inline const LaunchResult& launch_of(const RunOutcome& r) { return r.result.launches.front().result; }
const LaunchResult& launch_of(RunOutcome&&) = delete;  // the outcome must outlive the reference

}  // namespace kb::test
