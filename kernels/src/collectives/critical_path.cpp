#include <kb/kernels/collectives/critical_path.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kb::collectives {

namespace {

using Step = Timeline::Step;

/// Writes down what passes between a kernel and its PE.
class TimedPort : public PePort {
 public:
  TimedPort(PePort& pe, Timeline& timeline) : pe_(pe), timeline_(timeline) {}

  const MachineInfo& machine() const override { return pe_.machine(); }
  PeId id() const override { return pe_.id(); }
  Mode mode() const override { return pe_.mode(); }
  const std::string& name() const override { return pe_.name(); }
  bool done(CommandId id) const override { return pe_.done(id); }
  Ps now() const override { return pe_.now(); }
  bool has_peer(Direction direction) const override { return pe_.has_peer(direction); }

  CommandId issue(Command command) override {
    Step step;
    step.kind = command.kind;
    step.direction = command.direction;
    const OpSpec& op = command.ops.front();
    if (command.kind == CommandKind::ipcq_send) step.bytes = op.operands.front().handle.bytes();
    if (command.kind == CommandKind::ipcq_recv) step.bytes = op.out.bytes();
    if (command.kind == CommandKind::math) step.elements = static_cast<std::uint64_t>(op.out.shape.numel());
    step.dispatch = cycles_ps(machine().cost_model.cycles(command), machine().clock_ghz);
    step.begin = now();
    step.command = pe_.issue(std::move(command));
    step.end = now();
    timeline_.steps.push_back(step);
    return step.command;
  }

  void wait(CommandId id, const char* why) override {
    Step step;
    step.issue = false;
    step.command = id;
    step.begin = now();
    pe_.wait(id, why);
    step.end = now();
    if (step.end > step.begin) timeline_.steps.push_back(step);
  }

  void spend_cycles(double cycles) override {
    Step step;
    step.begin = now();
    pe_.spend_cycles(cycles);
    step.end = now();
    step.dispatch = step.end - step.begin;
    timeline_.steps.push_back(step);
  }

 private:
  PePort& pe_;
  Timeline& timeline_;
};

/// A message by the PE at one end of its queue and its number on it.
using MessageKey = std::pair<std::pair<std::uint32_t, Direction>, std::uint64_t>;

class PathWalker {
 public:
  PathWalker(const MachineInfo& machine, const LaunchOptions& options, const std::vector<Timeline>& timelines)
      : machine_(machine), timelines_(timelines) {
    for (const QueueRoute& q : options.queues) senders_[{q.to, q.arrives_as}] = {q.from, q.direction};
    received_.resize(timelines.size());
    for (std::uint32_t rank = 0; rank < timelines.size(); ++rank) {
      std::map<Direction, std::uint64_t> sends, receives;
      for (std::size_t i = 0; i < timelines[rank].steps.size(); ++i) {
        const Step& s = timelines[rank].steps[i];
        if (!s.issue) continue;
        if (s.kind == CommandKind::ipcq_send) sent_[{{rank, s.direction}, sends[s.direction]++}] = i;
        if (s.kind == CommandKind::ipcq_recv) received_[rank][s.command] = {s.direction, receives[s.direction]++};
      }
    }
  }

  PathSplit walk(std::uint32_t rank, Ps start, Ps end) {
    PathSplit split;
    Ps t = end;
    std::size_t left = timelines_[rank].steps.size();  // steps that may lie before t
    if (left > 0) {
      // What the kernel did not wait for: its last sums and stores.
      const Step& last = timelines_[rank].steps.back();
      (last.issue && last.kind == CommandKind::math ? split.math : split.links) += t - std::min(t, last.end);
      t = std::min(t, last.end);
    }
    while (left > 0) {
      const Step& s = timelines_[rank].steps[--left];
      if (s.issue) {
        split.dispatch += t - s.begin;
        t = s.begin;
        continue;
      }
      const auto message = received_[rank].find(s.command);
      if (message == received_[rank].end()) {
        split.memory += t - s.begin;
        t = s.begin;
        continue;
      }
      const auto from = senders_.at({rank, message->second.first});
      rank = from.first;
      left = sent_.at({from, message->second.second});
      const Step& send = timelines_[rank].steps[left];
      transit(rank, left, t - send.end, split);
      t = send.end;
      ++left;
    }
    split.dispatch += t - start;  // nothing but the cpu is at work before the first command
    return split;
  }

 private:
  /// Takes the way of a message apart, from the end of its send's dispatch to the end of the wait for it.
  void transit(std::uint32_t rank, std::size_t send, Ps duration, PathSplit& split) const {
    ++split.messages;
    const std::vector<Step>& steps = timelines_[rank].steps;
    Ps math = 0;
    if (send > 0 && steps[send - 1].issue && steps[send - 1].kind == CommandKind::math) {
      const double cycles = std::ceil(static_cast<double>(steps[send - 1].elements) / machine_.vector_width);
      math = std::max<Ps>(0, steps[send - 1].end + cycles_ps(cycles, machine_.clock_ghz) - steps[send].end);
    }
    math = std::min(math, duration);
    const std::uint64_t bytes = steps[send].bytes, slot = machine_.ipcq_slot_bytes;
    const std::uint64_t last = bytes == 0 ? 0 : (bytes - 1) % slot + 1;
    const Ps slots = std::min(
        duration - math, transfer_ps(last, machine_.tcm_write_bw_gbs) + transfer_ps(last, machine_.tcm_read_bw_gbs));
    split.math += math;
    split.slots += slots;
    split.links += duration - math - slots;
  }

  const MachineInfo& machine_;
  const std::vector<Timeline>& timelines_;
  std::map<std::pair<std::uint32_t, Direction>, std::pair<std::uint32_t, Direction>> senders_;  // by receiver
  std::map<MessageKey, std::size_t> sent_;                                                      // step of the send
  std::vector<std::map<CommandId, std::pair<Direction, std::uint64_t>>> received_;  // by rank: direction, number
};

}  // namespace

void TimedKernel::run(PePort& pe) const {
  Timeline& timeline = timelines_.at(pe.machine().rank_of(pe.id()));
  timeline.steps.clear();
  TimedPort port(pe, timeline);
  kernel_.run(port);
}

PathSplit critical_path(const MachineInfo& machine, const LaunchOptions& options, const LaunchResult& launch,
                        const std::vector<Timeline>& timelines) {
  std::uint32_t last = 0;
  Ps done = -1;
  for (const PeStats& pe : launch.pes)
    if (pe.done > done) {
      done = pe.done;
      last = machine.rank_of(pe.id);
    }
  return PathWalker(machine, options, timelines).walk(last, launch.start, launch.end);
}

}  // namespace kb::collectives
