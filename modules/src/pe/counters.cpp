#include <kb/modules/pe/counters.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

void EngineAccount::open(Ps start) {
  time_ = {};
  start_ = until_ = begun_ = start;
  open_services_ = 0;
}

void EngineAccount::explain(Ps to, const TileToken& token, Cause last, Cause upstream) {
  Ps high = to;
  const auto charge = [&](Ps from, Cause cause) {
    from = std::max(from, until_);
    if (from >= high) return;
    time_[cause] += high - from;
    high = from;
  };
  const Trail& command = token.context->trail;
  const Trail& own = token.trail;
  const Ps command_end = command.size() == 0 ? 0 : command[command.size() - 1].until;
  if (own.size() != 0) {
    charge(own[own.size() - 1].until, last);
    for (std::size_t i = own.size(); i-- > 0 && high > until_;) {
      const Cause cause = token.in_loop && own[i].cause == Cause::buffer && i == 0 ? upstream : own[i].cause;
      charge(i == 0 ? command_end : own[i - 1].until, cause);
    }
  } else {
    charge(command_end, last);
  }
  for (std::size_t i = command.size(); i-- > 0 && high > until_;)
    charge(i == 0 ? 0 : command[i - 1].until, command[i].cause);
  charge(0, Cause::dispatch);
}

void EngineAccount::busy(Ps start, Ps end) {
  start = std::max(start, until_);
  end = std::max(end, start);
  time_.busy += end - start;
  until_ = end;
}

void EngineAccount::serve(Ps start, Ps end, const TileToken& token, Cause last, Cause upstream) {
  if (start > until_) {
    explain(start, token, last, upstream);
    until_ = start;
  }
  busy(start, end);
  if (split_ != nullptr) split_->busy(part_, start, end);
}

void EngineAccount::serve(Ps start, Ps end, Cause gap) {
  stall(start, gap);
  busy(start, end);
  if (split_ != nullptr) split_->busy(part_, start, end);
}

void EngineAccount::stall(Ps until, Cause cause) {
  if (until <= until_) return;
  time_[cause] += until - until_;
  until_ = until;
}

void EngineAccount::rest(Ps until) {
  if (until <= until_) return;
  time_.idle += until - until_;
  until_ = until;
}

void EngineAccount::work(Ps until) { busy(until_, until); }

void EngineAccount::begin(Ps at, const TileToken& token, Cause last, Cause upstream) {
  if (open_services_++ != 0) return;
  serve(at, at, token, last, upstream);
  begun_ = at;
  if (split_ != nullptr) split_->begin(part_, at);
}

void EngineAccount::begin(Ps at, Cause gap) {
  if (open_services_++ != 0) return;
  stall(at, gap);
  begun_ = at;
  if (split_ != nullptr) split_->begin(part_, at);
}

void EngineAccount::finish(Ps at) {
  if (--open_services_ != 0) return;
  busy(begun_, at);
  if (split_ != nullptr) split_->end(part_, at);
}

EngineTime EngineAccount::close(Ps start, Ps end, const std::string& name) const {
  EngineTime closed = time_;
  const Ps length = end - start;
  closed.idle = length - (closed.total() - closed.idle);
  if (start != start_ || open_services_ != 0 || closed.idle < 0 || until_ - start_ != time_.total() || until_ > end)
    throw ModelError(name + ": its account does not close: found busy " + std::to_string(time_.busy) +
                     " ps, accounted " + std::to_string(time_.total()) + " ps of [" + std::to_string(start_) + ", " +
                     std::to_string(until_) + "], " + std::to_string(open_services_) +
                     " services open; expected the time of [" + std::to_string(start) + ", " + std::to_string(end) +
                     "] ps");
  return closed;
}

void PeCounters::open(Ps start) {
  const auto kept = activations;
  *this = PeCounters{};
  activations = kept;
  for (auto& a : accounts) a.open(start);
  split.open(start);
  account(EngineKind::cpu).report(split, LatencyPart::dispatch);
  account(EngineKind::gemm).report(split, LatencyPart::gemm);
  account(EngineKind::math).report(split, LatencyPart::math);
  account(EngineKind::dma_read).report(split, LatencyPart::transfer);
  account(EngineKind::dma_write).report(split, LatencyPart::transfer);
}

}  // namespace kb
