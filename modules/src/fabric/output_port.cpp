#include <kb/modules/fabric/output_port.h>

#include <algorithm>
#include <utility>

namespace kb {

OutputPort::OutputPort(const LinkParams& link, std::uint64_t flit_bytes, std::uint32_t inputs)
    : link_(link),
      flit_bytes_(flit_bytes),
      queues_(inputs * kVirtualChannels),
      served_(inputs * kVirtualChannels - 1) {
  active_.reserve(queues_.size());
}

void OutputPort::push(Packet& packet, std::uint32_t input, std::uint64_t delta) {
  const std::uint32_t number = input * kVirtualChannels + static_cast<std::uint32_t>(packet.message->vc);
  Queue& queue = queues_[number];
  packet.ready = packet.train.head();
  packet.queued_delta = delta;
  packet.next = nullptr;
  if (queue.head == nullptr) {
    queue.head = queue.tail = &packet;
    active_.push_back(number);
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
}

Ps OutputPort::next_decision() const {
  Ps first = kNever;
  for (const std::uint32_t q : active_) first = std::min(first, queues_[q].head->ready);
  return first == kNever ? kNever : std::max(first, free_);
}

FlitTimes OutputPort::times(const Packet& packet) const {
  FlitTimes t;
  t.whole = link_.flit;
  t.last = packet.last_flit_bytes == flit_bytes_ ? link_.flit : transfer_ps(packet.last_flit_bytes, link_.bw_gbs);
  return t;
}

Packet* OutputPort::grant(Ps now, std::uint64_t delta, Ps& start, Ps& last_left) {
  if (free_ > now) return nullptr;
  const auto count = static_cast<std::uint32_t>(queues_.size());
  std::size_t best = active_.size();
  Ps best_ready = kNever;
  std::uint32_t best_turn = 0;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Packet& head = *queues_[active_[i]].head;
    if (head.ready > now || head.ready > best_ready || head.queued_delta == delta) continue;
    const std::uint32_t turn = (active_[i] + count - served_ - 1) % count;
    if (head.ready < best_ready || turn < best_turn) {
      best = i;
      best_ready = head.ready;
      best_turn = turn;
    }
  }
  if (best == active_.size()) return nullptr;

  served_ = active_[best];
  Queue& queue = queues_[served_];
  Packet* packet = queue.head;
  queue.head = packet->next;
  packet->next = nullptr;
  if (queue.head == nullptr) {
    queue.tail = nullptr;
    active_[best] = active_.back();
    active_.pop_back();
  }

  const std::uint32_t flits = packet->train.flits();
  const FlitTimes t = times(*packet);
  const Ps own = t.sum(flits);
  start = std::max(packet->ready, free_);
  packet->train.over_link(std::max(free_, queue.last_left), t.whole, t.last, link_.prop, scratch_);
  std::swap(packet->train, scratch_);
  free_ = start + own;
  last_left = packet->train.tail() - link_.prop;
  queue.last_left = last_left;
  counters_.bytes += flit_bytes_ * (flits - 1) + packet->last_flit_bytes;
  counters_.busy += own;
  ++packet->hop;
  return packet;
}

}  // namespace kb
