#include <kb/modules/pe/scheduler.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {

bool overlap(const std::vector<AddressRange>& x, const std::vector<AddressRange>& y) {
  for (const auto& a : x)
    for (const auto& b : y)
      if (a.overlaps(b)) return true;
  return false;
}

/// Read after write, write after read, write after write (spec 2.3).
bool conflict(const CommandRanges& earlier, const CommandRanges& later) {
  return overlap(earlier.writes, later.reads) || overlap(earlier.reads, later.writes) ||
         overlap(earlier.writes, later.writes);
}

/// The queue engine serves a direction's sends, and its recvs, in the order in which they come (spec 5.1): that must be
/// the order of issue, although a later one may have its operands first.
bool same_queue(const Command& x, const Command& y) {
  return is_queue(x.kind) && x.kind == y.kind && x.direction == y.direction;
}

}  // namespace

Scheduler::Scheduler(const sc_core::sc_module_name& name, const BoxContext& context)
    : TokenEngine(name, context, Box::scheduler),
      commands("commands"),
      overhead_(ps_from_ns(context.params.scheduler.overhead_ns)) {
  commands.bind(static_cast<ProtocolFwIf<CommandProtocol>&>(*this));
}

Scheduler::~Scheduler() = default;

void Scheduler::underway(bool begin) {
  if (env().activity == nullptr) return;
  if (begin)
    env().activity->begin();
  else
    env().activity->end();
}

tlm::tlm_sync_enum Scheduler::nb_transport_fw(CommandSlip& slip, CommandPhase&, sc_core::sc_time& delay) {
  const Ps at = after(delay);
  commands_new_.append(slip, at);
  underway(true);
  wake_at(intake_end_ == kNever ? at : std::max(at, intake_end_));
  return tlm::TLM_ACCEPTED;
}

void Scheduler::on_token(TileToken&, Ps) {
  throw ModelError(std::string(name()) + ": found a token handed to the scheduler; expected reports only");
}

// Reports only count; the last one of a phase wakes the scheduler.
void Scheduler::on_signal(const Signal& signal, Ps at) {
  Entry& e = entry(signal.slot);
  switch (signal.kind) {
    case Signal::Kind::done:
      tokens_.give(signal.token);
      e.last_end = std::max(e.last_end, at);
      if (--e.remaining == 0) {
        if (e.handed_over) underway(true);
        phases_done_.append(signal.slot, e.last_end);
        wake_at(e.last_end);
      }
      break;
    case Signal::Kind::fetched: {
      ++e.fetches_told;
      const Fetched f{signal.slot, signal.last_a, signal.last_b, at, sc_core::sc_delta_count()};
      fetched_.push_back(f);
      if (frees(f)) wake_at(at);
      break;
    }
    case Signal::Kind::handed_over:
      handed_over_.append(signal.slot, at);
      wake_at(at);
      break;
    default: break;
  }
}

// Whether the FETCH gives the blocked loop what it waits for.
bool Scheduler::frees(const Fetched& f) const {
  if (f.slot != blocked_.slot) return false;
  return (blocked_.needs_a && f.last_a) || (blocked_.needs_b && f.last_b) ||
         (blocked_.window_until != 0 && slots_[f.slot]->fetches_told >= blocked_.window_until);
}

