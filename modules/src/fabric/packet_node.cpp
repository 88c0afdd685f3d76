#include <kb/modules/fabric/packet_node.h>

#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

PacketNode::PacketNode(const sc_core::sc_module_name& name, FabricContext& context, const NodeParams& params,
                       std::uint32_t inputs)
    : sc_core::sc_module(name),
      context_(context),
      peers_(params.links.size(), nullptr),
      receivers_(params.links.size()),
      params_(params) {
  const auto count = static_cast<std::uint32_t>(params.links.size());
  ports_.reserve(count);
  for (std::uint32_t p = 0; p < count; ++p) {
    const std::string suffix = std::to_string(p);
    ports_.emplace_back(params.links[p], context.flit_bytes, inputs != 0 ? inputs : count);
    out_.push_back(std::make_unique<PacketInitiatorSocket>(("out" + suffix).c_str()));
    in_.push_back(std::make_unique<PacketTargetSocket>(("in" + suffix).c_str()));
    receivers_[p].node = this;
    receivers_[p].port = p;
    in_[p]->bind(static_cast<PacketFwIf&>(receivers_[p]));
  }
  SC_HAS_PROCESS(PacketNode);
  SC_METHOD(arbitrate);
  sensitive << wake_;
  dont_initialize();
}

void PacketNode::end_of_elaboration() {
  for (std::uint32_t p = 0; p < peers_.size(); ++p)
    if (out_[p]->get_base_port().size() != 0) peers_[p] = (*out_[p]).operator->();
}

bool PacketNode::quiet() const {
  return std::all_of(ports_.begin(), ports_.end(), [](const OutputPort& p) { return p.empty(); });
}

tlm::tlm_sync_enum PacketNode::InPort::nb_transport_fw(Packet& packet, PacketPhase&, sc_core::sc_time&) {
  node->receive(packet, port);
  return tlm::TLM_ACCEPTED;
}

void PacketNode::receive(Packet& packet, std::uint32_t port) {
  forward(packet, port);
}

void PacketNode::granted(Packet&, Ps) {}

void PacketNode::forward(Packet& packet, std::uint32_t input) {
  const Hop& hop = packet.message->route->hops[packet.hop];
  if (hop.node != params_.number)
    throw ModelError(params_.title + ": found a packet whose route leads through component " +
                     std::to_string(hop.node) + "; allowed: " + std::to_string(params_.number));
  packet.train.shift(hop.overhead);
  if (packet.message->is_control()) {
    packet.train.shift(hop.prop);
    ++packet.hop;
    hand_over(packet, hop.out_port);
    return;
  }
  OutputPort& port = ports_[hop.out_port];
  port.push(packet, input, sc_core::sc_delta_count());
  wake_at(port.next_decision());
}

void PacketNode::hand_over(Packet& packet, std::uint32_t port) {
  if (!packet.message->reached.empty() && packet.last()) packet.message->reached.push_back(packet.train.tail());
  PacketPhase phase = PacketPhase::send;
  sc_core::sc_time delay = until(packet.train.head());
  peers_[port]->nb_transport_fw(packet, phase, delay);
}

void PacketNode::send_control(Message& message, Ps at) {
  message.packets = 1;
  message.injected = at;
  Packet& packet = context_.pool.take_packet(message);
  packet.train.append(at);
  if (context_.messages != nullptr) message.reached.assign(1, at);
  context_.message_injected();
  forward(packet, 0);
}

void PacketNode::arbitrate() {
  context_.guarded([this] {
    wake_at_ = kNever;
    const Ps now = now_ps();
    const std::uint64_t delta = sc_core::sc_delta_count();
    Ps next = kNever;
    for (std::uint32_t p = 0; p < ports_.size(); ++p) {
      OutputPort& port = ports_[p];
      Ps start = 0;
      Ps last_left = 0;
      while (Packet* packet = port.grant(now, delta, start, last_left, scratch_)) {
        if (context_.links != nullptr)
          context_.links->link_busy(port.link().number, start, start + port.times(*packet).sum(packet->train.flits()));
        granted(*packet, last_left);
        hand_over(*packet, p);
      }
      next = std::min(next, port.next_decision());
    }
    if (next != kNever) wake_at(next);
  });
}

void PacketNode::wake_at(Ps when) {
  if (when >= wake_at_) return;
  wake_at_ = when;
  wake_.notify(until(when));
}

}  // namespace kb
