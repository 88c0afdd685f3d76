// The PE's processor: runs the kernel of a launch in a thread, pays for the issue of every command and keeps at
// most queue_depth of them in flight.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/tlm_if/launch.h>
#include <kb/tlm_if/packet.h>
#include <kb/tlm_if/program.h>

#include <deque>
#include <string>

namespace kb {

/// Times (spec 2.1, 3.3, 4):
///   start of a kernel = max(LaunchMessage::start, arrival of the launch + pe.cpu.overhead_ns)
///   a command         = cost model's cycles / clock_ghz before hand-over, then a wait while queue_depth are in
///                       flight
///   end of a kernel   = its return, and the completion of all of its commands
class Cpu : public sc_core::sc_module,
            public PePort,
            protected ProtocolBwIf<CommandProtocol>,
            protected PacketFwIf,
            protected MessageOwner {
 public:
  ProtocolInitiatorSocket<CommandProtocol> commands;
  PacketTargetSocket control_in;
  PacketInitiatorSocket control_out;

  Cpu(const sc_core::sc_module_name& name, const BoxContext& context);

  bool finished() const { return finished_; }
  Ps start_time() const { return start_; }
  Ps finish_time() const { return finish_; }
  /// What the kernel's thread waits for, since when; empty while it runs or no kernel is launched.
  std::string blocked_state() const;
  bool blocked() const { return blocked_.why != nullptr; }
  void set_pe_name(const std::string& name) { pe_name_ = name; }
  /// Directions that commands may name, bit by bit.
  void set_peers(std::uint32_t directions) { peers_ = directions; }
  /// Unwinds the kernel when the simulation runs next; the launch is not reported.
  void abandon();

  // PePort
  const MachineInfo& machine() const override { return *context_.env.machine; }
  PeId id() const override { return context_.env.id; }
  Mode mode() const override { return context_.env.mode; }
  const std::string& name() const override { return pe_name_; }
  CommandId issue(Command command) override;
  void wait(CommandId id, const char* why) override;
  bool done(CommandId id) const override;
  void spend_cycles(double cycles) override;
  Ps now() const override { return now_ps(); }
  void enter(KernelPhase phase) override { context_.counters.split.enter(phase); }
  void used_scratch(std::uint64_t bytes) override { context_.counters.scratch_peak_bytes = bytes; }
  bool has_peer(Direction direction) const override { return (peers_ >> static_cast<int>(direction) & 1u) != 0; }

 protected:
  tlm::tlm_sync_enum nb_transport_bw(CommandSlip& slip, CommandPhase& phase, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(Packet& packet, PacketPhase& phase, sc_core::sc_time& delay) override;
  void packet_consumed(Packet& packet) override;

 private:
  /// A command from its issue to the last one before it completing.
  struct Issued {
    Cause waits_as;  // what waiting for it is charged to
    CommandKind kind;
    bool in_queue = true;
    bool completed = false;
  };
  struct Answer {
    CommandId id;
    CommandPhase phase;
    std::uint64_t stamp;
  };
  struct Launched {
    LaunchMessage* message = nullptr;
    const Route* back = nullptr;
    std::uint64_t context = 0;
    Ps arrival = 0;
  };
  struct Blocked {
    const char* why = nullptr;
    CommandId id = 0;  // 0: a place in the command queue
    Ps since = 0;
  };

  /// Thrown through an abandoned kernel.
  struct Abandoned {};

  void main();
  void run(const Launched& launched);
  void report(const Launched& launched);
  void pause(Ps time);
  void spend(Ps time, EngineAccount& account);
  void block(const char* why, CommandId id, Cause cause);
  void absorb() const;
  void check_stack() const;
  std::string describe(CommandId id) const;

  BoxContext context_;
  std::string pe_name_;
  RecordWriter records_;
  CostModel cost_;
  sc_core::sc_event launch_event_, answer_event_, abandon_event_;
  std::deque<Launched> launches_;
  const char* stack_base_ = nullptr;
  std::uint32_t peers_ = 0;

  bool finished_ = true;
  Ps start_ = 0, finish_ = 0;
  CommandId last_id_ = 0;
  // Answers are taken by the thread, and not in the delta in which they were given.
  mutable std::deque<Answer> answers_;
  mutable std::deque<Issued> issued_;  // from id first_issued_ on
  mutable CommandId first_issued_ = 1;
  mutable std::uint32_t in_queue_ = 0, unfinished_ = 0;
  Blocked blocked_;
  bool running_ = false;               // a kernel is in the thread
  bool abandoned_ = false;
  bool asleep_ = false;                // blocked without a wake-up of its own

  ObjectPool<Message> messages_;
  ObjectPool<Packet> packets_;
};

}  // namespace kb
