// The DMA: read and write engines between memory and TCM, and a posted write channel of its own for queue slots,
// all through one port into the cube's fabric.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/modules/pe/mmu.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/packet.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace kb {

/// Each of the read_engines (write_engines) holds up to `outstanding` transfers from issue to last response. An
/// engine issues one transfer after the other (spec 1.2, 2.1):
///   issue = max(arrival, engine's last issue end, a free place)
///   BEGIN_REQ at issue + overhead_ns + tlb_overhead_ns
///   a read ends when the last flit of its data is here, a write at its response, a queue slot's write when its
///   last byte has left the DMA's link (DepartureListener), or at its response where nobody tells.
/// Waiting transfers are served first come first served; a token whose next stage is a transfer of the same
/// direction keeps its place. Reads ahead of a loop that is not open yet (prefetch_across_prologue) come after all
/// others, and take their place when the loop opens.
class Dma : public TokenEngine,
            protected tlm::tlm_bw_transport_if<>,
            protected ProtocolFwIf<SlotTransferProtocol>,
            protected TrainListener,
            protected DepartureListener {
 public:
  /// To the cube's fabric, physical addresses. Payloads are filler (TransferExtension::timing_only): data moves in
  /// the data pass.
  tlm::tlm_initiator_socket<> socket;
  sc_core::sc_port<TranslateIf> mmu;
  /// From the queue engine.
  ProtocolTargetSocket<SlotTransferProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND> slots;

  Dma(const sc_core::sc_module_name& name, const BoxContext& context);

  /// Transfers without a command, all waiting at the engines from `start` on (Host::run_transfers).
  void start_direct(const std::vector<Host::DirectTransfer>& transfers, Ps start);
  /// Adds the streams of composites that have ended to the counters.
  void close_streams();
  bool direct_done() const { return direct_left_ == 0; }
  const sc_core::sc_event& direct_done_event() const { return direct_done_; }
  Ps first_direct_issue() const { return first_issue_; }
  Ps last_direct_end() const { return last_end_; }

 protected:
  void on_token(TileToken& token, Ps at) override;
  void on_signal(const Signal& signal, Ps at) override;
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  tlm::tlm_sync_enum nb_transport_fw(SlotTransfer& transfer, SlotTransferPhase& phase,
                                     sc_core::sc_time& delay) override;
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override;
  void data_left(tlm::tlm_generic_payload& trans, Ps when) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  enum Direction : std::uint8_t { kRead, kWrite, kQueue };
  static constexpr std::size_t kWays = 3;

  /// A transfer from its arrival to its end.
  struct Job {
    Direction way = kRead;
    TileToken* token = nullptr;      // of a command; or
    SlotTransfer* slot = nullptr;    // of the queue engine; or neither: direct
    std::uint64_t address = 0;       // virtual, physical for queue slots
    std::uint64_t bytes = 0;
    Ps place = 0;                    // arrival: its place among those that wait
    std::uint64_t order = 0;
    bool ahead = false;              // prefetch: after all others
    Ps from = 0;                     // not before
    std::uint32_t engine = 0;
    Ps issue = 0;                    // taken by its engine
    Ps request_at = 0;               // from when on its requests may go out
    std::uint64_t requested = 0;     // bytes asked for so far
    std::uint32_t open_pieces = 0;   // transactions without an end
    Ps end = 0;
    Ps path = 0;                     // uncontended time of the slowest piece
    Ps turnaround = 0;               // of the piece whose channels took longest to turn
  };
  /// A transaction on the socket.
  struct Piece {
    tlm::tlm_generic_payload* trans = nullptr;
    std::uint64_t serial = 0;
    Job* job = nullptr;              // null: posted, and has left
    bool posted = false;
  };
  /// The reads of one composite's tile loop.
  struct Stream {
    std::uint64_t serial = 0;  // of the command; 0: none
    std::uint64_t bytes = 0;
    Ps first = 0, last = 0;
  };
  struct Engine {
    Ps port_free = 0;                // end of the last issue
    std::uint32_t held = 0;          // transfers
  };
  struct Way {
    std::vector<Engine> engines;
    std::vector<Job*> waiting;       // by (ahead, place, order)
    std::vector<Job*> ending;        // their end is known
  };
  /// What the socket has told.
  struct Answer {
    enum class Kind : std::uint8_t { request_taken, responded, tail_known, left } kind;
    tlm::tlm_generic_payload* trans;
    std::uint64_t serial;
  };

  Job& new_job(Direction way, std::uint64_t address, std::uint64_t bytes, Ps place, std::uint64_t order);
  Job& job_of(TileToken& token, Ps place);
  void wait_in(Way& way, Job& job);
  Ps earliest_start(Direction way) const;
  void open_loop(const Signal& signal, Ps now);
  void start_jobs(Way& way, Ps now);
  void start(Job& job, Engine& engine, Ps now);
  void send_requests(Ps now);
  void send(Job& job, Ps now);
  Ps answered_at(const tlm::tlm_generic_payload& trans, Ps at) const;
  void take(const Answer& answer, Ps at);
  Piece* piece_of(const Answer& answer);
  [[noreturn]] void refuse(const Piece& piece) const;
  /// The piece's part of its transfer is over; its transaction may live on.
  void piece_done(Piece& piece, Ps at);
  void ended(Piece& piece, Ps at);
  void end_jobs(Way& way, Ps now);
  void end(Job& job, Ps now);
  void close(Stream& stream);

  std::array<Way, kWays> ways_;
  Inbox<TileToken*> tokens_;
  Inbox<SlotTransfer*> slots_new_;
  Inbox<Job*> direct_new_;
  Inbox<Answer> answers_;
  Inbox<Signal> loops_opened_;
  std::vector<std::uint64_t> open_loops_;  // per slot of the scheduler's window: serial of the prefetched loop opened last
  std::vector<Job*> requesting_;       // started, with bytes still to be asked for; by (request_at, order)
  const tlm::tlm_generic_payload* request_ = nullptr;  // BEGIN_REQ given, END_REQ outstanding
  Ps request_free_ = 0;                // from when on the next BEGIN_REQ may be given
  std::vector<std::unique_ptr<Piece>> pieces_;  // in use first
  std::size_t open_pieces_ = 0;
  ObjectPool<Job> jobs_;
  std::vector<Stream> streams_;        // per slot of the scheduler's window: the last command that streamed
  std::uint64_t serial_ = 0;
  std::uint64_t direct_order_ = 0;
  std::uint64_t direct_left_ = 0;
  Ps first_issue_ = kNever, last_end_ = 0;
  sc_core::sc_event direct_done_;
};

}  // namespace kb
