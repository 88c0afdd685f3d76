// What the components of one fabric share: granularity, message pools, counters, observers, the directory.
#pragma once

#include <kb/modules/params.h>
#include <kb/tlm_if/activity.h>
#include <kb/tlm_if/op_log.h>
#include <kb/tlm_if/packet.h>
#include <kb/tlm_if/payload_pool.h>

#include <cstdint>
#include <string>

namespace kb {

class MemoryPort;

/// What an address leads to.
struct FabricTarget {
  std::uint32_t node = 0;      // end point
  std::uint64_t address = 0;   // as the target there sees it
  std::uint64_t room = 0;      // bytes up to the end of its region
  std::uint32_t index = 0;     // of the PE that owns it, for the choice of a lane
};

/// Address decoding and routes, as end points ask for them. Implemented by the platform.
class FabricDirectory {
 public:
  virtual ~FabricDirectory() = default;
  /// What `address` means to the end point `from` (kAnywhere: to nobody in particular). False when nothing lies there.
  virtual bool decode(std::uint32_t from, std::uint64_t address, FabricTarget& target) const = 0;
  static constexpr std::uint32_t kAnywhere = 0xffffffffu;
  /// Null when the two are not joined.
  virtual const Route* route(std::uint32_t from, std::uint32_t to, std::uint32_t lane) = 0;
  /// The memory side of an end point; null when it has none.
  virtual MemoryPort* memory(std::uint32_t node) = 0;
  /// Takes DMI pointers back from every initiator; `first` and `last` as initiators see addresses.
  virtual void invalidate_dmi(std::uint64_t first, std::uint64_t last) = 0;
  /// The address in words, with the nearest region where it decodes to nothing.
  virtual std::string describe(std::uint64_t address) const = 0;
};

/// Watches links and memory channels (waveforms). Calls come when a grant is made, for a time not before now.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  /// `link` is the number that the link has in Fabric::link_stats().
  virtual void link_busy(std::uint32_t link, Ps from, Ps to) = 0;
};

/// Watches the messages of memory transactions (latency hop by hop).
class MessageObserver {
 public:
  virtual ~MessageObserver() = default;
  /// The last packet is at the end of its route: `reached` is complete. The response to a request carries the same
  /// `context`, which no other transaction has meanwhile.
  virtual void message_arrived(const Message& message) = 0;
};

/// Messages and packets of a fabric's own components.
class MessagePool final : public MessageOwner {
 public:
  Message& take_message(Message::Kind kind, const Route& route) {
    Message* m = messages_.take();
    *m = Message{};
    m->kind = kind;
    m->route = &route;
    m->owner = this;
    return *m;
  }
  Packet& take_packet(Message& message) {
    Packet* p = packets_.take();
    p->message = &message;
    p->index = 0;
    p->hop = 0;
    p->first_flit = 0;
    p->last_flit_bytes = 0;
    p->train.clear();
    p->next = nullptr;
    return *p;
  }
  void packet_consumed(Packet& packet) override {
    Message* m = packet.message;
    packets_.give(&packet);
    if (m->delivered == m->packets) messages_.give(m);
  }
  std::size_t messages_out() const { return messages_.out(); }
  std::size_t packets_out() const { return packets_.out(); }

 private:
  ObjectPool<Message> messages_;
  ObjectPool<Packet> packets_;
};

/// One per fabric, outlives its components.
struct FabricContext {
  FabricDirectory* directory = nullptr;
  Granularity granularity = Granularity::packet;
  std::uint64_t flit_bytes = 256;
  std::uint32_t flits_per_packet = 16;  // 1 at granularity flit
  bool dmi = false;                     // direct memory pointers may be handed out

  Activity* activity = nullptr;   // optional
  FaultSink* faults = nullptr;    // optional
  OpRecorder* recorder = nullptr; // optional
  LinkObserver* links = nullptr;  // optional
  MessageObserver* messages = nullptr; // optional

  MessagePool pool;
  PayloadPool payloads;               // of transactions that the fabric itself issues
  std::uint64_t injected = 0;         // messages
  std::uint64_t delivered = 0;
  std::uint64_t activations = 0;      // of the fabric's and the memories' processes

  void message_injected() {
    ++injected;
    if (activity != nullptr) activity->begin();
  }
  /// Counts a packet at the end of its route; true when it was its message's last. Whoever takes the packet then
  /// gives it back to the message's owner, and calls message_done() where it was the last.
  bool count_delivery(Packet& packet) {
    Message& m = *packet.message;
    const bool last = ++m.delivered == m.packets;
    if (last) ++delivered;
    return last;
  }
  void message_done() {
    if (activity != nullptr) activity->end();
  }
  /// All of the above for a packet that ends here.
  void consume(Packet& packet) {
    const bool last = count_delivery(packet);
    packet.message->owner->packet_consumed(packet);
    if (last) message_done();
  }

  /// Runs the body of a process; hands its exceptions to the platform.
  template <typename Body>
  void guarded(Body&& body) {
    ++activations;
    if (faults == nullptr) {
      body();
      return;
    }
    try {
      body();
    } catch (...) {
      faults->fault(std::current_exception());
    }
  }
};

}  // namespace kb
