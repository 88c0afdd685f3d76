// A PE port without engines: commands are counted and done at once (spec 3.3, --mode emit).
#pragma once

#include <kb/tlm_if/cost_model.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/program.h>

#include <bitset>
#include <functional>
#include <string>

namespace kb {

/// Counts commands, bytes and dispatch cycles of one PE. Queues are taken to have a peer in every direction unless
/// limited, and a receive is done at once.
class EmitPort : public PePort {
 public:
  explicit EmitPort(const MachineInfo& machine, PeId id = {}, Mode mode = Mode::emit);

  const MachineInfo& machine() const override { return machine_; }
  PeId id() const override { return id_; }
  Mode mode() const override { return mode_; }
  const std::string& name() const override { return name_; }
  CommandId issue(Command command) override;
  void wait(CommandId, const char*) override {}
  bool done(CommandId) const override { return true; }
  void spend_cycles(double cycles) override { counts_.cycles += cycles; }
  /// Dispatch time so far.
  Ps now() const override { return cycles_ps(counts_.cycles, machine_.clock_ghz); }
  bool has_peer(Direction direction) const override { return peers_[static_cast<std::size_t>(direction)]; }

  /// Limits the directions that have a peer.
  void set_peers(const std::bitset<kDirections>& peers) { peers_ = peers; }
  const DispatchCounts& counts() const { return counts_; }
  void used_scratch(std::uint64_t bytes) override { scratch_peak_bytes_ = bytes; }
  std::uint64_t scratch_peak_bytes() const { return scratch_peak_bytes_; }

  /// Called with each command when set.
  std::function<void(const Command&)> on_issue;

 private:
  MachineInfo machine_;
  PeId id_;
  Mode mode_;
  std::string name_;
  CommandId last_ = 0;
  DispatchCounts counts_;
  std::uint64_t scratch_peak_bytes_ = 0;
  std::bitset<kDirections> peers_;
};

/// Runs a kernel for the given ranks (ascending; empty: all) without engines and returns the counts as a launch
/// result of no length but dispatch.
LaunchResult emit_launch(const MachineInfo& machine, const KernelProgram& program, const LaunchOptions& options);

}  // namespace kb