void Scheduler::decide(Ps now, std::uint64_t delta) {
  take_fetched(now, delta);

  handed_over_.drain(now, delta, [&](std::uint32_t slot, Ps) {
    Entry& e = entry(slot);
    e.handed_over = true;
    release_followers(e);
    answer(e.id, CommandPhase::left_queue);
    if (e.remaining != 0) underway(false);  // it waits for its peer
  });

  const auto by_id = [this](std::uint32_t x, std::uint32_t y) { return entry(x).id < entry(y).id; };
  ended_.clear();
  Ps next = phases_done_.drain(now, delta, [&](std::uint32_t slot, Ps) { ended_.push_back(slot); });
  std::sort(ended_.begin(), ended_.end(), by_id);
  for (const std::uint32_t slot : ended_) phase_done(entry(slot), now);

  next = std::min(next, commands_new_.drain(now, delta, [this](const CommandSlip& slip, Ps at) {
    const auto later = [&](const Intake& i) { return i.slip.id > slip.id; };
    intake_.insert(std::find_if(intake_.begin(), intake_.end(), later), {slip, at});
  }));
  take_commands(now);

  std::sort(unblocked_.begin(), unblocked_.end(), by_id);
  for (const std::uint32_t slot : unblocked_) unblock(entry(slot), now);
  unblocked_.clear();

  feed_loops(now);

  if (next != kNever) wake_at(next, now);
  if (intake_end_ != kNever) wake_at(intake_end_, now);
  if (!handed_over_.empty()) wake_at(now, now);
  for (const Fetched& f : fetched_)
    if (frees(f)) wake_at(std::max(f.at, now), now);
}

void Scheduler::take_fetched(Ps now, std::uint64_t delta) {
  std::size_t kept = 0;
  for (const Fetched& f : fetched_) {
    if (f.stamp < delta && f.at <= now) {
      Entry& e = entry(f.slot);
      ++e.fetched;
      e.held_a -= f.last_a ? 1 : 0;
      e.held_b -= f.last_b ? 1 : 0;
    } else {
      fetched_[kept++] = f;
    }
  }
  fetched_.resize(kept);
}

void Scheduler::take_commands(Ps now) {
  while (true) {
    if (intake_end_ != kNever) {
      if (intake_end_ > now) return;
      const CommandSlip slip = intake_.front().slip;
      intake_.pop_front();
      intake_end_ = kNever;
      accept(slip, intake_start_, now);
    }
    if (intake_.empty()) return;
    intake_start_ = now;
    intake_end_ = now + overhead_;
    account(EngineKind::scheduler).serve(intake_start_, intake_end_, Cause::dispatch);
    counters().serial_ps += overhead_;
  }
}

void Scheduler::accept(const CommandSlip& slip, Ps start, Ps now) {
  PipelinePlan plan(slip.command, PlanParams::of(*env().machine));
  const PlanSummary summary = plan.summary();
  counters().must_read_bytes += summary.must_read_bytes;
  counters().must_write_bytes += summary.must_write_bytes;
  if (records()) {
    // A send can take its value in the picosecond of its acceptance: of equal kind, the scheduler's record is first.
    OpRecord r = records().blank(is_queue(slip.command->kind) ? OpKind::ipcq : OpKind::control, OpName::command, start, now);
    r.t_ready = slip.ready;
    r.command = slip.command;
    r.block_m = plan.has_loop() ? plan.block().mb : 0;
    r.block_n = plan.has_loop() ? plan.block().nb : 0;
    r.m_outer = plan.block().m_outer;
    r.plan_bytes = summary.moved_bytes();
    r.path_ps = overhead_;
    records().emit(std::move(r));
  }

  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.push_back(std::make_unique<Entry>());
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Entry& e = entry(slot);
  e = Entry{};
  e.id = slip.id;
  e.ranges = ranges_of(*slip.command);
  e.accepted = now;
  e.context = std::make_unique<CommandContext>(std::move(plan));
  e.context->slot = slot;
  e.context->serial = next_serial_++;
  e.context->trail.push(slip.ready, Cause::dispatch);
  e.context->trail.push(now, Cause::command_queue);
  const PipelinePlan& p = e.context->plan;
  if (p.has_loop()) {
    for (const auto& o : p.gemm().operands)
      if ((o.name == "a" && p.streams(TileRole::a)) || (o.name == "b" && p.streams(TileRole::b)))
        e.streamed.push_back(range_of(o.handle));
  }

  for (const std::uint32_t other : active_) {
    Entry& earlier = entry(other);
    if (!earlier.handed_over && same_queue(earlier.context->plan.command(), *slip.command)) {
      earlier.followers.push_back(slot);
      ++e.waits_for;
    }
    if (!conflict(earlier.ranges, e.ranges)) continue;
    const bool streams = overlap(earlier.ranges.writes, e.streamed);
    earlier.dependents.push_back({slot, streams});
    ++e.waits_for;
    e.stream_waits_for += streams ? 1 : 0;
  }
  active_.push_back(slot);
  if (e.waits_for == 0)
    unblocked_.push_back(slot);
  else
    underway(false);
}

