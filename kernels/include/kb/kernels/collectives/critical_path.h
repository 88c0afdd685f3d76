// Where a launch's time went: the chain of messages, sums and commands that ends with the last PE, taken apart.
#pragma once

#include <kb/tlm_if/host.h>
#include <kb/tlm_if/program.h>

#include <cstdint>
#include <vector>

namespace kb::collectives {

/// When a kernel issued its commands and what it waited for, on one PE.
struct Timeline {
  struct Step {
    bool issue = true;  // otherwise a wait that took time
    Ps begin = 0;
    Ps end = 0;
    CommandId command = 0;
    CommandKind kind = CommandKind::math;
    Direction direction = Direction::N;
    std::uint64_t bytes = 0;     // ipcq_send, ipcq_recv
    std::uint64_t elements = 0;  // math: of the output
    Ps dispatch = 0;             // issue: what the cost model charges
  };
  std::vector<Step> steps;
};

/// A kernel with a stopwatch between it and its PE. Takes no model time and changes none.
class TimedKernel : public KernelProgram {
 public:
  /// `kernel` outlives it. One timeline per rank of the machine.
  TimedKernel(const KernelProgram& kernel, std::uint32_t ranks) : kernel_(kernel), timelines_(ranks) {}
  const char* name() const override { return kernel_.name(); }
  void run(PePort& pe) const override;
  const std::vector<Timeline>& timelines() const { return timelines_; }

 private:
  const KernelProgram& kernel_;
  mutable std::vector<Timeline> timelines_;  // each written by its own PE only
};

/// The parts add up to the launch's latency.
struct PathSplit {
  Ps dispatch = 0;  // cpus issuing commands, and waiting for the command queue to take them
  Ps math = 0;      // sums that a message waits for before it leaves
  Ps slots = 0;     // writing and reading a message's last slot
  Ps links = 0;     // the rest of a message's way: DMA, links, queues behind other messages, waits for free slots
  Ps memory = 0;    // waits for loads
  std::uint32_t messages = 0;  // on the path
  Ps total() const { return dispatch + math + slots + links + memory; }
};

/// Follows the launch back from the PE that was done last: a wait for a message leads to the sender, at the time when
/// it had issued the send. Kernels that send and receive with tl; other waits count as memory.
PathSplit critical_path(const MachineInfo& machine, const LaunchOptions& options, const LaunchResult& launch,
                        const std::vector<Timeline>& timelines);

}  // namespace kb::collectives
