// The queue engine: control plane of the PE-to-PE queues. Rings of slots, head and tail pointers and credits per
// direction; the DMA moves the bytes.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/modules/pe/pe.h>
#include <kb/modules/pe/tcm_port.h>
#include <kb/tlm_if/packet.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

namespace kb {

/// A ring of `slots` slots of slot_bytes per direction and sense; the receiver's ring of direction d lies in its queue
/// window at d * slots * slot_bytes. Rules (spec 5.1):
///   send   the value is taken and the command completes when it reaches the queue engine. Its segments (one, or
///          with split ceil(bytes / slot_bytes); an empty message is one of 0 bytes) go to the DMA in order, each
///          once a slot is free: sent - credits back < slots.
///   slot write   from the arrival of the segment's last byte: its turn on the TCM's write channel + bytes / bandwidth
///          (sram, hbm: bytes / bandwidth of the tier on a port of their own, + access_ns + path to the bank). Data
///          and head are visible together at its end.
///   recv   waits for the segment, reads the slot (as the write, on the read channel; nothing with consume off), moves
///          the tail and returns the credit over its own wire; after the last segment it completes when the credit
///          has arrived.
/// Directions, and sends and receives of one direction, are served independently of each other.
class Ipcq : public TokenEngine,
             protected ProtocolBwIf<TcmProtocol>,
             protected ProtocolFwIf<SlotProtocol>,
             protected ProtocolBwIf<SlotTransferProtocol>,
             protected CreditFwIf {
 public:
  ProtocolInitiatorSocket<TcmProtocol> tcm;
  /// From the TCM's port: what has arrived in the queue window.
  ProtocolTargetSocket<SlotProtocol> arrivals;
  /// To the DMA.
  ProtocolInitiatorSocket<SlotTransferProtocol> dma;
  CreditInitiatorSocket credit_out;
  CreditTargetSocket credit_in;

  Ipcq(const sc_core::sc_module_name& name, const BoxContext& context);

  /// Empties all rings and installs the directions of the coming launch. Throws InputError when a direction is
  /// installed twice in the same sense, or the rings do not fit the queue window.
  void install(const std::vector<QueueEnd>& ends);
  void set_bank_path(Ps latency) { bank_path_ = latency; }
  /// Pointers and credits of the directions in use, for reports of deadlocks.
  std::string state() const;
  /// Throws ModelError when a message was sent and not received, or a credit is missing.
  void check_empty() const;

 protected:
  void on_token(TileToken& token, Ps at) override;
  tlm::tlm_sync_enum nb_transport_bw(TcmAccess& access, TcmPhase& phase, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(SlotArrival& slot, SlotPhase& phase, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_bw(SlotTransfer& transfer, SlotTransferPhase& phase,
                                     sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(Credit& credit, CreditPhase& phase, sc_core::sc_time& delay) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  /// A send whose value has been taken and whose segments wait for slots.
  struct Send {
    CommandPtr command;
    std::uint64_t bytes = 0;
    std::uint64_t segments = 1, next = 0;
  };
  struct Receive {
    TileToken* token = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t segments = 1, next = 0;
    bool consume = true;
    Ps ready = 0;
    Ps begun = -1;
  };
  /// Sender's side of a direction.
  struct Outgoing {
    bool installed = false;
    QueueEnd end;
    std::uint64_t head = 0;  // segments given to the DMA
    std::uint64_t tail = 0;  // credits that came back: the peer's tail as known here
    std::uint64_t messages = 0;
    std::deque<Send> sends;
  };
  /// Receiver's side.
  struct Incoming {
    bool installed = false;
    QueueEnd end;
    std::uint64_t arrived = 0;  // segments whose bytes have come in
    std::uint64_t head = 0;     // ... and are visible
    std::uint64_t tail = 0;     // segments read
    std::uint64_t messages = 0;
    bool reading = false;
    std::deque<std::uint64_t> sizes;  // of the segments from tail to arrived
    std::deque<Receive> receives;
  };
  /// An access to a slot under way.
  struct SlotOp {
    TcmAccess access;
    Direction direction = Direction::N;
    Ps begin = 0;
    Ps own = 0;  // uncontended time
  };
  struct Outbound {
    SlotTransfer transfer;
    Direction direction = Direction::N;
  };
  /// What the engine as a whole is doing, for its account.
  enum class Doing : std::uint8_t { nothing, working, waiting_for_data, waiting_for_credit };

  Outgoing& outgoing(Direction d) { return outgoing_[static_cast<std::size_t>(d)]; }
  Incoming& incoming(Direction d) { return incoming_[static_cast<std::size_t>(d)]; }
  std::uint64_t segments_of(std::uint64_t bytes) const;
  std::uint64_t segment_bytes(std::uint64_t bytes, std::uint64_t segment) const;
  void take(TileToken& token, Ps at, Ps now);
  void take_send(TileToken& token, Ps now);
  void take_receive(TileToken& token, Ps at, Ps now);
  void arrived(const SlotArrival& slot, Ps now);
  void start_access(Direction d, bool write, bool charged, std::uint64_t bytes, Ps now);
  void end_access(SlotOp& op, Ps at, Ps now);
  void advance_sends(Direction d, Ps now);
  void advance_receives(Direction d, Ps now);
  void account_until(Ps now);
  void underway(bool begin);
  [[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& allowed) const;

  IpcqBufferParams tier_;
  Ps bank_path_ = 0;
  std::array<Outgoing, kDirections> outgoing_;
  std::array<Incoming, kDirections> incoming_;
  Inbox<TileToken*> tokens_;
  Inbox<SlotArrival> arrivals_;
  Inbox<SlotOp*> ops_done_;
  Inbox<Outbound*> left_;
  Inbox<Credit> credits_;
  std::vector<std::pair<TileToken*, Ps>> taken_;  // of this decision
  ObjectPool<SlotOp> ops_;
  ObjectPool<Outbound> outbounds_;
  std::array<Ps, 2> port_free_{};  // sram and hbm slots: read, write
  std::uint64_t orders_ = 0;
  std::uint32_t working_ = 0;      // transfers and slot accesses under way
  Doing doing_ = Doing::nothing;
};

}  // namespace kb
