#include <kb/modules/control/launch_cpu.h>

#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

LaunchCpu::LaunchCpu(const sc_core::sc_module_name& name, FabricContext& context, const LaunchCpuParams& params)
    : PacketNode(name, context, params.node), params_(params) {}

void LaunchCpu::receive(Packet& packet, std::uint32_t) {
  const Message& m = *packet.message;
  if (m.kind != Message::Kind::launch || m.route->to != number())
    throw ModelError(title() + ": found a message that is no launch; allowed: launches and their completions");
  const Ps at = packet.train.head() + m.route->end_overhead;
  LaunchMessage& launch = *m.launch;
  const auto it = std::find_if(launches_.begin(), launches_.end(), [&](const Launch& l) { return l.message == &launch; });
  if (it == launches_.end()) {
    hand_on(launch, *m.route, at);
  } else {
    it->latest = std::max(it->latest, at);
    if (--it->waiting_for == 0) {
      const Launch done = *it;
      launches_.erase(it);
      send(launch, *done.up, done.latest);
    }
  }
  context_.consume(packet);
}

void LaunchCpu::hand_on(LaunchMessage& launch, const Route& route, Ps at) {
  if (params_.latest_arrival && launch.lead_sip == params_.sip) launch.start = params_.latest_arrival(launch, at);
  const std::vector<std::uint32_t> children = params_.children(launch);
  launches_.push_back({&launch, route.reverse, static_cast<std::uint32_t>(children.size()), at});
  if (children.empty()) throw ModelError(title() + ": found a launch without PEs behind this processor; allowed: at least one");
  for (const std::uint32_t child : children) {
    const Route* down = context_.directory->route(number(), child, 0);
    if (down == nullptr) throw InputError(title() + ": found a launch on PEs that no route leads to; allowed: PEs of joined SIPs");
    send(launch, *down, at);
  }
}

void LaunchCpu::send(LaunchMessage& launch, const Route& route, Ps at) {
  Message& m = context_.pool.take_message(Message::Kind::launch, route);
  m.launch = &launch;
  send_control(m, at);
}

}  // namespace kb
