#include <kb/modules/fabric/network_interface.h>

#include <kb/modules/fabric/initiator_port.h>
#include <kb/modules/fabric/memory_port.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

NetworkInterface::NetworkInterface(const sc_core::sc_module_name& name, FabricContext& context,
                                   const NetworkInterfaceParams& params)
    : PacketNode(name, context, params.node, 2), params_(params) {
  if (params.initiator) initiator_ = std::make_unique<InitiatorPort>(*this, context, "target");
  if (params.memory) memory_ = std::make_unique<MemoryPort>(*this, context, "initiator");
  if (params.control) {
    launch_ = std::make_unique<PacketInitiatorSocket>("launch");
    completion_ = std::make_unique<PacketTargetSocket>("completion");
    completion_in_.ni = this;
    completion_->bind(static_cast<PacketFwIf&>(completion_in_));
  }
  SC_HAS_PROCESS(NetworkInterface);
  SC_METHOD(service);
  sensitive << service_;
  dont_initialize();
}

NetworkInterface::~NetworkInterface() = default;

BaseTargetSocket& NetworkInterface::target_socket() {
  return initiator_->socket;
}
BaseInitiatorSocket& NetworkInterface::initiator_socket() {
  return memory_->socket;
}

const LinkCounters& NetworkInterface::counters(std::uint32_t port) const {
  return params_.memory_owns_link ? own_link_ : PacketNode::counters(port);
}

bool NetworkInterface::quiet() const {
  return PacketNode::quiet() && (!initiator_ || initiator_->quiet()) && (!memory_ || memory_->quiet());
}

std::uint64_t NetworkInterface::last_flit(std::uint64_t bytes) const {
  const std::uint64_t rest = bytes % context_.flit_bytes;
  return rest == 0 && bytes != 0 ? context_.flit_bytes : std::min(round_last_flit(rest), context_.flit_bytes);
}

void NetworkInterface::begin_data(Outgoing& out, Message::Kind kind, const Route& route, VirtualChannel vc,
                                  std::uint64_t bytes) {
  Message& m = context_.pool.take_message(kind, route);
  m.vc = vc;
  m.bytes = bytes;
  m.flit_bytes = context_.flit_bytes;
  out.message = &m;
  out.cursor = {};
  out.flits =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, ceil_div<std::uint64_t>(bytes, context_.flit_bytes)));
  out.sent = 0;
  m.packets = ceil_div(out.flits, context_.flits_per_packet);
  context_.message_injected();
  m.id = context_.injected;
}

bool NetworkInterface::send_data(Outgoing& out, const FlitTrain& train, bool complete, std::uint32_t input) {
  const std::uint32_t known = complete ? out.flits : train.flits();
  const std::uint64_t last_bytes = last_flit(out.message->bytes);
  const bool own_link = params_.memory_owns_link && input == 1;
  while (out.sent < out.flits) {
    const std::uint32_t count = std::min(context_.flits_per_packet, out.flits - out.sent);
    if (known - out.sent < count) return false;
    Packet& packet = context_.pool.take_packet(*out.message);
    packet.index = out.sent / context_.flits_per_packet;
    packet.first_flit = out.sent;
    packet.last_flit_bytes = out.sent + count == out.flits ? last_bytes : context_.flit_bytes;
    packet.train.append_from(train, out.cursor, count);
    if (out.sent == 0) out.message->injected = packet.train.head();
    if (context_.messages != nullptr && packet.last()) out.message->reached.assign(1, packet.train.tail());
    out.sent += count;
    if (!own_link) {
      forward(packet, input);
      continue;
    }
    // The train is as on the link already; only the way over it is left.
    const Hop& hop = packet.message->route->hops.front();
    const LinkParams& link = params_.node.links.front();
    const Ps last =
        packet.last_flit_bytes == context_.flit_bytes ? link.flit : transfer_ps(packet.last_flit_bytes, link.bw_gbs);
    own_link_.bytes += context_.flit_bytes * (count - 1) + packet.last_flit_bytes;
    own_link_.busy += FlitTimes{link.flit, last}.sum(count);
    if (context_.links != nullptr)
      context_.links->link_busy(link.number, packet.train.head() - (count == 1 ? last : link.flit),
                                packet.train.tail());
    packet.train.shift(hop.overhead + hop.prop);
    ++packet.hop;
    hand_over(packet, hop.out_port);
  }
  return true;
}

