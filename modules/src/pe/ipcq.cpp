#include <kb/modules/pe/ipcq.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

Ipcq::Ipcq(const sc_core::sc_module_name& name, const BoxContext& context)
    : TokenEngine(name, context, Box::ipcq),
      tcm("tcm"),
      arrivals("arrivals"),
      dma("dma"),
      credit_out("credit_out"),
      credit_in("credit_in") {
  const IpcqParams& p = params().ipcq;
  tier_ = p.buffer_kind == BufferKind::tcm ? p.tcm : p.buffer_kind == BufferKind::sram ? p.sram : p.hbm;
  tcm.bind(static_cast<ProtocolBwIf<TcmProtocol>&>(*this));
  arrivals.bind(static_cast<ProtocolFwIf<SlotProtocol>&>(*this));
  dma.bind(static_cast<ProtocolBwIf<SlotTransferProtocol>&>(*this));
  credit_in.bind(static_cast<CreditFwIf&>(*this));
}

void Ipcq::underway(bool begin) {
  if (env().activity == nullptr) return;
  if (begin)
    env().activity->begin();
  else
    env().activity->end();
}

void Ipcq::refuse(const std::string& what, const std::string& found, const std::string& allowed) const {
  throw ModelError(std::string(name()) + ": " + what + ": found " + found + "; allowed: " + allowed);
}

void Ipcq::install(const std::vector<QueueEnd>& ends) {
  outgoing_.fill(Outgoing{});
  incoming_.fill(Incoming{});
  doing_ = Doing::nothing;
  if (!ends.empty() && env().addresses != nullptr) {
    const std::uint64_t rings = std::uint64_t{kDirections} * params().ipcq.slots * params().ipcq.slot_bytes;
    const std::uint64_t window = env().addresses->geometry().queue_bytes;
    if (rings > window)
      throw InputError(std::string(name()) + ": found rings of " + std::to_string(rings) +
                       " bytes (pe.ipcq.slots, slot_bytes); allowed: the queue window of " + std::to_string(window));
  }
  const auto once = [this](bool& installed, const QueueEnd& end) {
    if (installed)
      throw InputError(std::string(name()) + ": found direction " + name_of(end.direction) + " installed twice to " +
                       (end.sends ? "send" : "receive") + "; allowed: once");
    installed = true;
  };
  for (const QueueEnd& end : ends) {
    if (end.sends) {
      once(outgoing(end.direction).installed, end);
      outgoing(end.direction).end = end;
    } else {
      once(incoming(end.direction).installed, end);
      incoming(end.direction).end = end;
    }
  }
}

std::uint64_t Ipcq::segments_of(std::uint64_t bytes) const {
  return std::max<std::uint64_t>(1, ceil_div<std::uint64_t>(bytes, params().ipcq.slot_bytes));
}

std::uint64_t Ipcq::segment_bytes(std::uint64_t bytes, std::uint64_t segment) const {
  return std::min(params().ipcq.slot_bytes, bytes - segment * params().ipcq.slot_bytes);
}

// ---- what the engine is told ----------------------------------------------------------------------------------

void Ipcq::on_token(TileToken& token, Ps at) {
  tokens_.append(&token, at);
  wake_at(at);
}

