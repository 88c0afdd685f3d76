// An HBM slice: its controller, its pseudo channels, its link to the router, its bytes. An SRAM is the same with
// one bank as fast as its link.
#pragma once

#include <kb/modules/fabric/context.h>
#include <kb/modules/fabric/output_port.h>
#include <kb/modules/fabric/response_gate.h>
#include <kb/modules/memory/memory_module.h>
#include <kb/modules/memory/sparse_store.h>
#include <kb/modules/params.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb {

struct MemoryControllerParams {
  std::string title;                 // name in the topology
  std::uint64_t bytes = 0;           // capacity
  std::string channel_name = "pc";   // followed by its number
  std::uint32_t channels = 8;        // a power of two
  double channel_bw_gbs = 32;
  double link_bw_gbs = 256;          // data towards the router
  std::uint32_t burst_bytes = 256;   // channel interleave, commit unit and flit size
  double access_ns = 0;              // latency of every access, no occupancy
  double switch_penalty_ns = 0;      // read/write turnaround of a channel
  std::uint32_t first_channel = 0;   // number of channel 0 in the platform's list of links

  static MemoryControllerParams of(const HbmParams& p);
  static MemoryControllerParams of(const SramParams& p, std::uint32_t burst_bytes);
};

/// Times (spec 1.4). Flit j of a message goes to channel (address_j >> log2 burst) & (channels - 1), occupies it
/// from max(arrival_j, channel_free) for bytes / channel_bw (after `switch_penalty` where the direction turns), and
/// is done `access` later.
///  - A read reserves for all of its flits when its request arrives; the flits leave over the link in order,
///    leave_j = max(done_j, leave_{j-1}) + bytes / link_bw, so that the whole train is known at BEGIN_RESP, which
///    marks the first byte.
///  - A write reserves packet by packet as they arrive; a channel is occupied for the packet's own bytes only,
///    however slowly it trickles in. BEGIN_RESP when the last flit is committed.
/// Requests that arrive together go round-robin over the end points that sent them. One SC_METHOD decides, one
/// delta after anything was appended.
class MemoryController final : public MemoryModule, private tlm::tlm_fw_transport_if<>, private TrainListener {
 public:
  MemoryController(const sc_core::sc_module_name& name, FabricContext& context, const MemoryControllerParams& params);

  bool orders_requests() const override { return true; }
  bool states_idle_times() const override { return true; }
  void idle_read(std::uint64_t bytes, FlitTrain& out) const override;
  Ps idle_write(std::uint64_t bytes, const FlitTrain& arrivals) const override;
  void append_stats(std::vector<LinkStats>& stats) const override;
  bool quiet() const override { return pieces_.empty() && accesses_.out() == 0; }

  SparseStore& store() { return store_; }

 private:
  struct Access {
    tlm::tlm_generic_payload* trans = nullptr;
    TransferExtension* ext = nullptr;
    Ps response_at = 0;
    bool write = false;
    std::uint32_t origin = 0;
    std::uint32_t flits = 0;
    std::uint32_t seen = 0;       // flits whose arrival is known
    std::uint32_t decided = 0;    // flits that have their place on a channel
    Ps committed = 0;
    std::uint64_t number = 0;
    FlitTrain own_train;                // of write data that came without one
    const FlitTrain* arrivals = nullptr;
    FlitTrain::Cursor cursor;           // flits decided
    sc_core::sc_event* done = nullptr;  // b_transport
    bool finished = false;
    std::vector<Ps> turned;             // by channel, what it took to turn for this access; empty: none did
  };
  /// What is decided at a time: a read request, or the flits of a write that have arrived together.
  struct Piece {
    Access* access = nullptr;
    Ps arrival = 0;
    std::uint64_t delta = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  struct Channel {
    Ps free = 0;
    Ps last_end = 0;            // of the flit before
    std::uint64_t last_access = 0;  // and whose it was
    bool writing = false;
    bool used = false;
    LinkCounters counters;
  };

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override;
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) override;
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override;

  /// False: refused, with the response status set.
  bool accept(tlm::tlm_generic_payload& trans) const;
  Access& open(tlm::tlm_generic_payload& trans, Ps at);
  void append_piece(Access& access, Ps arrival, std::uint32_t first, std::uint32_t count);
  /// Makes a piece of the flits whose arrival has become known.
  void take_arrivals(Access& access, bool complete);

  void decide();
  void wake_at(Ps when);
  void serve_read(Access& access, Ps arrival);
  void serve_write(const Piece& piece);
  void move_data(Access& access);
  void finish(Access& access, Ps at);
  void close(Access& access);

  /// Bytes of the last flit of a message.
  std::uint64_t last_flit(std::uint64_t bytes) const;
  FlitTimes channel_times(std::uint64_t bytes) const;
  FlitTimes link_times(std::uint64_t bytes) const;
  /// Occupies the channel of `flit` from `arrival` on and returns when the flit is done; `head` is the arrival of
  /// what it came with.
  Ps occupy(Access& access, std::uint32_t flit, Ps arrival, Ps head);

  FabricContext& context_;
  MemoryControllerParams params_;
  std::uint32_t burst_shift_ = 0;
  Ps channel_flit_ = 0, link_flit_ = 0, access_ = 0, penalty_ = 0;

  std::vector<Channel> channels_;
  Ps link_free_ = 0;
  std::vector<Piece> pieces_;        // in no order that matters
  std::vector<Access*> writes_;      // whose data is not all there
  ObjectPool<Access> accesses_;
  std::uint64_t opened_ = 0;
  std::uint32_t served_ = 0xffffffffu;  // origin of what was decided last
  ResponseGate<Access> gate_;
  SparseStore store_;
  sc_core::sc_event wake_;
  Ps wake_at_ = kNever;
};

}  // namespace kb