void Scheduler::unblock(Entry& e, Ps now) {
  e.context->trail.push(now, Cause::hazard);
  const PipelinePlan& plan = e.context->plan;
  if (!plan.prologue().stages.empty()) {
    feed_chain(e, plan.prologue(), Phase::prologue, now);
  } else {
    e.phase = Phase::waiting_loop;
  }
}

void Scheduler::feed_chain(Entry& e, const TilePlan& chain, Phase phase, Ps now) {
  e.phase = phase;
  e.remaining = 1;
  e.last_end = now;
  TileToken& token = *tokens_.take();
  token = TileToken{};
  token.context = e.context.get();
  token.tile = &chain;
  token.order = next_order_++;
  send(token, now, now);
}

void Scheduler::phase_done(Entry& e, Ps now) {
  const PipelinePlan& plan = e.context->plan;
  if (e.phase == Phase::prologue && plan.has_loop()) {
    e.context->trail.push(now, Cause::operands_math);
    e.phase = Phase::waiting_loop;
    return;
  }
  if (e.phase == Phase::loop && !plan.epilogue().stages.empty()) {
    e.context->trail.push(now, Cause::operands_gemm);
    feed_chain(e, plan.epilogue(), Phase::epilogue, now);
    return;
  }
  complete(e, now);
}

void Scheduler::prepare_loop(Entry& e) {
  const PipelinePlan& plan = e.context->plan;
  const Block& block = plan.block();
  e.cursor.emplace(plan);
  // Never tighter than the tile buffers: those reach at most tile_buffers rows or columns of the block ahead.
  const std::uint64_t reach = std::uint64_t{params().scheduler.tile_buffers} * std::max(block.mb, block.nb);
  e.window = std::max<std::uint64_t>(16, reach + std::uint64_t{block.mb} * block.nb);
}

void Scheduler::open_loop(Entry& e, Ps now) {
  if (!e.cursor) prepare_loop(e);
  e.phase = Phase::loop;
  e.open = true;
  e.remaining = e.context->plan.summary().tile_steps;
  e.last_end = now;
  e.first_ticket = next_ticket_;
  next_ticket_ += e.fed;
  if (e.fed == 0) return;
  Signal open;
  open.kind = Signal::Kind::loop_open;
  open.slot = e.context->slot;
  open.serial = e.context->serial;
  open.ticket = e.first_ticket;
  raise(Box::fetch_store, open, now, now);
  raise(Box::dma, open, now, now);
}

void Scheduler::feed_loops(Ps now) {
  blocked_ = FeedBlock{};
  while (true) {
    if (feeding_ == kNone) {
      const auto open = std::find_if(active_.begin(), active_.end(), [this](std::uint32_t slot) {
        return entry(slot).phase == Phase::waiting_loop;
      });
      if (open == active_.end()) break;
      feeding_ = *open;
      open_loop(entry(feeding_), now);
    }
    if (!feed(entry(feeding_), now)) return;
    feeding_ = kNone;
  }
  if (!params().scheduler.prefetch_across_prologue) return;
  const auto closed = std::find_if(active_.begin(), active_.end(), [this](std::uint32_t slot) {
    const Entry& e = entry(slot);
    return e.context->plan.has_loop() && !e.open;
  });
  if (closed == active_.end()) return;
  Entry& e = entry(*closed);
  if (e.stream_waits_for != 0 || e.streamed.empty()) return;
  if (!e.cursor) prepare_loop(e);
  feed(e, now);
}

