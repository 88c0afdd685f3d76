// The network interface of an end point: turns base-protocol transactions into messages and back. It stands between
// the packet network and a PE, a memory, the host's pcie_ep, or foreign IP at an open end.
#pragma once

#include <kb/modules/fabric/packet_node.h>
#include <kb/modules/fabric/sockets.h>

#include <cstdint>
#include <memory>

namespace kb {

class InitiatorPort;
class MemoryPort;
class MemoryModule;

/// Where the lane of a transaction comes from (spec 1.4).
enum class LanePolicy : std::uint8_t {
  own,     // the index of the PE behind the interface
  issuer,  // the PE that the TransferExtension names, else the target's index
  target,  // the target's index
};

struct NetworkInterfaceParams {
  NodeParams node;
  bool initiator = false;          // has a target socket, for transactions that start here
  bool foreign_initiator = false;  // the user's own IP starts them: they are recorded here
  LanePolicy lane_policy = LanePolicy::target;
  std::uint32_t own_lane = 0;
  bool memory = false;                   // has an initiator socket, for transactions that end here
  bool memory_owns_link = false;         // the one link out carries read data only; the memory's trains are as on it
  bool memory_is_ours = false;           // understands TransferExtension fully
  const MemoryModule* module = nullptr;  // what it knows about its own times
  bool control = false;                  // has packet sockets for launches
};

/// Data of a message that is being sent, packet by packet, as its flits become known.
struct Outgoing {
  Message* message = nullptr;
  FlitTrain::Cursor cursor;
  std::uint32_t flits = 0;  // of the message
  std::uint32_t sent = 0;
};

class NetworkInterface : public PacketNode {
 public:
  NetworkInterface(const sc_core::sc_module_name& name, FabricContext& context, const NetworkInterfaceParams& params);
  ~NetworkInterface() override;

  /// Base protocol, from IP: present with params.initiator.
  BaseTargetSocket& target_socket();
  /// Base protocol, to IP: present with params.memory.
  BaseInitiatorSocket& initiator_socket();
  /// Launches to and completions from a processor: present with params.control.
  PacketInitiatorSocket& launch_socket() { return *launch_; }
  PacketTargetSocket& completion_socket() { return *completion_; }

  InitiatorPort* initiator() { return initiator_.get(); }
  MemoryPort* memory() { return memory_.get(); }
  const LinkCounters& counters(std::uint32_t port) const override;
  bool quiet() const override;

  /// What passes its sockets is recorded under this number.
  void set_component(std::uint32_t component);

  // For the two ports.
  const NetworkInterfaceParams& params() const { return params_; }
  /// Starts a data message of `bytes` on `route`; without bytes it is one flit of no length.
  void begin_data(Outgoing& out, Message::Kind kind, const Route& route, VirtualChannel vc, std::uint64_t bytes);
  /// Sends the packets whose flits are all in `train` (the last one when `complete`); `input` 0: from the initiator
  /// side, 1: from the memory side. True when the message is all sent.
  bool send_data(Outgoing& out, const FlitTrain& train, bool complete, std::uint32_t input);
  /// Data that is all there at `at`, over the link that the memory owns: when its flits leave.
  void over_own_link(Ps at, std::uint64_t bytes, FlitTrain& out);
  void send(Message& message, Ps at) { send_control(message, at); }
  /// Calls InitiatorPort::service and MemoryPort::service at `when`, at the earliest one delta from now.
  void service_at(Ps when);
  /// Bytes of the last flit of a message of `bytes`.
  std::uint64_t last_flit(std::uint64_t bytes) const;
  /// Records a transaction at one of the sockets, where somebody listens and the interface has a number.
  void record(bool write, Ps start, Ps end, std::uint32_t issuer, std::uint64_t address, std::uint64_t bytes);

 protected:
  void receive(Packet& packet, std::uint32_t port) override;
  void granted(Packet& packet, Ps last_left) override;

 private:
  struct CompletionIn final : PacketFwIf {
    NetworkInterface* ni = nullptr;
    tlm::tlm_sync_enum nb_transport_fw(Packet& packet, PacketPhase& phase, sc_core::sc_time& delay) override;
  };
  void service();

  NetworkInterfaceParams params_;
  std::unique_ptr<InitiatorPort> initiator_;
  std::unique_ptr<MemoryPort> memory_;
  std::unique_ptr<PacketInitiatorSocket> launch_;
  std::unique_ptr<PacketTargetSocket> completion_;
  CompletionIn completion_in_;
  LinkCounters own_link_;
  Ps own_link_free_ = 0;
  sc_core::sc_event service_;
  Ps service_at_ = kNever;
  bool recording_ = false;
  std::uint32_t component_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace kb
