// The chain of operations that decided when a run ended, walked backwards through its op log.
#pragma once

#include <kb/tlm_if/units.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb::cli {

/// One link of the chain, from `start` to `end`; links follow one another without a gap.
struct PathStep {
  Ps start = 0, end = 0;
  std::string engine;         // of the PE: "gemm", "dma_read"; "dispatch" and "wait" for what no record covers
  std::string pe;             // "sip0.cube0.pe1"
  std::int64_t command = -1;  // number in its PE
  std::string command_kind;
  std::int64_t tile[3] = {-1, -1, -1};  // m, n, k
  Ps length() const { return end - start; }
};

/// Starting from the operation that ended last: what an operation waited for is the operation that ended last before
/// it could start, among those that it can depend on: the stage before it of the same tile, the operation before
/// it on the same engine, the other operations of its PE, and for a receive the send of the same message. Time before a
/// command was accepted is dispatch; other time that no operation covers is wait. In order of time, from the launch's
/// start to the end of the last operation. Empty when the log has no operation of a PE.
///
/// Holds the operations of the log in memory: about 64 bytes each. Throws as OpLogReader does.
std::vector<PathStep> critical_path(const std::string& op_log);

}  // namespace kb::cli
