// The load/store unit between TCM and register file: FETCH fills one of two register tiles, STORE rounds an
// accumulator and writes it back. FETCH takes the steps of tile loops strictly in the order in which they were fed.
#pragma once

#include <kb/modules/pe/engine.h>

#include <deque>
#include <vector>

namespace kb {

/// FETCH of a step starts at
///   max(arrival, end of the last FETCH, end of the GEMM two steps before)           (register file of two tiles)
/// and STORE at max(arrival, end of the last STORE, a free one of tile_buffers places in TCM if the tile goes on
/// to memory); both then take overhead_ns + their turn on the TCM channel + bytes / bandwidth (spec 2.1, 2.2).
class FetchStore : public TokenEngine, protected ProtocolBwIf<TcmProtocol> {
 public:
  ProtocolInitiatorSocket<TcmProtocol> tcm;

  FetchStore(const sc_core::sc_module_name& name, const BoxContext& context);

 protected:
  void on_token(TileToken& token, Ps at) override;
  void on_signal(const Signal& signal, Ps at) override;
  tlm::tlm_sync_enum nb_transport_bw(TcmAccess& access, TcmPhase& phase, sc_core::sc_time& delay) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  struct Fed {
    TileToken* token = nullptr;
    Ps arrival = 0;
    std::uint64_t stamp = 0;
  };
  struct Storing {
    TileToken* token;
    Ps arrival;
    bool waited_for_staging;
  };
  /// The loop that a slot of the scheduler's window holds was opened for FETCH.
  struct Opened {
    std::uint64_t serial = 0;
    std::uint64_t first_ticket = 0;
    Ps at = 0;
  };
  /// A TCM access under way; one per direction.
  struct Port {
    TileToken* token = nullptr;
    TcmAccess access;
    Ps ready = 0;         // arrival of the token
    Ps start = 0;
    Ps end = 0;           // set by the grant
    std::uint64_t stamp = 0;
    bool granted = false;
    Ps free_at = 0;
  };

  Fed& fed(std::uint64_t ticket) { return ring_[ticket & (ring_.size() - 1)]; }
  void put(TileToken& token, Ps arrival, std::uint64_t stamp);
  void take(const Signal& signal, Ps at);
  void place_gated();
  void end_fetch(Ps now);
  void end_store(Ps now);
  void start_fetch(Ps now, std::uint64_t delta);
  void start_store(Ps now);
  void request(Port& port, TileToken& token, bool write, Ps ready, Ps start, Ps now);
  /// Closes a granted access in the account and the trail; returns its uncontended time.
  Ps account_for(EngineKind kind, Port& port, Cause upstream);

  Ps overhead_;
  // FETCH
  std::vector<Fed> ring_;          // by ticket; a power of two
  std::uint64_t next_ticket_ = 0;
  Inbox<TileToken*> gated_new_;
  std::vector<Fed> gated_;         // prefetched steps whose loop is not open yet
  std::vector<Opened> opened_;     // per slot of the scheduler's window
  Inbox<Signal> signals_;
  std::deque<Ps> registers_;       // from when on a register tile is free; at most two
  Port fetch_;
  // STORE
  Inbox<TileToken*> stores_new_;
  std::vector<Storing> stores_;    // by (arrival, token order)
  std::vector<std::uint32_t> staged_;  // per slot of the scheduler's window: tiles on their way to memory
  Port store_;
};

}  // namespace kb
