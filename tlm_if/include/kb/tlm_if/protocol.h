// The protocols inside a PE and between the queue engines of PEs: commands, tile tokens, signals, TCM accesses,
// credits. None of them is a memory access of the fabric, and none pretends to be one (spec 1.5).
//
// In all of them nb_transport announces something that is there at now + delay, the callee appends it to a
// queue of its own and answers TLM_ACCEPTED; it is seen by decisions of later deltas only (spec 1.4).
#pragma once

#include <kb/tlm_if/account.h>
#include <kb/tlm_if/plan.h>
#include <kb/tlm_if/protocol_if.h>

#include <array>
#include <cstdint>

namespace kb {

/// A command on its way from the cpu to the scheduler and, as a completion, back. The cpu owns it; it is valid
/// during the call.
struct CommandSlip {
  CommandPtr command;
  CommandId id = 0;
  Ps ready = 0;   // its dispatch time was paid; from then on it waited for a place in the queue
};
enum class CommandPhase : std::uint8_t { issue, left_queue, completed };

/// Forward: issue. Backward, with only `id` set: left_queue, when a queue command no longer counts against
/// queue_depth although it has not completed; completed.
struct CommandProtocol {
  using tlm_payload_type = CommandSlip;
  using tlm_phase_type = CommandPhase;
};

/// Where a token's time went so far: until when, and for what. Engines read it when they start the token after
/// a gap of their own, so that every gap has a cause.
class Trail {
 public:
  static constexpr std::size_t kSegments = 12;
  struct Segment {
    Ps until;
    Cause cause;
  };

  void clear() { size_ = 0; }
  /// Adds the time from the last segment to `until`; the two oldest segments merge when the trail is full.
  void push(Ps until, Cause cause) {
    if (size_ != 0 && until <= segments_[size_ - 1].until) return;
    if (size_ == kSegments) {
      for (std::size_t i = 1; i < kSegments; ++i) segments_[i - 1] = segments_[i];
      --size_;
    }
    segments_[size_++] = {until, cause};
  }
  std::size_t size() const { return size_; }
  const Segment& operator[](std::size_t i) const { return segments_[i]; }

 private:
  std::array<Segment, kSegments> segments_;
  std::size_t size_ = 0;
};

/// A command that the scheduler has accepted, as its tokens see it. The scheduler owns it and keeps it until
/// every token has reported; engines read the plan and the trail's times of events that lie behind the token.
struct CommandContext {
  explicit CommandContext(PipelinePlan p) : plan(std::move(p)) {}
  PipelinePlan plan;
  std::uint32_t slot = 0;  // of the scheduler's window; comes back in signals
  std::uint64_t serial = 0;  // of the command in its PE, never used twice (command numbers restart per launch)
  Trail trail;             // dispatch, command_queue, hazard, then its earlier phases
};

/// A plan, a stage index and coordinates. Routes itself: the engine that has finished a stage hands it to the
/// engine of the next one (or keeps it), and the last one reports to the scheduler, exactly once.
struct TileToken {
  const CommandContext* context = nullptr;
  const TilePlan* tile = nullptr;
  std::uint32_t stage = 0;
  bool in_loop = false;            // a step of the tile loop; otherwise a chain, without coordinates
  bool gated = false;              // prefetched: `ticket` counts from its loop's first step until that is open
  bool last_a = false, last_b = false;  // its FETCH is the last to use the buffered tile
  bool first_k = false, last_k = false;
  std::uint64_t accumulator = 0;   // loop: that of its sum, counted from the loop's first; in the GEMM's ring later
  TileCoord at;
  std::uint64_t order = 0;         // number of the token in its PE; breaks ties between arrivals
  std::uint64_t ticket = 0;        // loop: place in the order in which FETCH takes them
  Trail trail;

