#include <kb/modules/fabric/output_port.h>

#include <algorithm>
#include <utility>

namespace kb {

OutputPort::OutputPort(const LinkParams& link, std::uint64_t flit_bytes, std::uint32_t inputs)
    : queues_(inputs * kVirtualChannels), flit_bytes_(flit_bytes), link_(link) {
  served_.fill(inputs - 1);
}

void OutputPort::push(Packet& packet, std::uint32_t input, std::uint64_t delta) {
  const std::uint32_t number = input * kVirtualChannels + static_cast<std::uint32_t>(packet.message->vc);
  Queue& queue = queues_[number];
  packet.ready = packet.train.head();
  packet.queued_delta = delta;
  packet.next = nullptr;
  if (queue.head == nullptr) {
    queue.head = queue.tail = &packet;
    queue.ready = packet.ready;
    queue.next_active = first_active_;
    first_active_ = number;
    return;
  }
  if (packet.ready >= queue.tail->ready) {
    queue.tail->next = &packet;
    queue.tail = &packet;
    return;
  }
  // Two trains of one link overlap (the own-bytes rule lets them): the queue is in order of arrival.
  Packet** place = &queue.head;
  while ((*place)->ready <= packet.ready) place = &(*place)->next;
  packet.next = *place;
  *place = &packet;
  queue.ready = queue.head->ready;
}

Ps OutputPort::next_decision() const {
  Ps first = kNever;
  for (std::uint32_t q = first_active_; q != kNone; q = queues_[q].next_active)
    first = std::min(first, queues_[q].ready);
  return first == kNever ? kNever : std::max(first, free_);
}

FlitTimes OutputPort::times(const Packet& packet) const {
  FlitTimes t;
  t.whole = link_.flit;
  t.last = packet.last_flit_bytes == flit_bytes_ ? link_.flit : transfer_ps(packet.last_flit_bytes, link_.bw_gbs);
  return t;
}

Packet* OutputPort::grant(Ps now, std::uint64_t delta, Ps& start, Ps& last_left, FlitTrain& scratch) {
  if (free_ > now) return nullptr;
  const auto inputs = static_cast<std::uint32_t>(queues_.size() / kVirtualChannels);
  struct Candidate {
    std::uint32_t queue = kNone;
    std::uint32_t turn = 0;
    std::uint32_t* link_to = nullptr;
  };
  std::array<Candidate, kVirtualChannels> candidates;
  std::uint32_t* link_to = &first_active_;
  for (std::uint32_t q = first_active_; q != kNone; link_to = &queues_[q].next_active, q = *link_to) {
    const Queue& queue = queues_[q];
    const std::uint32_t channel = q % kVirtualChannels;
    Candidate& best = candidates[channel];
    if (queue.ready > now || (best.queue != kNone && queue.ready > queues_[best.queue].ready)) continue;
    if (queue.head->queued_delta == delta) continue;
    const std::uint32_t turn = (q / kVirtualChannels + inputs - served_[channel] - 1) % inputs;
    if (best.queue == kNone || queue.ready < queues_[best.queue].ready || turn < best.turn) best = {q, turn, link_to};
  }
  std::uint32_t channel = served_channel_;
  do channel = (channel + 1) % kVirtualChannels;
  while (candidates[channel].queue == kNone && channel != served_channel_);
  const std::uint32_t best = candidates[channel].queue;
  if (best == kNone) return nullptr;

  served_channel_ = channel;
  served_[channel] = best / kVirtualChannels;
  std::uint32_t* const link_to_best = candidates[channel].link_to;
  Queue& queue = queues_[best];
  Packet* packet = queue.head;
  queue.head = packet->next;
  packet->next = nullptr;
  if (queue.head != nullptr) {
    queue.ready = queue.head->ready;
  } else {
    queue.tail = nullptr;
    *link_to_best = queue.next_active;
  }

  const std::uint32_t flits = packet->train.flits();
  const FlitTimes t = times(*packet);
  const Ps own = t.sum(flits);
  // What came after the whole of another packet of its queue leaves after the whole of it.
  const Ps before = packet->ready >= queue.last_tail ? std::max(free_, queue.last_left) : free_;
  const Ps tail = packet->train.tail();
  start = std::max(packet->ready, before);
  packet->train.over_link(before, t.whole, t.last, link_.prop, scratch);
  std::swap(packet->train, scratch);
  free_ = start + own;
  last_left = packet->train.tail() - link_.prop;
  if (last_left >= queue.last_left) {
    queue.last_tail = tail;
    queue.last_left = last_left;
  }
  counters_.bytes += flit_bytes_ * (flits - 1) + packet->last_flit_bytes;
  counters_.busy += own;
  ++packet->hop;
  return packet;
}

}  // namespace kb
