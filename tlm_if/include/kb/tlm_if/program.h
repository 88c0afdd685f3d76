// The line between a kernel and the PE that runs it.
#pragma once

#include <kb/tlm_if/command.h>
#include <kb/tlm_if/machine_info.h>
#include <kb/tlm_if/units.h>

#include <cstdint>
#include <string>

namespace kb {

/// What a kernel is doing, for the split of its latency.
enum class KernelPhase : std::uint8_t { compute, reduction };

/// What the cpu of a PE offers to the kernel on it. All calls are made from the kernel's thread.
/// In emit mode a port without engines stands behind it: commands are counted and done at once.
class PePort {
 public:
  virtual ~PePort() = default;

  virtual const MachineInfo& machine() const = 0;
  virtual PeId id() const = 0;
  virtual Mode mode() const = 0;
  /// "tray.sip0.cube0.pe0", for messages.
  virtual const std::string& name() const = 0;

  /// Pays the dispatch time, waits for a place in the command queue if it is full, hands the command over
  /// and returns its number. Throws ModelError when the command is over the byte cap.
  virtual CommandId issue(Command command) = 0;
  /// Blocks until the command has completed. `why` names the kernel call, for reports of deadlocks.
  virtual void wait(CommandId id, const char* why) = 0;
  virtual bool done(CommandId id) const = 0;
  /// Explicit cpu work; bypasses the cost model.
  virtual void spend_cycles(double cycles) = 0;
  virtual Ps now() const = 0;
  /// Commands issued from now on belong to `phase`. Takes no time.
  virtual void enter(KernelPhase) {}
  /// Most bytes of scratch that the kernel had in use at once. Told when it returns.
  virtual void used_scratch(std::uint64_t) {}

  /// Whether `direction` has been installed for this launch.
  virtual bool has_peer(Direction direction) const = 0;
};

/// A kernel bound to its arguments. `run` is called once per PE of a launch, each in its own thread;
/// it must not keep state between PEs.
class KernelProgram {
 public:
  virtual ~KernelProgram() = default;
  virtual const char* name() const = 0;
  virtual void run(PePort& pe) const = 0;
};

}  // namespace kb