  const Stage& now() const { return tile->stages[stage]; }
  bool at_end() const { return stage + 1 == tile->stages.size(); }
  StageWork work() const { return context->plan.work(now(), at); }
};
enum class TokenPhase : std::uint8_t { arrive };

/// Hands a token to the engine of its present stage. Ownership passes to the callee.
struct TokenProtocol {
  using tlm_payload_type = TileToken;
  using tlm_phase_type = TokenPhase;
};

/// A wire between two boxes of a PE.
struct Signal {
  enum class Kind : std::uint8_t {
    done,                 // engine -> scheduler: a token has finished its last stage (with the token)
    fetched,              // fetch_store -> scheduler: FETCH of a loop token ends; frees tile buffers
    registers_free,       // gemm -> fetch_store: one of the two register tiles is free again
    accumulator_free,     // fetch_store -> gemm: STORE of an accumulator ends
    accumulator_updated,  // math -> gemm: the k_tile ops on an accumulator have ended
    staging_free,         // dma -> fetch_store: a written tile's place in TCM is free again
    loop_open,            // scheduler -> fetch_store: a prefetched loop's prologue is done
    handed_over,          // ipcq -> scheduler: a queue command waits for its peer and leaves the command queue
  };
  Kind kind = Kind::done;
  std::uint32_t slot = 0;         // of the scheduler's window
  std::uint64_t accumulator = 0;
  std::uint64_t serial = 0;       // loop_open: of the command
  std::uint64_t ticket = 0;       // loop_open: of the loop's first step
  bool last_a = false, last_b = false;
  TileToken* token = nullptr;     // done: goes back to the scheduler's pool
};
enum class SignalPhase : std::uint8_t { raise };

struct SignalProtocol {
  using tlm_payload_type = Signal;
  using tlm_phase_type = SignalPhase;
};

/// An access to one of the TCM's two channels. The requester owns it and keeps it until the grant.
struct TcmAccess {
  enum class Requester : std::uint8_t { fetch_store, ipcq };  // in the order in which they are bound
  Requester requester = Requester::fetch_store;
  bool write = false;
  std::uint64_t bytes = 0;
  std::uint64_t order = 0;            // breaks ties between arrivals
  const TileToken* token = nullptr;   // FETCH and STORE: whose trail explains the channel's gap
  Cause cause = Cause::operands_ipcq; // other requesters: what the channel's gap was for
  Ps service = 0;                     // filled in with the grant: how long the channel serves it
};
enum class TcmPhase : std::uint8_t { request, grant };

/// Forward: request. Backward: grant, whose delay is the end of the access; the channel serves it in the last
/// `service` of the time until then.
struct TcmProtocol {
  using tlm_payload_type = TcmAccess;
  using tlm_phase_type = TcmPhase;
};

/// Bytes of a queue message on their way to the peer's queue window, as the queue engine gives them to its DMA.
/// The queue engine owns it and keeps it until the last byte has left.
struct SlotTransfer {
  std::uint64_t address = 0;  // physical
  std::uint64_t bytes = 0;
  std::uint64_t order = 0;    // breaks ties between arrivals
};
enum class SlotTransferPhase : std::uint8_t { request, left };

/// Forward: request. Backward: left, once the last byte has left (the write is posted, spec 5.1).
struct SlotTransferProtocol {
  using tlm_payload_type = SlotTransfer;
  using tlm_phase_type = SlotTransferPhase;
};

/// A credit on its own wire between two queue engines (spec 5.1): `to` may send `slots` more messages in its
/// direction `direction`.
struct Credit {
  std::uint32_t to = 0;    // rank
  Direction direction = Direction::N;  // as the sender of the data names it
  std::uint32_t slots = 1;
};
enum class CreditPhase : std::uint8_t { give };

/// The delay of the call is the latency of the wire.
struct CreditProtocol {
  using tlm_payload_type = Credit;
  using tlm_phase_type = CreditPhase;
};
using CreditFwIf = ProtocolFwIf<CreditProtocol>;
using CreditInitiatorSocket = OneWayInitiatorSocket<CreditProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
using CreditParentSocket = ProtocolInitiatorSocket<CreditProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
using CreditTargetSocket = ProtocolTargetSocket<CreditProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

}  // namespace kb
