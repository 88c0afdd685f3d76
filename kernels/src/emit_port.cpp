#include <kb/kernels/emit_port.h>

#include <algorithm>

namespace kb {

EmitPort::EmitPort(const MachineInfo& machine, PeId id, Mode mode)
    : machine_(machine),
      id_(id),
      mode_(mode),
      name_(pe_name(id)) {
  peers_.set();
}

CommandId EmitPort::issue(Command command) {
  machine_.cost_model.check_size(command);
  command.id = ++last_;
  counts_.add(command, machine_.cost_model.cycles(command));
  if (on_issue) on_issue(command);
  return command.id;
}

LaunchResult emit_launch(const MachineInfo& machine, const KernelProgram& program, const LaunchOptions& options) {
  std::vector<std::uint32_t> ranks = options.pes;
  if (ranks.empty())
    for (std::uint32_t r = 0; r < machine.total_pes(); ++r) ranks.push_back(r);
  std::vector<std::bitset<kDirections>> peers(machine.total_pes());
  for (const auto& q : options.queues) {
    peers.at(q.from).set(static_cast<std::size_t>(q.direction));
    peers.at(q.to).set(static_cast<std::size_t>(q.arrives_as));
  }
  LaunchResult result;
  for (const std::uint32_t rank : ranks) {
    EmitPort port(machine, machine.pe_of(rank));
    port.set_peers(peers.at(rank));
    program.run(port);
    PeStats stats;
    stats.id = port.id();
    stats.dispatch = port.counts();
    stats.dispatch_ps = port.now();
    stats.scratch_peak_bytes = port.scratch_peak_bytes();
    stats.done = port.now();
    result.end = std::max(result.end, stats.done);
    result.pes.push_back(stats);
  }
  const double ns = ns_from_ps(result.end);
  result.bounds.dispatch_ns = ns;
  result.bounds.serial_ns = ns;
  if (result.end > 0) {
    result.bounds.bound_by = "dispatch";
    result.bounds.ratio = 1;
  }
  return result;
}

}  // namespace kb
