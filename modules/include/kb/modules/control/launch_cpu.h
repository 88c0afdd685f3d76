// m_cpu and io_cpu: the processors that pass launches down and completions up, host -> io_cpu -> m_cpu -> PE cpu.
#pragma once

#include <kb/modules/fabric/packet_node.h>
#include <kb/tlm_if/launch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kb {

struct LaunchCpuParams {
  NodeParams node;  // end_overhead: paid by each launch and completion that it handles
  /// The end points that it hands a launch on to, those with PEs of the launch behind them, in topology order.
  std::function<std::vector<std::uint32_t>(const LaunchMessage& launch)> children;
  /// The io_cpu of the lead SIP: latest arrival at any cpu of the launch, for a launch that is ready here at
  /// `at`. Empty elsewhere.
  std::function<Ps(const LaunchMessage& launch, Ps at)> latest_arrival;
  std::uint32_t sip = 0;
};

/// A launch that arrives (its overhead paid) is handed on to every child in the same moment, a completion as soon
/// as the last child's has come. The io_cpu of the launch's lead SIP stamps the common start: the latest arrival
/// over all cpus of the launch, so that every PE starts in the same picosecond (spec 1.2, 7.2).
class LaunchCpu final : public PacketNode {
 public:
  LaunchCpu(const sc_core::sc_module_name& name, FabricContext& context, const LaunchCpuParams& params);
  bool quiet() const override { return PacketNode::quiet() && launches_.empty(); }

 protected:
  void receive(Packet& packet, std::uint32_t port) override;

 private:
  struct Launch {
    LaunchMessage* message = nullptr;
    const Route* up = nullptr;       // of the completion
    std::uint32_t waiting_for = 0;   // children
    Ps latest = 0;                   // completion so far
  };
  void send(LaunchMessage& launch, const Route& route, Ps at);
  void hand_on(LaunchMessage& launch, const Route& route, Ps at);

  LaunchCpuParams params_;
  std::vector<Launch> launches_;  // under way, few
};

}  // namespace kb
