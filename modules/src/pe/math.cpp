#include <kb/modules/pe/math.h>

#include <algorithm>

namespace kb {

Math::Math(const sc_core::sc_module_name& name, const BoxContext& context) : TokenEngine(name, context, Box::math) {}

Ps Math::operation_ps(std::uint64_t elements) const {
  const auto cycles = static_cast<double>(ceil_div<std::uint64_t>(elements, params().math.vector_width));
  return ps_from_ns(params().math.overhead_ns + cycles / params().clock_ghz);
}

void Math::on_token(TileToken& token, Ps at) {
  inbox_.append(&token, at);
  wake_at(std::max(at, free_at_));
}

void Math::insert(TileToken& token, Ps place, Ps from) {
  const auto later = [&](const Waiting& w) {
    return w.place != place ? w.place > place : w.token->order > token.order;
  };
  waiting_.insert(std::find_if(waiting_.begin(), waiting_.end(), later), {&token, place, from});
}

void Math::decide(Ps now, std::uint64_t delta) {
  const Ps next = inbox_.drain(now, delta, [this](TileToken* token, Ps at) { insert(*token, at, at); });
  while (free_at_ <= now) {
    const auto ready = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.from <= now; });
    if (ready == waiting_.end()) break;
    const Waiting chosen = *ready;
    waiting_.erase(ready);
    start(chosen, now);
  }
  Ps look = next;
  for (const Waiting& w : waiting_) look = std::min(look, w.from);
  if (look != kNever) wake_at(std::max(look, free_at_), now);
}

void Math::start(const Waiting& chosen, Ps now) {
  TileToken& token = *chosen.token;
  const std::uint64_t elements = token.work().elements;
  const Ps duration = operation_ps(elements);
  const Ps end = now + duration;
  free_at_ = end;
  token.trail.push(now, Cause::engine);
  account(EngineKind::math).serve(now, end, token, Cause::engine, Cause::operands_gemm);
  token.trail.push(end, Cause::operands_math);
  counters().math_elements += elements;
  counters().math_ps += duration;
  counters().serial_ps += duration;
  if (records()) records().emit(records().of(token, OpKind::math, OpName::math, chosen.from, now, end));

  // The next GEMM on this accumulator has been waiting for the last op of its k step.
  if (token.in_loop && !token.last_k && token.at_end()) {
    Signal updated;
    updated.kind = Signal::Kind::accumulator_updated;
    updated.accumulator = token.accumulator;
    raise(Box::gemm, updated, end, now);
  }
  if (pass_on(token, end, now)) insert(token, chosen.place, end);
}

}  // namespace kb
