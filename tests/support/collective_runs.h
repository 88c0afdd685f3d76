// Runs of collectives on the simulated machine, and what every such run must satisfy.
#pragma once

#include "session.h"

#include <kb/kernels/collectives/plan.h>
#include <kb/platform/config.h>
#include <kb/platform/machine.h>

#include <boost/test/unit_test.hpp>

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace kb::test {

/// A topology of ours with keys changed, and the mode of the runs on it.
struct Setup {
  std::string topology = "default";
  std::vector<Override> keys;
  Mode mode = Mode::data;

  std::string file() const { return std::string(KB_SOURCE_DIR) + "/topologies/" + topology + ".yaml"; }
  Setup with(const std::vector<Override>& more) const {
    Setup s = *this;
    s.keys.insert(s.keys.end(), more.begin(), more.end());
    return s;
  }
};

/// All levels of a machine in 32 PEs.
inline Setup two_sips_of_two_cubes(Mode mode = Mode::data) {
  return {"default", {{"sip.cube_mesh", "[2, 1]"}, {"sip.io.phys", "2"}}, mode};
}

inline std::string describe(const Setup& setup, const Settings& params) {
  std::string text = setup.topology;
  for (const auto& k : setup.keys) text += " " + k.first + "=" + k.second;
  for (const auto& p : params) text += " " + p.first + "=" + p.second;
  return text;
}

inline RunSpec spec_of(const std::string& bench, const Setup& setup, const Settings& params) {
  RunSpec s = spec(setup.topology, bench, params, setup.mode);
  s.overrides = setup.keys;
  return s;
}

inline MachineInfo machine_of(const Setup& setup) {
  return machine_info(load_config(setup.file(), setup.keys));
}

inline double extra(const BenchResult& result, const std::string& name) {
  for (const auto& e : result.extra)
    if (e.first == name) {
      if (const auto* d = std::get_if<double>(&e.second)) return *d;
      if (const auto* i = std::get_if<std::int64_t>(&e.second)) return static_cast<double>(*i);
    }
  BOOST_ERROR("no key " << name);
  return 0;
}

inline collectives::Plan plan_of(const Setup& setup, const Settings& params) {
  const auto get = [&params](const char* name, const std::string& fallback) {
    const auto found = params.find(name);
    return found == params.end() ? fallback : found->second;
  };
  collectives::Spec spec;
  spec.op = collectives::op_from_name(get("op", "all_reduce"));
  spec.algo = collectives::algo_from_name(get("algo", "ring_1d"));
  spec.n_elem = std::stoll(get("n_elem", "1024"));
  spec.world = static_cast<std::uint32_t>(std::stoul(get("world", "0")));
  spec.dtype = *dtype_from_name(get("dtype", "f16"));
  spec.chunk_bytes = std::stoull(get("chunk_bytes", "65536"));
  spec.root = static_cast<std::uint32_t>(std::stoul(get("root", "0")));
  return collectives::Plan::make(machine_of(setup), spec);
}

/// Runs the bench allreduce and requires: it ends, the data are right (exact on integers, see the bench), every rank
/// sent and received the messages and bytes of its moves, and the latency is not below the alpha-beta bound.
inline RunOutcome check_collective(const Setup& setup, const Settings& params) {
  RunOutcome outcome;
  BOOST_TEST_CONTEXT(describe(setup, params)) {
    outcome = run_session(spec_of("allreduce", setup, params), benches());
    BOOST_TEST(outcome.message == "");
    BOOST_TEST((outcome.code == ExitCode::done));
    if (outcome.code != ExitCode::done) return outcome;
    if (setup.mode == Mode::data) {
      BOOST_TEST(outcome.result.numerics.checked);
      BOOST_TEST(outcome.result.numerics.pass);
      // Whole numbers in [-8, 8]: their sums over 256 ranks are exact in f16 and f32.
      const auto is = [&params](const char* name, const char* value) {
        const auto found = params.find(name);
        return found != params.end() && found->second == value;
      };
      if (is("inputs", "integers") && !is("dtype", "bf16")) {
        BOOST_TEST(outcome.result.numerics.tolerance == 0.0);
        BOOST_TEST(outcome.result.numerics.max_abs_err == 0.0);
      }
    }
    const collectives::Plan plan = plan_of(setup, params);
    const MachineInfo machine = machine_of(setup);
    for (const PeStats& pe : outcome.result.launches.at(0).result.pes) {
      const auto c = collectives::count(plan.moves(machine.rank_of(pe.id)));
      BOOST_TEST(pe.ipcq_sends == c.sends);
      BOOST_TEST(pe.ipcq_recvs == c.receives);
      BOOST_TEST(pe.ipcq_bytes == static_cast<std::uint64_t>(c.elements_sent) * size_of(plan.spec().dtype));
    }
    if (plan.size() > 1) BOOST_TEST(extra(outcome.result, "bound_ratio") >= 1.0);
  }
  return outcome;
}

}  // namespace kb::test
