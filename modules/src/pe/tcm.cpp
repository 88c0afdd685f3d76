#include <kb/modules/pe/tcm.h>

#include <algorithm>

namespace kb {

Tcm::Tcm(const sc_core::sc_module_name& name, const BoxContext& context)
    : DecidingBox(name, context, Box::tcm), channels("channels"), port_("port", context) {
  channels.bind(static_cast<ProtocolFwIf<TcmProtocol>&>(*this));
}

Ps Tcm::access_ps(bool write, std::uint64_t bytes) const {
  return transfer_ps(bytes, write ? params().tcm.write_bw_gbs : params().tcm.read_bw_gbs);
}

tlm::tlm_sync_enum Tcm::nb_transport_fw(TcmAccess& access, TcmPhase&, sc_core::sc_time& delay) {
  const Ps at = after(delay);
  inbox_.append(&access, at);
  wake_at(at);
  return tlm::TLM_ACCEPTED;
}

// First come first served: everything that has arrived goes before everything that is still to come, so that its
// end is known at once and the requester need not wait for it.
void Tcm::decide(Ps now, std::uint64_t delta) {
  due_.clear();
  const Ps next = inbox_.drain(now, delta, [this](TcmAccess* access, Ps at) { due_.push_back({access, at}); });
  std::sort(due_.begin(), due_.end(), [](const Request& x, const Request& y) {
    if (x.arrival != y.arrival) return x.arrival < y.arrival;
    if (x.access->requester != y.access->requester) return x.access->requester < y.access->requester;
    return x.access->order < y.access->order;
  });
  for (const Request& r : due_) {
    TcmAccess& access = *r.access;
    Channel& channel = channels_[access.write ? 1 : 0];
    if (access.bytes != channel.known_bytes) {
      channel.known_bytes = access.bytes;
      channel.known_ps = access_ps(access.write, access.bytes);
    }
    const Ps start = std::max(r.arrival, channel.free_at);
    const Ps end = start + channel.known_ps;
    channel.free_at = end;
    access.service = channel.known_ps;
    EngineAccount& a = account(access.write ? EngineKind::tcm_write : EngineKind::tcm_read);
    if (access.token != nullptr)
      a.serve(start, end, *access.token, Cause::engine, access.write ? Cause::operands_gemm : Cause::buffer);
    else
      a.serve(start, end, access.cause);
    (access.write ? counters().tcm_write_bytes : counters().tcm_read_bytes) += access.bytes;
    sc_core::sc_time delay = delay_until(end, now);
    TcmPhase phase = TcmPhase::grant;
    channels[static_cast<int>(access.requester)]->nb_transport_bw(access, phase, delay);
  }
  wake_at(next, now);
}

}  // namespace kb
