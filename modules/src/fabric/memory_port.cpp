#include <kb/modules/fabric/memory_port.h>

#include <kb/modules/memory/memory_module.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

MemoryPort::MemoryPort(NetworkInterface& ni, FabricContext& context, const char* name)
    : socket(name), ni_(ni), context_(context), known_(16) {
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
}

// ---- requests -----------------------------------------------------------------------------------------------

MemoryPort::Request& MemoryPort::open(const Packet& packet) {
  const Message& m = *packet.message;
  Request& r = *requests_.take();
  r.reset();
  r.trans = m.trans;
  r.theirs = m.trans->get_extension<TransferExtension>();
  r.their_address = m.trans->get_address();
  r.their_data = m.trans->get_data_ptr();
  r.forth = m.route;
  r.context = m.context;
  r.address = m.address;
  r.bytes = m.trans->get_data_length();
  r.write = m.trans->is_write();
  r.number = ++arrived_;
  r.begun = false;
  r.answered = false;
  r.vc = m.vc;
  r.lane = m.route->lane;
  r.origin = m.route->from;
  if (r.theirs != nullptr) {
    r.issuer = r.theirs->issuer;
    r.serial = r.theirs->serial;
    r.timing_only = r.theirs->timing_only;
  }
  active_.push_back(&r);
  return r;
}

void MemoryPort::deliver(Packet& packet) {
  Message& m = *packet.message;
  Request* r = nullptr;
  if (packet.index != 0) {
    r = static_cast<Request*>(m.sink);
    FlitTrain::Cursor all;
    r->train.append_from(packet.train, all, packet.train.flits());
    r->complete = packet.last();
    context_.consume(packet);
    if (!r->begun) return;
    if (r->listener != nullptr) r->listener->train_extended(*r->trans, *r);
    respond_write(*r);
    return;
  }
  r = &open(packet);
  m.sink = r;
  r->due = packet.train.head();
  if (m.bytes != 0) {
    FlitTrain::Cursor all;
    r->train.append_from(packet.train, all, packet.train.flits());
    const Hop& hop = m.route->hops.back();
    const bool only = packet.train.flits() == 1 && packet.last_flit_bytes != context_.flit_bytes;
    r->due -= only ? transfer_ps(packet.last_flit_bytes, hop.bw_gbs) : hop.flit;
  }
  r->complete = r->write && packet.last();
  context_.consume(packet);
  if (ni_.params().module != nullptr && ni_.params().module->orders_requests()) {
    begin(*r, r->due);
    return;
  }
  r->delta = sc_core::sc_delta_count();
  waiting_.push_back(r);
  ni_.service_at(r->due);
}

void MemoryPort::service(Ps now) {
  const std::uint64_t delta = sc_core::sc_delta_count();
  while (in_request_phase_ == nullptr && request_free_ <= now) {
    std::size_t best = waiting_.size();
    std::uint32_t best_turn = 0;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const Request& r = *waiting_[i];
      if (r.due > now || r.delta == delta) continue;
      const std::uint32_t turn = r.origin - served_ - 1;
      if (best == waiting_.size() || r.due < waiting_[best]->due ||
          (r.due == waiting_[best]->due &&
           (turn < best_turn || (turn == best_turn && r.number < waiting_[best]->number)))) {
        best = i;
        best_turn = turn;
      }
    }
    if (best == waiting_.size()) break;
    Request& r = *waiting_[best];
    waiting_[best] = waiting_.back();
    waiting_.pop_back();
    served_ = r.origin;
    begin(r, std::max(r.due, now_ps()));
  }
  if (in_request_phase_ != nullptr) return;  // END_REQ comes back here
  Ps next = kNever;
  for (const Request* r : waiting_) next = std::min(next, r->due);
  if (next != kNever) ni_.service_at(std::max(next, request_free_));
}