void NetworkInterface::over_own_link(Ps at, std::uint64_t bytes, FlitTrain& out) {
  const LinkParams& link = params_.node.links.front();
  const auto flits = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(bytes, context_.flit_bytes));
  const std::uint64_t last_bytes = last_flit(bytes);
  const FlitTimes t{link.flit, last_bytes == context_.flit_bytes ? link.flit : transfer_ps(last_bytes, link.bw_gbs)};
  FlitTrain::all_at(at, flits).over_link(own_link_free_, t.whole, t.last, 0, out);
  own_link_free_ = std::max(at, own_link_free_) + t.sum(flits);
}

void NetworkInterface::receive(Packet& packet, std::uint32_t) {
  const Route& route = *packet.message->route;
  if (packet.hop != route.hops.size() || route.to != number())
    throw ModelError(title() +
                     ": found a packet that is not at the end of its route; allowed: packets for this end "
                     "point");
  packet.train.shift(route.end_overhead);
  Message& m = *packet.message;
  if (!m.reached.empty() && packet.last() && m.kind != Message::Kind::launch) {
    m.reached.push_back(packet.train.tail());
    context_.messages->message_arrived(m);
  }
  switch (packet.message->kind) {
    case Message::Kind::read_request:
    case Message::Kind::write_data: memory_->deliver(packet); return;
    case Message::Kind::read_data:
    case Message::Kind::write_response: initiator_->deliver(packet); return;
    case Message::Kind::launch: break;
  }
  if (!launch_ || launch_->get_base_port().size() == 0)
    throw ModelError(title() + ": found a launch; allowed: only where a processor is bound");
  const bool last = context_.count_delivery(packet);
  PacketPhase phase = PacketPhase::send;
  sc_core::sc_time delay = until(packet.train.head());
  (*launch_)->nb_transport_fw(packet, phase, delay);
  if (last) context_.message_done();
}

void NetworkInterface::granted(Packet& packet, Ps last_left) {
  if (packet.message->kind == Message::Kind::write_data && packet.last())
    initiator_->departed(*packet.message, last_left);
}

tlm::tlm_sync_enum NetworkInterface::CompletionIn::nb_transport_fw(Packet& packet, PacketPhase&,
                                                                   sc_core::sc_time& delay) {
  packet.message->packets = 1;
  packet.message->delivered = 0;
  packet.hop = 0;
  packet.index = 0;
  packet.train.clear();
  packet.train.append(after(delay));
  ni->context_.message_injected();
  ni->forward(packet, 0);
  return tlm::TLM_ACCEPTED;
}

void NetworkInterface::set_component(std::uint32_t component) {
  component_ = component;
  recording_ = context_.recorder != nullptr;
}

void NetworkInterface::record(bool write, Ps start, Ps end, std::uint32_t issuer, std::uint64_t address,
                              std::uint64_t bytes) {
  if (!recording_) return;
  OpRecord o;
  o.t_start = start;
  o.t_end = end;
  o.component = component_;
  o.number = records_++;
  o.kind = OpKind::memory;
  o.name = write ? OpName::mem_write : OpName::mem_read;
  o.pe = issuer;
  o.address = address;
  o.bytes = bytes;
  o.path_ps = end - start;
  context_.recorder->emit(std::move(o));
}

void NetworkInterface::service_at(Ps when) {
  if (when >= service_at_) return;
  service_at_ = when;
  service_.notify(until(when));
}

void NetworkInterface::service() {
  context_.guarded([this] {
    service_at_ = kNever;
    const Ps now = now_ps();
    if (initiator_) initiator_->service();
    if (memory_) memory_->service(now);
  });
}

}  // namespace kb
