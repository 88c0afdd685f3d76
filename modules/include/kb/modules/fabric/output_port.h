// The sending side of a directed link: the queues before it, the decision who goes next, the link itself.
#pragma once

#include <kb/tlm_if/packet.h>

#include <array>
#include <cstdint>
#include <vector>

namespace kb {

/// A directed link as its sender sees it.
struct LinkParams {
  std::uint32_t number = 0;  // in the platform's list of links
  double bw_gbs = 256;
  Ps prop = 0;
  Ps flit = 1000;  // time of a whole flit
};

struct LinkCounters {
  std::uint64_t bytes = 0;
  Ps busy = 0;
};

/// Own times of consecutive flits on a link: whole ones, the last one perhaps shorter.
struct FlitTimes {
  Ps whole = 0;
  Ps last = 0;
  Ps sum(std::uint32_t flits) const { return whole * static_cast<Ps>(flits - 1) + last; }
};

/// One queue per (input, virtual channel), unbounded, in order of arrival, so that nothing that waits for
/// another link stands in the way. A plain object: its node's process decides for all of its ports.
///
/// Decision (spec 1.4, 5.1): among the queue heads that have arrived and were appended before the present delta,
/// virtual channels in turn, and within a channel the smallest (arrival, round-robin position, input port).
/// Link: start = max(head, free), free' = start + sum of own flit times; flit j leaves at
/// max(arrival_j, leave_{j-1}) + its time, where leave_{-1} is `free`. So a packet that trickles in occupies the link
/// for its own bytes only. Its last flit may then leave after `free`: `free` is also not before that, for what
/// arrived in the same queue behind it.
class OutputPort {
 public:
  OutputPort(const LinkParams& link, std::uint64_t flit_bytes, std::uint32_t inputs);

  const LinkParams& link() const { return link_; }
  const LinkCounters& counters() const { return counters_; }
  bool empty() const { return first_active_ == kNone; }

  /// Appends a packet whose train holds the times at which its flits are ready to be sent.
  void push(Packet& packet, std::uint32_t input, std::uint64_t delta);

  /// When the next decision is due; kNever without packets.
  Ps next_decision() const;

  /// Decides at `now`. Returns the packet that was granted, its train as it arrives at the far end and its hop
  /// counted, or null when nothing is due. `last_left` is when its last byte has left, `start` when its first began;
  /// `scratch` is overwritten.
  Packet* grant(Ps now, std::uint64_t delta, Ps& start, Ps& last_left, FlitTrain& scratch);

  FlitTimes times(const Packet& packet) const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Queue {
    Packet* head = nullptr;
    Packet* tail = nullptr;
    Ps ready = 0;      // of the head
    Ps last_tail = 0;  // arrival of the last flit of the packet that left last
    Ps last_left = 0;  // and when that flit left
    std::uint32_t next_active = kNone;
  };

  std::vector<Queue> queues_;           // input * kVirtualChannels + channel
  std::uint32_t first_active_ = kNone;  // list of the queues that are not empty, in no order that matters
  std::array<std::uint32_t, kVirtualChannels> served_;  // input that was granted last, by channel
  std::uint32_t served_channel_ = kVirtualChannels - 1;
  Ps free_ = 0;
  std::uint64_t flit_bytes_;
  LinkParams link_;
  LinkCounters counters_;
};

}  // namespace kb
