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
  std::string what;           // the operation: "gemm", "dma_read", "scheduler" (acceptance of a command), ...; for what
                              // no record covers "dispatch", "in flight" (a queue's message) and "wait"
  Ps contention = 0;          // of the length: beyond what the same transfer takes alone
  std::string pe;             // "sip0.cube0.pe1"
  std::int64_t command = -1;  // number in its PE
  std::string command_kind;   // empty for what belongs to no command
  Ps length() const { return end - start; }
};

struct CriticalPath {
  std::vector<PathStep> steps;  // in order of time; empty when the log has no operation of a PE
  bool too_long = false;        // the log has more operations than are held in memory; there are no steps
};

/// Starting from the operation that ended last: what an operation waited for is the operation that ended last before
/// it could start, among those that it can depend on: the stage before it of the same tile, the operation before
/// it on the same engine, the other operations of its PE, and the send of a message that was written into a slot. Time
/// before a command was accepted is dispatch; time between a send and the write of its slot is in flight; other
/// time that no operation covers is wait. A run of several launches has one chain for each. So the lengths add up to
/// the latency of the run: from the common start of each launch to its last PE done.
///
/// Holds the operations of the log in memory, about 90 bytes each, up to five million. Throws as OpLogReader does.
CriticalPath critical_path(const std::string& op_log);

/// What a kind of operation contributed to a chain.
struct PathPart {
  std::string what, command_kind;
  Ps time = 0;
  std::size_t steps = 0;
};

/// The chain by operation and kind of command, contention as a line of its own ("dma_read contention"). In the order of
/// their first step.
std::vector<PathPart> parts_of(const CriticalPath& path);

}  // namespace kb::cli
