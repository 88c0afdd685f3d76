#include <kb/modules/pe/ipcq.h>

namespace kb {

Ipcq::Ipcq(const sc_core::sc_module_name& name, const BoxContext& context)
    : TokenEngine(name, context, Box::ipcq),
      tcm("tcm"),
      arrivals("arrivals"),
      dma("dma"),
      credit_out("credit_out"),
      credit_in("credit_in") {
  tcm.bind(static_cast<ProtocolBwIf<TcmProtocol>&>(*this));
  arrivals.bind(static_cast<ProtocolFwIf<SlotProtocol>&>(*this));
  dma.bind(static_cast<ProtocolBwIf<SlotTransferProtocol>&>(*this));
  credit_in.bind(static_cast<CreditFwIf&>(*this));
}
void Ipcq::install(const std::vector<QueueEnd>&) {}
std::string Ipcq::state() const { return ""; }
void Ipcq::on_token(TileToken&, Ps) {}
tlm::tlm_sync_enum Ipcq::nb_transport_bw(TcmAccess&, TcmPhase&, sc_core::sc_time&) { return tlm::TLM_ACCEPTED; }
tlm::tlm_sync_enum Ipcq::nb_transport_fw(SlotArrival&, SlotPhase&, sc_core::sc_time&) { return tlm::TLM_ACCEPTED; }
tlm::tlm_sync_enum Ipcq::nb_transport_bw(SlotTransfer&, SlotTransferPhase&, sc_core::sc_time&) { return tlm::TLM_ACCEPTED; }
tlm::tlm_sync_enum Ipcq::nb_transport_fw(Credit&, CreditPhase&, sc_core::sc_time&) { return tlm::TLM_ACCEPTED; }
void Ipcq::decide(Ps, std::uint64_t) {}
}  // namespace kb
