// The command scheduler: takes commands from the cpu, orders them by their address ranges, turns them into tokens,
// feeds these to the engines and counts their completions.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/tlm_if/packet.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace kb {

/// Rules (spec 2.1 - 2.3, 3.5):
///   accepted  = max(hand-over, the command before accepted) + overhead_ns
///   unblocked = when every earlier command that conflicts by address range has completed, and every earlier send
///               (recv) of its direction is with the queue engine
///   Prologues, chains and single ops are fed when unblocked. Tile loops are fed one after the other, the oldest
///   that is unblocked and past its prologue first; a loop once begun is fed to its end. A step is fed when each
///   operand that it streams has a free one of tile_buffers buffers; a buffer is held from then (the DMA issues
///   in feed order) to the end of the last FETCH that uses it.
///   With prefetch_across_prologue the oldest loop that is not yet open is fed ahead while no other loop is, as far
///   as its buffers reach, once nothing earlier that is unfinished writes what it streams.
/// A completion costs no time.
class Scheduler : public TokenEngine, protected ProtocolFwIf<CommandProtocol> {
 public:
  ProtocolTargetSocket<CommandProtocol> commands;

  Scheduler(const sc_core::sc_module_name& name, const BoxContext& context);
  ~Scheduler() override;

  /// Commands that are not completed, in words, for reports of deadlocks.
  std::string unfinished() const;

 protected:
  tlm::tlm_sync_enum nb_transport_fw(CommandSlip& slip, CommandPhase& phase, sc_core::sc_time& delay) override;
  void on_token(TileToken& token, Ps at) override;
  void on_signal(const Signal& signal, Ps at) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  enum class Phase : std::uint8_t { blocked, prologue, waiting_loop, loop, epilogue };
  struct Dependent {
    std::uint32_t slot;
    bool streams;  // what this command writes is streamed by the dependent
  };
  /// A command from its acceptance to its completion.
  struct Entry {
    std::unique_ptr<CommandContext> context;
    CommandId id = 0;
    CommandRanges ranges;
    std::vector<AddressRange> streamed;
    Phase phase = Phase::blocked;
    std::uint32_t waits_for = 0;          // unfinished earlier commands that conflict
    std::uint32_t stream_waits_for = 0;   // those of them that write what this one streams
    std::vector<Dependent> dependents;
    std::vector<std::uint32_t> followers; // queue commands of its direction that come after it
    std::uint64_t remaining = 0;          // tokens of the phase that have not reported
    Ps last_end = 0;                      // of the reports so far
    Ps accepted = 0;
    bool handed_over = false;             // a queue command that waits for its peer
    // tile loop
    std::optional<TileCursor> cursor;
    bool open = false;                    // past the prologue, and its turn
    std::uint64_t fed = 0, fetched = 0;   // steps
    std::uint64_t fetches_told = 0;       // FETCHes announced, their ends perhaps still to come
    std::uint32_t held_a = 0, held_b = 0; // tile buffers
    std::uint64_t first_ticket = 0;
    std::uint64_t accumulators = 0;       // taken by the blocks before this one
    std::uint64_t window = 0;             // most steps fed and not fetched
  };
  struct Intake {
    CommandSlip slip;
    Ps arrival;
  };
  struct Fetched {
    std::uint32_t slot;
    bool last_a, last_b;
    Ps at;
    std::uint64_t stamp;
  };
  /// What the loop that is being fed waits for.
  struct FeedBlock {
    std::uint32_t slot = kNone;
    bool needs_a = false, needs_b = false;
    std::uint64_t window_until = 0;  // a number of fetches told
  };
  static constexpr std::uint32_t kNone = 0xffffffffu;

  Entry& entry(std::uint32_t slot) { return *slots_[slot]; }
  bool frees(const Fetched& fetched) const;
  void take_fetched(Ps now, std::uint64_t delta);
  void take_commands(Ps now);
  void accept(const CommandSlip& slip, Ps start, Ps now);
  void unblock(Entry& e, Ps now);
  void phase_done(Entry& e, Ps now);
  void feed_chain(Entry& e, const TilePlan& chain, Phase phase, Ps now);
  void prepare_loop(Entry& e);
  void feed_loops(Ps now);
  bool feed(Entry& e, Ps now);
  void open_loop(Entry& e, Ps now);
  void complete(Entry& e, Ps now);
  void release(Entry& waiting, std::uint32_t slot);
  void release_followers(Entry& e);
  void answer(CommandId id, CommandPhase phase);
  void underway(bool begin);

  Ps overhead_;
  Inbox<CommandSlip> commands_new_;
  std::deque<Intake> intake_;           // in issue order
  Ps intake_end_ = kNever;              // of the command being accepted
  Ps intake_start_ = 0;
  std::vector<std::unique_ptr<Entry>> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> active_;   // in issue order
  Inbox<std::uint32_t> phases_done_;
  Inbox<std::uint32_t> handed_over_;
  std::vector<Fetched> fetched_;
  std::vector<std::uint32_t> ended_;      // of this decision: commands whose phase has ended
  std::vector<std::uint32_t> unblocked_;  // of this decision: commands that no longer wait for another
  ObjectPool<TileToken> tokens_;
  std::uint64_t next_order_ = 0;
  std::uint64_t next_serial_ = 1;
  std::uint64_t next_ticket_ = 0;
  std::uint32_t feeding_ = kNone;       // the loop that is being fed
  FeedBlock blocked_;
};

}  // namespace kb