void MemoryPort::begin(Request& r, Ps at) {
  const bool ours = ni_.params().memory_is_ours;
  tlm::tlm_generic_payload& trans = *r.trans;
  r.begun = true;
  r.begun_at = at;
  trans.set_address(r.address);
  trans.set_extension<TransferExtension>(&r);
  if (!r.write) r.listener = this;
  if (!ours && r.timing_only && r.bytes != 0) {
    // A foreign memory moves bytes: give it the ones that it has, or a place to put them.
    r.scratch.assign(r.bytes, 0);
    trans.set_data_ptr(r.scratch.data());
    if (r.write) {
      tlm::tlm_generic_payload probe;
      probe.set_command(tlm::TLM_READ_COMMAND);
      probe.set_address(r.address);
      probe.set_data_ptr(r.scratch.data());
      probe.set_data_length(static_cast<unsigned>(r.bytes));
      probe.set_streaming_width(static_cast<unsigned>(r.bytes));
      socket->transport_dbg(probe);
    }
  }
  // A foreign target shows that it follows trains by setting the listener, which it does for open trains only.
  const bool complete = r.complete;
  if (!ours && r.write) r.complete = false;

  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = until(at);
  in_request_phase_ = &trans;
  const auto answer = socket->nb_transport_fw(trans, phase, delay);
  const bool still_open = find(trans) == &r;
  if (!still_open) return;  // answered and closed from within the call
  if (!ours && r.write) r.complete = complete;
  if (answer != tlm::TLM_ACCEPTED && in_request_phase_ == &trans) {
    in_request_phase_ = nullptr;
    request_free_ = after(delay);
  }
  if (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::BEGIN_RESP)) {
    const Ps response = after(delay);
    if (answer == tlm::TLM_UPDATED) {
      phase = tlm::END_RESP;
      socket->nb_transport_fw(trans, phase, delay);
    }
    answered(r, response);
    if (find(trans) != &r) return;
  }
  if (r.write) {
    if (!ours && r.complete && r.listener != nullptr && !r.answered) r.listener->train_extended(trans, r);
    if (find(trans) == &r) respond_write(r);
  }
}

// ---- answers ------------------------------------------------------------------------------------------------

MemoryPort::Request* MemoryPort::find(const tlm::tlm_generic_payload& trans) {
  for (Request* r : active_)
    if (r->trans == &trans) return r;
  return nullptr;
}