tlm::tlm_sync_enum Ipcq::nb_transport_fw(SlotArrival& slot, SlotPhase&, sc_core::sc_time& delay) {
  const Ps at = after(delay);
  arrivals_.append(slot, at);
  underway(true);
  wake_at(at);
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum Ipcq::nb_transport_fw(Credit& credit, CreditPhase&, sc_core::sc_time& delay) {
  const Ps at = after(delay);
  credits_.append(credit, at);
  underway(true);
  wake_at(at);
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum Ipcq::nb_transport_bw(SlotTransfer& transfer, SlotTransferPhase&, sc_core::sc_time& delay) {
  // The transfer is the first member of its Outbound.
  left_.append(reinterpret_cast<Outbound*>(&transfer), after(delay));
  wake_at(after(delay));
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum Ipcq::nb_transport_bw(TcmAccess& access, TcmPhase&, sc_core::sc_time& delay) {
  SlotOp& op = reinterpret_cast<SlotOp&>(access);  // the first member of its SlotOp
  // Slower slots than the channel take the rest of their time behind it.
  const Ps rest = std::max<Ps>(0, transfer_ps(access.bytes, tier_.bw_gbs) - access.service);
  const Ps behind = rest + ps_from_ns(tier_.access_ns);
  op.own = access.service + behind;
  const Ps end = after(delay) + behind;
  ops_done_.append(&op, end);
  wake_at(end);
  return tlm::TLM_ACCEPTED;
}

// ---- decisions ------------------------------------------------------------------------------------------------

void Ipcq::decide(Ps now, std::uint64_t delta) {
  account_until(now);

  taken_.clear();
  Ps next = tokens_.drain(now, delta, [this](TileToken* token, Ps at) { taken_.emplace_back(token, at); });
  std::sort(taken_.begin(), taken_.end(),
            [](const auto& x, const auto& y) { return x.first->order < y.first->order; });
  for (const auto& t : taken_) take(*t.first, t.second, now);

  std::uint32_t settled = 0;
  next = std::min(next, credits_.drain(now, delta, [&](const Credit& credit, Ps) {
    outgoing(credit.direction).tail += credit.slots;
    ++settled;
  }));
  next = std::min(next, arrivals_.drain(now, delta, [&](const SlotArrival& slot, Ps) {
    arrived(slot, now);
    ++settled;
  }));
  next = std::min(next, ops_done_.drain(now, delta, [&](SlotOp* op, Ps at) {
    end_access(*op, at, now);
    ++settled;
  }));
  next = std::min(next, left_.drain(now, delta, [&](Outbound* o, Ps) {
    --working_;
    outbounds_.give(o);
    ++settled;
  }));
  for (int d = 0; d < kDirections; ++d) {
    advance_sends(static_cast<Direction>(d), now);
    advance_receives(static_cast<Direction>(d), now);
  }
  for (; settled != 0; --settled) underway(false);
  if (next != kNever) wake_at(next, now);

  const bool worked = doing_ == Doing::working, works = working_ != 0;
  if (works && !worked) counters().split.begin(LatencyPart::transfer, now);
  if (worked && !works) counters().split.end(LatencyPart::transfer, now);
  doing_ = Doing::nothing;
  if (working_ != 0) {
    doing_ = Doing::working;
    return;
  }
  for (const Outgoing& o : outgoing_)
    if (!o.sends.empty()) doing_ = Doing::waiting_for_credit;
  for (const Incoming& i : incoming_)
    if (!i.receives.empty()) doing_ = Doing::waiting_for_data;
}

// The time since the last decision, by what the engine was doing then.
void Ipcq::account_until(Ps now) {
  EngineAccount& a = account(EngineKind::ipcq);
  switch (doing_) {
    case Doing::nothing: a.rest(now); break;
    case Doing::working: a.work(now); break;
    case Doing::waiting_for_data: a.stall(now, Cause::operands_ipcq); break;
    case Doing::waiting_for_credit: a.stall(now, Cause::credit); break;
  }
}

void Ipcq::take(TileToken& token, Ps at, Ps now) {
  const Command& c = token.context->plan.command();
  const std::string call = std::string(name_of(c.kind)) + " command " + std::to_string(c.id) + ", direction " +
                           name_of(c.direction);
  const bool sends = c.kind == CommandKind::ipcq_send;
  const TensorHandle* src = c.ops[0].operand("src");
  if (sends && src == nullptr) refuse(call, "no operand 'src'", "the tensor to send");
  if (!sends && !c.ops[0].has_out) refuse(call, "no out", "a tensor to receive into");
  if (sends ? !outgoing(c.direction).installed : !incoming(c.direction).installed)
    refuse(call, "a direction that is not installed in this sense", "directions installed for this launch");
  const std::uint64_t bytes = sends ? src->bytes() : c.ops[0].out.bytes();
  if (!c.split && bytes > params().ipcq.slot_bytes)
    refuse(call, std::to_string(bytes) + " bytes without split",
           "at most a slot of " + std::to_string(params().ipcq.slot_bytes));
  if (sends)
    take_send(token, now);
  else
    take_receive(token, at, now);
}

// The value is taken now, whenever its segments leave: the operand's addresses are free from here on.
void Ipcq::take_send(TileToken& token, Ps now) {
  const CommandPtr& command = token.context->plan.command_ptr();
  Outgoing& o = outgoing(command->direction);
  Send send;
  send.command = command;
  send.bytes = command->ops[0].operand("src")->bytes();
  send.segments = segments_of(send.bytes);
  ++counters().ipcq_sends;
  counters().ipcq_bytes += send.bytes;
  if (records()) {
    OpRecord r = records().of(token, OpKind::ipcq, OpName::send, now, now, now);
    r.bytes = send.bytes;
    r.message = o.messages;
    r.peer = o.end.peer;
    r.arrives = o.end.peer_direction;
    records().emit(std::move(r));
  }
  ++o.messages;
  o.sends.push_back(std::move(send));
  pass_on(token, now, now);
}

void Ipcq::take_receive(TileToken& token, Ps at, Ps now) {
  const Command& command = token.context->plan.command();
  Receive receive;
  receive.token = &token;
  receive.bytes = command.ops[0].out.bytes();
  receive.segments = segments_of(receive.bytes);
  receive.consume = command.consume;
  receive.ready = at;
  incoming(command.direction).receives.push_back(receive);
  Signal handed_over;
  handed_over.kind = Signal::Kind::handed_over;
  handed_over.slot = token.context->slot;
  raise(Box::scheduler, handed_over, now, now);
}

void Ipcq::advance_sends(Direction d, Ps now) {
  Outgoing& o = outgoing(d);
  while (!o.sends.empty() && o.head - o.tail < params().ipcq.slots) {
    Send& send = o.sends.front();
    const std::uint64_t slot = o.head % params().ipcq.slots;
    Outbound& out = *outbounds_.take();
    out.direction = d;
    out.transfer.address = o.end.peer_window +
                           (static_cast<std::uint64_t>(o.end.peer_direction) * params().ipcq.slots + slot) *
                               params().ipcq.slot_bytes;
    out.transfer.bytes = segment_bytes(send.bytes, send.next);
    out.transfer.order = orders_++;
    ++o.head;
    if (++send.next == send.segments) o.sends.pop_front();
    ++working_;
    underway(true);
    SlotTransferPhase phase = SlotTransferPhase::request;
    sc_core::sc_time delay = delay_until(now, now);
    dma->nb_transport_fw(out.transfer, phase, delay);
  }
}

// Which ring a segment belongs to follows from where in the window it was written.
void Ipcq::arrived(const SlotArrival& slot, Ps now) {
  const std::uint64_t index = slot.offset / params().ipcq.slot_bytes;
  const std::uint64_t ring = index / params().ipcq.slots;
  if (ring >= static_cast<std::uint64_t>(kDirections) || slot.offset % params().ipcq.slot_bytes != 0 ||
      slot.bytes > params().ipcq.slot_bytes)
    refuse("queue window", std::to_string(slot.bytes) + " bytes at offset " + std::to_string(slot.offset),
           "writes of one slot");
  const auto d = static_cast<Direction>(ring);
  Incoming& i = incoming(d);
  if (!i.installed || i.arrived % params().ipcq.slots != index % params().ipcq.slots ||
      i.arrived - i.tail >= params().ipcq.slots)
    refuse(std::string("direction ") + name_of(d),
           "a write to slot " + std::to_string(index % params().ipcq.slots) + " with " + std::to_string(i.arrived) +
               " segments come and " + std::to_string(i.tail) + " read",
           "writes of the installed peer, slot after slot, into free slots");
  ++i.arrived;
  i.sizes.push_back(slot.bytes);
  start_access(d, true, true, slot.bytes, now);
}

void Ipcq::start_access(Direction d, bool write, bool charged, std::uint64_t bytes, Ps now) {
  SlotOp& op = *ops_.take();
  op = SlotOp{};
  op.direction = d;
  op.begin = now;
  op.access.requester = TcmAccess::Requester::ipcq;
  op.access.write = write;
  op.access.bytes = bytes;
  op.access.order = orders_++;
  ++working_;
  underway(true);
  if (!charged) {
    ops_done_.append(&op, now);
    wake_at(now, now);
    return;
  }
  if (params().ipcq.buffer_kind == BufferKind::tcm) {
    TcmPhase phase = TcmPhase::request;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    tcm->nb_transport_fw(op.access, phase, delay);
    return;
  }
  const Ps access = ps_from_ns(tier_.access_ns);
  const Ps transfer = transfer_ps(bytes, tier_.bw_gbs);
  Ps& free = port_free_[write ? 1 : 0];
  free = std::max(now, free) + transfer;
  op.own = access + transfer + bank_path_;
  ops_done_.append(&op, free + access + bank_path_);
  wake_at(free + access + bank_path_, now);
}

void Ipcq::end_access(SlotOp& op, Ps at, Ps now) {
  const Direction d = op.direction;
  Incoming& i = incoming(d);
  counters().serial_ps += op.own;
  --working_;
  if (op.access.write) {
    const std::uint64_t slot = i.head % params().ipcq.slots;
    ++i.head;
    if (records()) {
      OpRecord r = records().blank(OpKind::ipcq, OpName::slot_write, op.begin, at);
      r.pe = i.end.peer;
      r.peer = env().rank;
      r.arrives = d;
      r.address = slot;
      r.bytes = op.access.bytes;
      r.path_ps = op.own;
      records().emit(std::move(r));
    }
    ops_.give(&op);
    return;
  }

  ops_.give(&op);
  const std::uint64_t slot = i.tail % params().ipcq.slots;
  i.reading = false;
  i.sizes.pop_front();
  ++i.tail;
  const Ps credited = at + i.end.credit_ps;
  counters().serial_ps += i.end.credit_ps;
  if (records()) {
    OpRecord r = records().blank(OpKind::ipcq, OpName::credit, at, credited);
    r.peer = i.end.peer;
    r.arrives = d;
    r.address = slot;
    r.bytes = params().ipcq.credit_bytes;
    r.path_ps = i.end.credit_ps;
    records().emit(std::move(r));
  }
  if (credit_out.size() != 0) {
    Credit credit;
    credit.to = i.end.peer;
    credit.direction = i.end.peer_direction;
    CreditPhase phase = CreditPhase::give;
    sc_core::sc_time delay = delay_until(credited, now);
    credit_out->nb_transport_fw(credit, phase, delay);
  }

  Receive& receive = i.receives.front();
  if (++receive.next != receive.segments) return;
  TileToken& token = *receive.token;
  ++counters().ipcq_recvs;
  token.trail.push(credited, Cause::operands_ipcq);
  if (records()) {
    OpRecord r = records().of(token, OpKind::ipcq, OpName::recv, receive.ready, receive.begun, credited);
    r.bytes = receive.bytes;
    r.message = i.messages;
    r.peer = i.end.peer;
    r.arrives = d;
    records().emit(std::move(r));
  }
  ++i.messages;
  i.receives.pop_front();
  pass_on(token, credited, now);
}

void Ipcq::advance_receives(Direction d, Ps now) {
  Incoming& i = incoming(d);
  if (i.receives.empty() || i.reading || i.head == i.tail) return;
  Receive& receive = i.receives.front();
  const std::uint64_t expected = segment_bytes(receive.bytes, receive.next);
  if (i.sizes.front() != expected)
    refuse(std::string("direction ") + name_of(d) + ", message " + std::to_string(i.messages),
           "a segment of " + std::to_string(i.sizes.front()) + " bytes from PE " + std::to_string(i.end.peer),
           std::to_string(expected) + " bytes, as the recv expects");
  if (receive.begun < 0) receive.begun = now;
  i.reading = true;
  start_access(d, false, receive.consume, expected, now);
}

std::string Ipcq::state() const {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (int d = 0; d < kDirections; ++d) {
    const Outgoing& o = outgoing_[static_cast<std::size_t>(d)];
    const Incoming& i = incoming_[static_cast<std::size_t>(d)];
    const std::string direction = name_of(static_cast<Direction>(d));
    if (o.installed)
      add(direction + " to PE " + std::to_string(o.end.peer) + ": head " + std::to_string(o.head) + ", tail " +
          std::to_string(o.tail) + ", credits " + std::to_string(params().ipcq.slots - (o.head - o.tail)) + " of " +
          std::to_string(params().ipcq.slots) + ", " + std::to_string(o.sends.size()) + " sends wait");
    if (i.installed)
      add(direction + " from PE " + std::to_string(i.end.peer) + ": head " + std::to_string(i.head) + ", tail " +
          std::to_string(i.tail) + ", " + std::to_string(i.receives.size()) + " recvs wait");
  }
  return text;
}

void Ipcq::check_empty() const {
  for (int d = 0; d < kDirections; ++d) {
    const Outgoing& o = outgoing_[static_cast<std::size_t>(d)];
    const Incoming& i = incoming_[static_cast<std::size_t>(d)];
    const std::string direction = std::string("direction ") + name_of(static_cast<Direction>(d));
    if (!o.sends.empty() || o.head != o.tail)
      refuse(direction + " to PE " + std::to_string(o.end.peer),
             std::to_string(o.sends.size()) + " sends waiting and " + std::to_string(o.head - o.tail) +
                 " segments without a credit at the end of the launch",
             "every message received");
    if (i.arrived != i.tail || !i.receives.empty())
      refuse(direction + " from PE " + std::to_string(i.end.peer),
             std::to_string(i.arrived - i.tail) + " segments not received at the end of the launch",
             "every message received");
  }
}

}  // namespace kb
