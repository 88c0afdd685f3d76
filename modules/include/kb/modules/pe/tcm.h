// Tightly coupled memory: a read and a write channel, first come first served, for FETCH, STORE and queue slots.
// The DMA, the vector unit and the fabric use ports of their own, which never limit.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/modules/pe/tcm_port.h>

#include <array>
#include <cstdint>
#include <vector>

namespace kb {

class Tcm : public DecidingBox, protected ProtocolFwIf<TcmProtocol> {
 public:
  /// Requests of fetch_store and ipcq, bound in the order of TcmAccess::Requester; the grant goes back to the
  /// requester with the end of the access as its delay.
  ProtocolTargetSocket<TcmProtocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND> channels;

  Tcm(const sc_core::sc_module_name& name, const BoxContext& context);

  /// The memory's side of the fabric.
  TcmPort& port() { return port_; }

  /// Time of an access on its channel (spec 2.1): bytes / bandwidth of that direction, from
  /// start = max(arrival, channel free).
  virtual Ps access_ps(bool write, std::uint64_t bytes) const;

 protected:
  tlm::tlm_sync_enum nb_transport_fw(TcmAccess& access, TcmPhase& phase, sc_core::sc_time& delay) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  struct Request {
    TcmAccess* access;
    Ps arrival;
  };
  struct Channel {
    Ps free_at = 0;
    std::uint64_t known_bytes = 0;  // the last size and its time: most accesses are like the one before
    Ps known_ps = 0;
  };

  TcmPort port_;
  Inbox<TcmAccess*> inbox_;
  std::vector<Request> due_;
  std::array<Channel, 2> channels_;  // read, write
};

}  // namespace kb