tlm::tlm_sync_enum MemoryPort::nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                               sc_core::sc_time& delay) {
  const auto refuse = [&](const char* found) {
    throw ModelError(ni_.title() + ": found " + found +
                     " from the target behind it; allowed: END_REQ and BEGIN_RESP, "
                     "once each and in this order, of a transaction that was begun, and ignorable phases");
  };
  if (phase == tlm::UNINITIALIZED_PHASE || phase == tlm::BEGIN_REQ || phase == tlm::END_RESP) refuse(phase.get_name());
  if (phase != tlm::END_REQ && phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;  // an ignorable phase
  const Ps at = after(delay);
  Request* r = find(trans);
  const bool ends_request = in_request_phase_ == &trans;
  if (r == nullptr || r->answered || (phase == tlm::END_REQ && !ends_request))
    refuse(phase == tlm::END_REQ ? "a second END_REQ" : "a second BEGIN_RESP");
  if (ends_request) {
    in_request_phase_ = nullptr;
    request_free_ = at;
    if (!waiting_.empty()) ni_.service_at(at);
  }
  if (phase == tlm::END_REQ) return tlm::TLM_ACCEPTED;
  answered(*r, at);
  phase = tlm::END_RESP;
  return tlm::TLM_COMPLETED;
}

void MemoryPort::answered(Request& r, Ps at) {
  r.answered = true;
  r.answer_at = at;
  tlm::tlm_generic_payload& trans = *r.trans;
  trans.set_address(r.their_address);
  trans.set_data_ptr(r.their_data);
  trans.set_extension<TransferExtension>(r.theirs);
  if (r.write) {
    respond_write(r);
    return;
  }
  const Route& back = *r.forth->reverse;
  if (!trans.is_response_ok() || r.bytes == 0) {
    Message& m = context_.pool.take_message(Message::Kind::write_response, back);
    m.vc = r.vc;
    m.trans = &trans;
    m.context = r.context;
    m.path_ps = r.forth->control_ps() + (at - r.begun_at) + back.control_ps();
    record(r, at);
    close(r);
    ni_.send(m, at);
    return;
  }
  if (r.train.empty()) {
    if (ni_.params().memory_owns_link)
      ni_.over_own_link(at, r.bytes, r.train);
    else
      r.train.append_run(at, 0, static_cast<std::uint32_t>(ceil_div<std::uint64_t>(r.bytes, context_.flit_bytes)));
    r.complete = true;
  }
  ni_.begin_data(r.out, Message::Kind::read_data, back, r.vc, r.bytes);
  r.out.message->trans = &trans;
  r.out.message->context = r.context;
  r.out.message->path_ps = uncontended(r);
  r.out.message->turnaround_ps = r.turnaround_ps;
  send_back(r);
}

void MemoryPort::train_extended(tlm::tlm_generic_payload& trans, TransferExtension&) {
  Request* r = find(trans);
  if (r != nullptr && r->answered && !r->write) send_back(*r);
}

void MemoryPort::send_back(Request& r) {
  if (!ni_.send_data(r.out, r.train, r.complete, 1)) return;
  record(r, r.train.tail());
  close(r);
}

void MemoryPort::respond_write(Request& r) {
  if (!r.answered || !r.complete) return;
  Ps at = r.answer_at;
  if (!r.train.empty()) {
    if (ni_.params().memory_is_ours || r.listener != nullptr)
      at = std::max(at, r.train.tail());
    else
      at += std::max<Ps>(0, r.train.tail() - r.begun_at);
  }
  Message& m = context_.pool.take_message(Message::Kind::write_response, *r.forth->reverse);
  m.vc = r.vc;
  m.trans = r.trans;
  m.context = r.context;
  r.answer_at = at;
  m.path_ps = uncontended(r);
  m.turnaround_ps = r.turnaround_ps;
  record(r, at);
  close(r);
  ni_.send(m, at);
}

void MemoryPort::close(Request& r) {
  active_.erase(std::find(active_.begin(), active_.end(), &r));
  requests_.give(&r);
}

void MemoryPort::record(const Request& r, Ps end) {
  ni_.record(r.write, r.due, end, r.issuer, r.address, r.bytes);
}

// ---- uncontended times --------------------------------------------------------------------------------------

Ps MemoryPort::uncontended(const Request& r) {
  if (ni_.params().module == nullptr || !ni_.params().module->states_idle_times()) {
    const Ps from = r.write ? (r.train.empty() ? r.due : r.train.tail()) : r.begun_at;
    return compute_uncontended(r, std::max<Ps>(0, r.answer_at - from));
  }
  const std::size_t slot = (reinterpret_cast<std::uintptr_t>(r.forth) / 64 + r.bytes / 32 + (r.write ? 7 : 0)) %
                           known_.size();  // an address picks a cache entry, never a result
  Known& k = known_[slot];
  if (k.forth != r.forth || k.bytes != r.bytes || k.write != r.write) {
    k.forth = r.forth;
    k.bytes = r.bytes;
    k.write = r.write;
    k.path = compute_uncontended(r, 0);
  }
  return k.path;
}

Ps MemoryPort::compute_uncontended(const Request& r, Ps service) {
  const MemoryModule* module = ni_.params().module;
  if (module != nullptr && !module->states_idle_times()) module = nullptr;
  const Route& forth = *r.forth;
  const Route& back = *forth.reverse;
  if (r.bytes == 0) return forth.control_ps() + service + back.control_ps();
  const auto flits = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(r.bytes, context_.flit_bytes));
  const std::uint64_t last_bytes = ni_.last_flit(r.bytes);
  const auto travel = [&](const Route& route, std::size_t first_hop) {
    for (std::size_t i = first_hop; i < route.hops.size(); ++i) {
      const Hop& hop = route.hops[i];
      scratch_.shift(hop.overhead);
      const Ps last = last_bytes == context_.flit_bytes ? hop.flit : transfer_ps(last_bytes, hop.bw_gbs);
      scratch_.over_link(0, hop.flit, last, hop.prop, scratch2_);
      std::swap(scratch_, scratch2_);
    }
    scratch_.shift(route.end_overhead);
  };
  scratch_.clear();
  if (r.write) {
    scratch_.append_run(0, 0, flits);
    travel(forth, 0);
    const Ps committed = module != nullptr ? module->idle_write(r.bytes, scratch_) : scratch_.tail() + service;
    return committed + back.control_ps();
  }
  if (module != nullptr) {
    module->idle_read(r.bytes, scratch_);
    const Hop& own = back.hops.front();
    scratch_.shift(own.overhead + own.prop);
    travel(back, 1);
  } else {
    scratch_.append_run(service, 0, flits);
    travel(back, 0);
  }
  return forth.control_ps() + scratch_.tail();
}

// ---- untimed ------------------------------------------------------------------------------------------------

unsigned MemoryPort::debug(tlm::tlm_generic_payload& trans, std::uint64_t address) {
  if (!bound()) return 0;
  const std::uint64_t theirs = trans.get_address();
  trans.set_address(address);
  const unsigned done = socket->transport_dbg(trans);
  trans.set_address(theirs);
  return done;
}

bool MemoryPort::direct(tlm::tlm_generic_payload& trans, std::uint64_t address, tlm::tlm_dmi& dmi) {
  if (!bound()) return false;
  const std::uint64_t theirs = trans.get_address();
  trans.set_address(address);
  const bool given = socket->get_direct_mem_ptr(trans, dmi);
  trans.set_address(theirs);
  return given;
}

void MemoryPort::invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) {
  // The range is in the target's addresses; taking back more than was asked for is always allowed.
  context_.directory->invalidate_dmi(0, ~std::uint64_t{0});
}

}  // namespace kb
