// The queue engine: control plane of the PE-to-PE queues. Rings of slots, head and tail pointers and credits per
// direction; the DMA moves the bytes.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/modules/pe/pe.h>
#include <kb/modules/pe/tcm_port.h>

namespace kb {

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

  void install(const std::vector<QueueEnd>& ends);
  /// Pointers and credits of the directions in use, for reports of deadlocks.
  std::string state() const;

 protected:
  void on_token(TileToken& token, Ps at) override;
  tlm::tlm_sync_enum nb_transport_bw(TcmAccess& access, TcmPhase& phase, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(SlotArrival& arrival, SlotPhase& phase, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_bw(SlotTransfer& transfer, SlotTransferPhase& phase,
                                     sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(Credit& credit, CreditPhase& phase, sc_core::sc_time& delay) override;
  void decide(Ps now, std::uint64_t delta) override;
};

}  // namespace kb
