#include <kb/modules/pe/fetch_store.h>

#include <algorithm>

namespace kb {

FetchStore::FetchStore(const sc_core::sc_module_name& name, const BoxContext& context)
    : TokenEngine(name, context, Box::fetch_store),
      tcm("tcm"),
      overhead_(ps_from_ns(context.params.fetch_store.overhead_ns)),
      ring_(64),
      registers_{0, 0} {
  tcm.bind(static_cast<ProtocolBwIf<TcmProtocol>&>(*this));
}

void FetchStore::on_token(TileToken& token, Ps at) {
  if (token.now().engine == EngineKind::store) {
    stores_new_.append(&token, at);
    if (store_.token == nullptr) wake_at(std::max(at, store_.free_at));
    return;
  }
  if (token.gated) {
    gated_new_.append(&token, at);
    wake_at(now_ps());
    return;
  }
  put(token, at, sc_core::sc_delta_count());
  // Only the step whose turn it is can be decided on now; the others wait for theirs anyway.
  if (token.ticket == next_ticket_ && fetch_.token == nullptr) wake_at(now_ps());
}

void FetchStore::on_signal(const Signal& signal, Ps at) {
  signals_.append(signal, at);
  // A register tile that nobody waits for is looked at when the present FETCH has been granted.
  if (signal.kind != Signal::Kind::registers_free || fetch_.token == nullptr) wake_at(now_ps());
}

tlm::tlm_sync_enum FetchStore::nb_transport_bw(TcmAccess& access, TcmPhase&, sc_core::sc_time& delay) {
  Port& port = access.write ? store_ : fetch_;
  port.end = after(delay);
  port.stamp = sc_core::sc_delta_count();
  port.granted = true;
  wake_at(now_ps());
  return tlm::TLM_ACCEPTED;
}

void FetchStore::put(TileToken& token, Ps arrival, std::uint64_t stamp) {
  while (token.ticket - next_ticket_ >= ring_.size()) {
    std::vector<Fed> larger(ring_.size() * 2);
    for (const Fed& f : ring_)
      if (f.token != nullptr) larger[f.token->ticket & (larger.size() - 1)] = f;
    ring_.swap(larger);
  }
  fed(token.ticket) = {&token, arrival, stamp};
}

void FetchStore::decide(Ps now, std::uint64_t delta) {
  wake_at(signals_.drain_all(now, delta, [&](const Signal& s, Ps at) { take(s, at); }), now);
  wake_at(gated_new_.drain_all(now, delta, [&](TileToken* token, Ps at) { gated_.push_back({token, at, 0}); }), now);
  if (!gated_.empty()) place_gated();
  const Ps next_store = stores_new_.drain(now, delta, [this](TileToken* token, Ps at) {
    const auto later = [&](const Storing& s) {
      return s.arrival != at ? s.arrival > at : s.token->order > token->order;
    };
    stores_.insert(std::find_if(stores_.begin(), stores_.end(), later), {token, at, false});
  });

  if (fetch_.granted && fetch_.stamp < delta) end_fetch(now);
  if (store_.granted && store_.stamp < delta) end_store(now);
  if (fetch_.granted || store_.granted) wake_at(now, now);
  start_fetch(now, delta);
  start_store(now);
  if (store_.token == nullptr) {
    if (next_store != kNever) wake_at(std::max(next_store, store_.free_at), now);
    if (!stores_.empty() && store_.free_at > now) wake_at(store_.free_at, now);
  }
}

void FetchStore::take(const Signal& signal, Ps at) {
  switch (signal.kind) {
    case Signal::Kind::registers_free: registers_.push_back(at); break;
    case Signal::Kind::staging_free: --staged_[signal.slot]; break;
    case Signal::Kind::loop_open:
      if (opened_.size() <= signal.slot) opened_.resize(signal.slot + 1);
      opened_[signal.slot] = {signal.serial, signal.ticket, at};
      break;
    default: break;
  }
}

// Steps that were fed before their loop was open carry tickets that count from the loop's first step.
void FetchStore::place_gated() {
  std::size_t kept = 0;
  for (const Fed& f : gated_) {
    const CommandContext& context = *f.token->context;
    if (context.slot < opened_.size() && opened_[context.slot].serial == context.serial) {
      const Opened& loop = opened_[context.slot];
      f.token->ticket += loop.first_ticket;
      f.token->gated = false;
      f.token->trail.push(loop.at, Cause::operands_math);
      put(*f.token, std::max(f.arrival, loop.at), 0);
    } else {
      gated_[kept++] = f;
    }
  }
  gated_.resize(kept);
}

void FetchStore::request(Port& port, TileToken& token, bool write, Ps ready, Ps start, Ps now) {
  port.token = &token;
  port.ready = ready;
  port.start = start;
  port.granted = false;
  port.access = TcmAccess{};
  port.access.write = write;
  port.access.bytes = token.work().bytes;
  port.access.order = token.order;
  port.access.token = &token;
  sc_core::sc_time delay = delay_until(start + overhead_, now);
  TcmPhase phase = TcmPhase::request;
  tcm->nb_transport_fw(port.access, phase, delay);
}

void FetchStore::start_fetch(Ps now, std::uint64_t delta) {
  if (fetch_.token != nullptr || registers_.empty()) return;
  Fed& head = fed(next_ticket_);
  if (head.token == nullptr) return;
  if (head.stamp >= delta) {
    wake_at(now, now);
    return;
  }
  TileToken& token = *head.token;
  const Ps arrived = head.arrival;
  const Ps ready = std::max(arrived, fetch_.free_at);
  const Ps start = std::max(ready, registers_.front());
  registers_.pop_front();
  head.token = nullptr;
  ++next_ticket_;
  token.trail.push(start, start > ready ? Cause::buffer : Cause::engine);
  request(fetch_, token, false, arrived, start, now);
}

Ps FetchStore::account_for(EngineKind kind, Port& port, Cause upstream) {
  TileToken& token = *port.token;
  const Ps served = port.end - port.access.service;  // before that it waited for its turn on the channel
  EngineAccount& a = account(kind);
  a.serve(port.start, port.start + overhead_, token, Cause::engine, upstream);
  a.serve(served, port.end, Cause::engine);
  token.trail.push(served, Cause::engine);
  token.trail.push(port.end, Cause::operands_fetch);
  const Ps own = overhead_ + port.access.service;
  counters().serial_ps += own;
  port.free_at = port.end;
  port.token = nullptr;
  port.granted = false;
  return own;
}

void FetchStore::end_fetch(Ps now) {
  TileToken& token = *fetch_.token;
  const Ps own = account_for(EngineKind::fetch, fetch_, Cause::buffer);
  if (records()) {
    OpRecord r = records().of(token, OpKind::memory, OpName::fetch, fetch_.ready, fetch_.start, fetch_.end);
    r.path_ps = own;
    records().emit(std::move(r));
  }
  Signal fetched;
  fetched.kind = Signal::Kind::fetched;
  fetched.slot = token.context->slot;
  fetched.last_a = token.last_a;
  fetched.last_b = token.last_b;
  raise(Box::scheduler, fetched, fetch_.end, now);
  pass_on(token, fetch_.end, now);
}

void FetchStore::start_store(Ps now) {
  if (store_.token != nullptr || store_.free_at > now) return;
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    TileToken& token = *stores_[i].token;
    const std::uint32_t slot = token.context->slot;
    const bool stages = !token.at_end();  // DMA_WRITE follows
    if (stages) {
      if (staged_.size() <= slot) staged_.resize(slot + 1, 0);
      if (staged_[slot] >= params().scheduler.tile_buffers) {
        stores_[i].waited_for_staging = true;
        continue;
      }
      ++staged_[slot];
    }
    token.trail.push(now, stores_[i].waited_for_staging ? Cause::buffer : Cause::engine);
    const Ps arrived = stores_[i].arrival;
    stores_.erase(stores_.begin() + static_cast<std::ptrdiff_t>(i));
    request(store_, token, true, arrived, now, now);
    return;
  }
}

void FetchStore::end_store(Ps now) {
  TileToken& token = *store_.token;
  const Ps own = account_for(EngineKind::store, store_, Cause::operands_gemm);
  if (records()) {
    OpRecord r = records().of(token, OpKind::memory, OpName::store, store_.ready, store_.start, store_.end);
    r.path_ps = own;
    records().emit(std::move(r));
  }
  Signal free;
  free.kind = Signal::Kind::accumulator_free;
  free.accumulator = token.accumulator;
  raise(Box::gemm, free, store_.end, now);
  pass_on(token, store_.end, now);
}

}  // namespace kb
