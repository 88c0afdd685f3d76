// A sweep: many runs of one bench that differ in topology keys and bench parameters, as a file describes them.
#pragma once

#include <kb/kernels/bench.h>
#include <kb/platform/config.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// "pe.dma.outstanding" or "bench.M", with its value as `--set` takes it.
using Setting = std::pair<std::string, std::string>;

/// One run of a sweep: its values of the swept keys, in the order in which the file names them.
using SweepPoint = std::vector<Setting>;

/// What a sweep file says, every point written out.
struct SweepSpec {
  std::string topology;  // path; a relative one is taken from the sweep file's folder
  std::string bench;
  std::string mode = "timing";
  std::uint64_t seed = 1;
  std::vector<Setting> fixed;      // the same for all points
  std::vector<std::string> keys;   // swept, in order of first appearance
  std::vector<SweepPoint> points;  // grid, then list, then random
};

/// Largest number of points of one sweep.
inline constexpr std::size_t kMaxSweepPoints = 1'000'000;

/// Reads a sweep file:
///
///   topology: one_pe.yaml
///   bench: gemm
///   mode: timing                     # timing (default), data or emit
///   seed: 1                          # of generated inputs
///   set: {bench.K: 4096}             # the same for all points
///   grid:                            # every combination; the first key varies slowest
///     bench.M: [32, 64, 128]
///     pe.dma.outstanding: [1, 4]
///   list:                            # one point per entry
///     - {bench.M: 8, pe.dma.outstanding: 2}
///   random:
///     samples: 20
///     seed: 7
///     keys:
///       bench.N: {min: 1, max: 4096, scale: log}   # whole numbers, as both ends are
///       pe.tcm.read_bw_gbs: {min: 64, max: 1024}   # scale: linear (default) or log
///       pe.ipcq.buffer_kind: [tcm, sram, hbm]      # choices
///
/// Several designs in one file are run one after the other. A random value depends on the seed, the sample's number
/// and the key alone, so that a longer design begins with the shorter one's points.
///
/// Throws InputError with file, line, key, what was found and what is allowed: unknown and duplicate keys with the
/// nearest known one, values that the key does not take, a key that is both fixed and swept, more than
/// kMaxSweepPoints points. Whether a combination of values makes a machine is found by its run.
SweepSpec load_sweep(const std::string& path, const BenchRegistry& benches);

/// As load_sweep, from text; `origin` stands for the file in messages and gives the folder of the topology.
SweepSpec parse_sweep(const std::string& yaml, const std::string& origin, const BenchRegistry& benches);

}  // namespace kb
