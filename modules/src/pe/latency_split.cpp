#include <kb/modules/pe/latency_split.h>

#include <algorithm>

namespace kb {

void LatencySplitter::open(Ps start) {
  *this = LatencySplitter{};
  until_ = start;
}

void LatencySplitter::busy(LatencyPart part, Ps from, Ps to) {
  if (to <= from) return;
  change(part, +1, from);
  change(part, -1, to);
}

void LatencySplitter::change(LatencyPart part, std::int32_t by, Ps at) {
  const Change c{std::max(at, until_), part, by};
  const auto later = std::find_if(pending_.rbegin(), pending_.rend(), [&](const Change& p) { return p.at <= c.at; });
  pending_.insert(later.base(), c);
  advance(now_ps());
}

void LatencySplitter::advance(Ps to) {
  auto due = pending_.begin();
  for (; due != pending_.end() && due->at <= to; ++due) apply(*due);
  pending_.erase(pending_.begin(), due);
}

void LatencySplitter::apply(const Change& c) {
  std::size_t first = 0;
  while (first < kLatencyParts - 1 && active_[first] <= 0) ++first;  // the last part, idle, always applies
  time_[first] += c.at - until_;
  until_ = c.at;
  active_[static_cast<std::size_t>(c.part)] += c.by;
}

void LatencySplitter::enter(KernelPhase phase) {
  phase_ = phase;
  weigh_reduction();
}

void LatencySplitter::issued(CommandId id) {
  commands_.push_back({id, phase_ == KernelPhase::reduction, false});
  weigh_reduction();
}

void LatencySplitter::completed(CommandId id) {
  // Numbers are consecutive. Those before the first are of an abandoned launch.
  if (commands_.empty() || id < commands_.front().id || id > commands_.back().id) return;
  commands_[id - commands_.front().id].completed = true;
  while (!commands_.empty() && commands_.front().completed) commands_.pop_front();
  weigh_reduction();
}

// The kernel runs ahead of its commands: it may wait for a message while the PE still works on what was issued before.
// The reduction therefore counts from when the oldest unfinished command is one of it.
void LatencySplitter::weigh_reduction() {
  const bool reducing = commands_.empty() ? phase_ == KernelPhase::reduction : commands_.front().reduction;
  if (reducing == reducing_) return;
  reducing_ = reducing;
  change(LatencyPart::reduction, reducing ? +1 : -1, now_ps());
}

LatencySplit LatencySplitter::close(Ps start, Ps end) const {
  LatencySplitter rest = *this;
  rest.advance(end);
  rest.apply({std::max(end, rest.until_), LatencyPart::idle, 0});
  LatencySplit split = rest.time_;
  // A launch may be closed over a time that began before the PE was opened: nothing had happened there.
  Ps total = 0;
  for (const Ps part : split) total += part;
  split[kLatencyParts - 1] += end - start - total;
  return split;
}

}  // namespace kb
