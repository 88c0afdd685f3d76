// What routers, UCIe and inter-SIP hops exchange: packets of a message, in a protocol of their own.
#pragma once

#include <kb/tlm_if/flit_train.h>
#include <kb/tlm_if/protocol_if.h>
#include <kb/tlm_if/route.h>

#include <cstdint>
#include <memory>
#include <tlm>
#include <vector>

namespace kb {

struct LaunchMessage;
struct Packet;

/// Who created a message. Gets each of its packets back from the node that consumes it at the end of the
/// route, and with the last one the message itself.
class MessageOwner {
 public:
  virtual ~MessageOwner() = default;
  /// Recycles the packet (its message as well, once all packets are back). Append and recycle only.
  virtual void packet_consumed(Packet& packet) = 0;
};

/// One message: a request, a data train or a control message. Lives in the pool of the end point that
/// created it, from injection to delivery of its last packet.
struct Message {
  enum class Kind : std::uint8_t {
    read_request,    // control, forward
    read_data,       // data, back
    write_data,      // data, forward
    write_response,  // control, back
    launch,          // control: a launch or its completion
  };
  Kind kind = Kind::read_request;
  const Route* route = nullptr;
  VirtualChannel vc = VirtualChannel::compute;
  std::uint64_t bytes = 0;  // of payload; 0 for control messages
  std::uint64_t flit_bytes = 256;
  tlm::tlm_generic_payload* trans = nullptr;  // memory messages; the creator holds a reference
  LaunchMessage* launch = nullptr;            // launch messages
  MessageOwner* owner = nullptr;
  std::uint64_t id = 0;         // data messages: unique in the fabric, in no order that matters
  std::uint64_t context = 0;    // the creator's own; returned in the response
  void* sink = nullptr;         // the receiving end point's own, between the first packet and the last
  std::uint64_t address = 0;    // requests: as the target behind the far end sees it
  Ps path_ps = 0;               // responses: uncontended time of the whole transaction
  Ps turnaround_ps = 0;         // responses: what the memory's channels took to turn, on top of path_ps
  std::uint32_t packets = 0;    // in all
  std::uint32_t delivered = 0;  // packets that have reached the far end
  Ps injected = 0;              // when its head left the creator, for latency breakdowns
  /// Where somebody watches messages: when the last flit was at the source, behind each hop, and through the end point.
  std::vector<Ps> reached;

  bool is_data() const { return kind == Kind::read_data || kind == Kind::write_data; }
  /// Whether a message of `bytes` pays overhead and propagation only and queues nowhere (spec 1.4). An empty queue
  /// message does queue, as one flit of no length: it must not overtake what was sent into the same ring before it.
  static bool is_control(Kind kind, std::uint64_t bytes, VirtualChannel vc) {
    return bytes == 0 && !(kind == Kind::write_data && vc == VirtualChannel::ipcq);
  }
  bool is_control() const { return is_control(kind, bytes, vc); }
};

/// A packet: consecutive flits of one message. `train` holds the flits' arrival at the present input port
/// (the time at which the last bit of each is there); a control packet has one "flit" of no length.
struct Packet {
  Message* message = nullptr;
  std::uint32_t index = 0;            // in its message
  std::uint32_t hop = 0;              // hops of the route already taken
  std::uint32_t first_flit = 0;       // of the message
  std::uint64_t last_flit_bytes = 0;  // bytes of this packet's last flit, as links see them
  FlitTrain train;
  bool last() const;

  // While it waits at an output port: place in the queue, and from when on a decision sees it.
  Packet* next = nullptr;
  Ps ready = 0;
  std::uint64_t queued_delta = 0;
};

inline bool Packet::last() const {
  return index + 1 == message->packets;
}

/// Phase of the packet protocol: there is only one, the hand-over of a packet to the next node.
enum class PacketPhase : std::uint8_t { send };

/// Protocol traits of the packet network. nb_transport_fw(packet, send, delay) announces a packet whose head
/// arrives at now + delay; ownership passes to the callee, which answers TLM_ACCEPTED. There is no backward
/// path: router queues are unbounded.
struct PacketProtocol {
  using tlm_payload_type = Packet;
  using tlm_phase_type = PacketPhase;
};
using PacketFwIf = ProtocolFwIf<PacketProtocol>;
using PacketInitiatorSocket = OneWayInitiatorSocket<PacketProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
/// On a parent that passes the socket of a child on.
using PacketParentSocket = ProtocolInitiatorSocket<PacketProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
using PacketTargetSocket = ProtocolTargetSocket<PacketProtocol, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

/// Free list of objects that are recycled, never freed before the pool. Counts what is out.
template <typename T>
class ObjectPool {
 public:
  T* take() {
    if (free_.empty()) {
      owned_.push_back(std::make_unique<T>());
      free_.push_back(owned_.back().get());
    }
    T* t = free_.back();
    free_.pop_back();
    ++out_;
    return t;
  }
  void give(T* t) {
    free_.push_back(t);
    --out_;
  }
  std::size_t out() const { return out_; }

 private:
  std::vector<std::unique_ptr<T>> owned_;
  std::vector<T*> free_;
  std::size_t out_ = 0;
};

}  // namespace kb
