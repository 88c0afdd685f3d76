// A processing element: cpu, scheduler, dma, fetch_store, gemm, math, tcm, mmu and ipcq, joined by sockets.
// It runs one kernel per launch and speaks to the cube through a DMA port, a TCM port, control and credits.
#pragma once

#include <kb/modules/params.h>
#include <kb/modules/pe/pe_env.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/packet.h>
#include <kb/tlm_if/protocol.h>
#include <kb/tlm_if/run_stats.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

namespace kb {

/// One end of a queue direction, installed before a launch (spec 5.1).
struct QueueEnd {
  Direction direction = Direction::N;  // as this PE names it
  std::uint32_t peer = 0;              // rank of the other PE
  Direction peer_direction = Direction::N;  // as the other PE names it
  bool sends = false;                  // this PE is the sender; otherwise the receiver
  std::uint64_t peer_window = 0;       // sender: physical address of the peer's queue window
  Ps credit_ps = 0;                    // receiver: path latency of its credits to the peer
};

class Pe : public sc_core::sc_module {
 public:
  /// Base-protocol initiator: transfers of the DMA, physical addresses, TransferExtension filled in (lane,
  /// issuer, vc, serial, listener). BEGIN_RESP is answered TLM_COMPLETED; a read whose train is not complete
  /// then keeps its payload until the listener has been told its tail.
  tlm::tlm_initiator_socket<> dma_socket;
  /// Base-protocol target: this PE's TCM and queue window, physical addresses. b, nb, debug; DMI to the TCM
  /// outside timing mode. TCM accesses are never limited here; writes to queue slots pass the slot's tier.
  tlm::tlm_target_socket<> tcm_socket;
  /// Launch messages to the cpu (Message::Kind::launch).
  PacketTargetSocket control_in;
  /// Completions: a message of this PE on the reverse of the launch's route, with its `launch` and `context`.
  PacketParentSocket control_out;
  /// Credits to and from the other PEs' queue engines; left unbound where there are no queues.
  CreditParentSocket credit_out;
  CreditTargetSocket credit_in;

  /// Throws InputError on impossible parameters and on an `impl` that the registry does not know.
  Pe(const sc_core::sc_module_name& name, const PeParams& params, const PeEnv& env);
  ~Pe() override;

  /// "cpu", "scheduler", "dma", "fetch_store", "gemm", "math", "tcm", "mmu", "ipcq": the order of the component
  /// table. Records of the dma carry the table index component_base + 2, and so on.
  static const std::vector<std::string>& component_names();

  /// Clears counters and accounts and installs the queue directions of the coming launch. Call it between
  /// launches, with no command in flight. Unless something is named twice the old directions go.
  /// Throws InputError when a direction is installed twice in the same sense.
  void prepare_launch(const std::vector<QueueEnd>& queues);

  /// Path latency between this PE and the bank of its queue slots, where these lie in sram or hbm (spec 5.1).
  /// Fixed by the topology; 0 unless called.
  void set_bank_path(Ps latency);

  /// The kernel of the present launch has returned and all of its commands have completed.
  bool finished() const;
  /// When that was.
  Ps finish_time() const;
  /// Closed accounts and counters over [start, end], the launch's kernel time or a run of transfers. Throws
  /// ModelError when an account does not close (spec 2.1).
  PeStats stats(Ps start, Ps end) const;

  /// Activations of this PE's processes since it was built, kernel threads not counted.
  std::uint64_t activations() const;

  /// Starts transfers at the DMA engines at time `start` (not before now), each direction in list order,
  /// without cpu, scheduler or dispatch (Host::run_transfers). Entries of other PEs are ignored.
  void start_transfers(const std::vector<Host::DirectTransfer>& transfers, Ps start);
  /// No direct transfer is pending; notified through transfers_done_event().
  bool transfers_done() const;
  const sc_core::sc_event& transfers_done_event() const;
  Ps first_transfer_issue() const;
  Ps last_transfer_end() const;

  /// What the kernel's thread waits for and since when, with queue pointers and credits; empty while it runs or
  /// is not launched. For reports of deadlocks.
  std::string blocked_state() const;
  /// Ends the present kernel where it stands, for platforms that give up after an error or a deadlock: an
  /// exception unwinds its locals when the simulation runs next (sc_start(SC_ZERO_TIME) is enough). Nothing can
  /// run in a simulation that was ended by sc_stop, and the locals of a kernel that is then unfinished are lost.
  void abandon();

  const PeEnv& env() const;
  const PeParams& params() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
