// A component of the packet network: packets come in, wait for a link, go out. Routers, UCIe connections, the IO
// NoC, inter-SIP end points and switches are this and nothing more; end points derive from it.
#pragma once

#include <kb/modules/fabric/context.h>
#include <kb/modules/fabric/output_port.h>
#include <kb/tlm_if/packet.h>

#include <cstdint>
#include <memory>
#include <string>
#include <systemc>
#include <vector>

namespace kb {

/// What every component of the packet network is made from.
struct NodeParams {
  std::uint32_t number = 0;         // in the topology
  std::string title;                // its name in the topology, for messages
  std::vector<LinkParams> links;    // one per port, outgoing
  Ps end_overhead = 0;              // of messages that end here
};

/// One SC_METHOD decides for all output ports, one delta after anything was appended or when a link is free;
/// nothing ticks. Overheads shift the whole train (pipelined), as the route says. Control messages queue
/// nowhere: they pass on in the caller's process, with their time in the annotated delay.
class PacketNode : public sc_core::sc_module {
 public:
  PacketNode(const sc_core::sc_module_name& name, FabricContext& context, const NodeParams& params,
             std::uint32_t inputs = 0);  // 0: as many as ports

  /// Sockets of port `port`: bind out(p) to in(q) of the neighbour.
  PacketInitiatorSocket& out(std::uint32_t port) { return *out_[port]; }
  PacketTargetSocket& in(std::uint32_t port) { return *in_[port]; }
  std::uint32_t ports() const { return static_cast<std::uint32_t>(out_.size()); }

  std::uint32_t number() const { return params_.number; }
  const std::string& title() const { return params_.title; }
  virtual const LinkCounters& counters(std::uint32_t port) const { return ports_[port].counters(); }
  /// Nothing waits here.
  virtual bool quiet() const;

 protected:
  /// A packet has been handed over at port `port`; its head arrives at packet.train.head(). Passes it on; end points
  /// override it.
  virtual void receive(Packet& packet, std::uint32_t port);
  /// The packet's last byte leaves at `last_left`.
  virtual void granted(Packet& packet, Ps last_left);

  /// Sends a packet on its way from this node: control at once, data through the queue of `input`.
  void forward(Packet& packet, std::uint32_t input);
  /// Hands a packet over to the neighbour, at once.
  void hand_over(Packet& packet, std::uint32_t port);
  /// Creates the message's packet of no length at `at` and sends it.
  void send_control(Message& message, Ps at);

  FabricContext& context_;

 private:
  struct InPort final : PacketFwIf {
    PacketNode* node = nullptr;
    std::uint32_t port = 0;
    tlm::tlm_sync_enum nb_transport_fw(Packet& packet, PacketPhase& phase, sc_core::sc_time& delay) override;
  };

  void end_of_elaboration() override;
  void arbitrate();
  void wake_at(Ps when);

  std::vector<OutputPort> ports_;
  std::vector<PacketFwIf*> peers_;  // what out_ is bound to, once elaboration is done
  FlitTrain scratch_;
  std::vector<std::unique_ptr<PacketInitiatorSocket>> out_;
  std::vector<std::unique_ptr<PacketTargetSocket>> in_;
  std::vector<InPort> receivers_;
  sc_core::sc_event wake_;
  Ps wake_at_ = kNever;
  NodeParams params_;
};

}  // namespace kb