// Feeds steps until a buffer is missing or the loop is through (true).
bool Scheduler::feed(Entry& e, Ps now) {
  const std::uint32_t buffers = params().scheduler.tile_buffers;
  while (!e.cursor->done()) {
    const TileStep& step = e.cursor->step();
    const bool lacks_a = step.reads_a && e.held_a >= buffers;
    const bool lacks_b = step.reads_b && e.held_b >= buffers;
    const bool lacks_window = e.fed - e.fetched >= e.window;
    if (lacks_a || lacks_b || lacks_window) {
      blocked_ = {e.context->slot, lacks_a, lacks_b, lacks_window ? e.fed - e.window / 2 : 0};
      return false;
    }
    TileToken& token = *tokens_.take();
    token.context = e.context.get();
    token.tile = step.tile;
    token.stage = 0;
    token.in_loop = true;
    token.gated = !e.open;
    token.last_a = step.last_a;
    token.last_b = step.last_b;
    token.first_k = step.first_k;
    token.last_k = step.last_k;
    token.accumulator = e.accumulators + step.block_index;
    token.at = step.at;
    token.order = next_order_++;
    token.ticket = e.first_ticket + e.fed;
    token.trail.clear();
    token.trail.push(now, e.fed == 0 ? Cause::engine : Cause::buffer);
    ++e.fed;
    if (e.open) ++next_ticket_;
    e.held_a += step.reads_a ? 1 : 0;
    e.held_b += step.reads_b ? 1 : 0;
    const bool block_ends = step.last_k && step.block_index + 1 == step.block_tiles;
    if (block_ends) e.accumulators += step.block_tiles;
    e.cursor->advance();
    send(token, now, now);
  }
  return true;
}

void Scheduler::complete(Entry& e, Ps now) {
  const std::uint32_t slot = e.context->slot;
  if (records()) {
    OpRecord r = records().blank(OpKind::control, OpName::command_done, e.accepted, now);
    r.command = e.context->plan.command_ptr();
    records().emit(std::move(r));
  }
  counters().split.completed(e.id);
  answer(e.id, CommandPhase::completed);
  for (const Dependent& d : e.dependents) {
    Entry& later = entry(d.slot);
    later.stream_waits_for -= d.streams ? 1 : 0;
    release(later, d.slot);
  }
  release_followers(e);
  active_.erase(std::find(active_.begin(), active_.end(), slot));
  e.context.reset();
  free_slots_.push_back(slot);
  underway(false);
}

void Scheduler::release(Entry& waiting, std::uint32_t slot) {
  if (--waiting.waits_for != 0) return;
  unblocked_.push_back(slot);
  underway(true);
}

void Scheduler::release_followers(Entry& e) {
  for (const std::uint32_t slot : e.followers) release(entry(slot), slot);
  e.followers.clear();
}

void Scheduler::answer(CommandId id, CommandPhase phase) {
  CommandSlip slip;
  slip.id = id;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  commands->nb_transport_bw(slip, phase, delay);
}

std::string Scheduler::unfinished() const {
  std::string text;
  for (const std::uint32_t slot : active_) {
    const Entry& e = *slots_[slot];
    static constexpr const char* kPhases[] = {"blocked by an earlier command", "in its prologue",
                                              "waiting for its turn", "in its tile loop", "in its epilogue"};
    const bool queue = e.handed_over;
    text += (text.empty() ? "" : ", ") + std::string(name_of(e.context->plan.command().kind)) + " " +
            std::to_string(e.id) + " " + (queue ? "at the queue engine" : kPhases[static_cast<int>(e.phase)]);
  }
  return text;
}

}  // namespace kb
