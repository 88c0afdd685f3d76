#include <kb/modules/pe/gemm.h>

#include <algorithm>

namespace kb {

namespace {

std::uint64_t array_steps(const std::array<std::uint32_t, 3>& shape, std::int64_t m, std::int64_t k, std::int64_t n) {
  return ceil_div<std::uint64_t>(static_cast<std::uint64_t>(m), shape[0]) *
         ceil_div<std::uint64_t>(static_cast<std::uint64_t>(k), shape[1]) *
         ceil_div<std::uint64_t>(static_cast<std::uint64_t>(n), shape[2]);
}

}  // namespace

Gemm::Gemm(const sc_core::sc_module_name& name, const BoxContext& context)
    : TokenEngine(name, context, Box::gemm), ready_(PlanParams::of(*context.env.machine).accumulators(), 0) {}

Ps Gemm::step_ps(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype) const {
  const double cycles = size_of(dtype) == 4 ? 2.0 : 1.0;
  const auto steps = static_cast<double>(array_steps(params().gemm.mac_shape, m, k, n));
  return ps_from_ns(params().gemm.overhead_ns + steps * cycles / params().clock_ghz);
}

void Gemm::on_token(TileToken& token, Ps at) {
  queue_.push_back({&token, at, sc_core::sc_delta_count()});
  wake_at(now_ps());
}

void Gemm::on_signal(const Signal& signal, Ps at) {
  free_.append(static_cast<std::uint32_t>(signal.accumulator), at);
  wake_at(now_ps());
}

// The order of the steps is fixed, so that a step is decided as soon as it is announced and its accumulator's
// time is known, even if it starts later:
//   start = max(arrival, end of the step before, accumulator)
// where the accumulator is free for its first step at the end of the STORE of the tile that had it before, and
// for the later ones at the end of the k_tile ops on it (spec 2.2).
void Gemm::decide(Ps now, std::uint64_t delta) {
  wake_at(free_.drain_all(now, delta, [this](std::uint32_t slot, Ps at) { ready_[slot] = at; }), now);
  while (!queue_.empty()) {
    Waiting& head = queue_.front();
    if (head.stamp >= delta) {
      wake_at(now, now);
      return;
    }
    TileToken& token = *head.token;
    if (token.at.m == 0 && token.at.n == 0 && token.at.k == 0) loop_base_ = next_accumulator_;
    const std::uint64_t slot = (loop_base_ + token.accumulator) % ready_.size();
    if (ready_[slot] == kNever) return;
    if (token.first_k) next_accumulator_ = loop_base_ + token.accumulator + 1;
    token.accumulator = slot;
    start(head, ready_[slot], now);
    queue_.pop_front();
  }
}

void Gemm::start(Waiting& head, Ps accumulator_free, Ps now) {
  TileToken& token = *head.token;
  const PipelinePlan& plan = token.context->plan;
  const std::array<std::int64_t, 3> size{plan.size_m(token.at.m), plan.size_k(token.at.k), plan.size_n(token.at.n)};
  const DType dtype = plan.gemm().operands[0].handle.dtype;
  if (size != size_ || dtype != size_dtype_) {
    size_ = size;
    size_dtype_ = dtype;
    size_ps_ = step_ps(size[0], size[1], size[2], dtype);
    const auto& shape = params().gemm.mac_shape;
    size_slots_ = array_steps(shape, size[0], size[1], size[2]) * shape[0] * shape[1] * shape[2];
  }

  const Ps ready = std::max(head.arrival, free_at_);
  const Ps begin = std::max(ready, accumulator_free);
  const Ps end = begin + size_ps_;
  free_at_ = end;
  ready_[token.accumulator] = token.last_k || plan.has_k_tile_ops() ? kNever : end;

  token.trail.push(begin, begin > ready ? Cause::buffer : Cause::engine);
  account(EngineKind::gemm).serve(begin, end, token, Cause::engine);
  token.trail.push(end, Cause::operands_gemm);
  counters().macs_useful += static_cast<std::uint64_t>(size[0] * size[1] * size[2]);
  counters().macs_padded += size_slots_;
  counters().gemm_ps += size_ps_;
  counters().serial_ps += size_ps_;
  if (records()) records().emit(records().of(token, OpKind::gemm, OpName::gemm, head.arrival, begin, end));

  Signal registers_free;
  registers_free.kind = Signal::Kind::registers_free;
  raise(Box::fetch_store, registers_free, end, now);
  pass_on(token, end, now);
}

}  // namespace kb
