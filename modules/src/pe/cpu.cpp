#include <kb/modules/pe/cpu.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {

/// Left free at the end of the kernel's stack for the simulation kernel's own frames.
constexpr std::uint64_t kStackReserve = 16 * 1024;

Cause cause_of(const Command& c) {
  switch (c.kind) {
    case CommandKind::dma_read:
    case CommandKind::dma_write: return Cause::operands_dma;
    case CommandKind::gemm: return Cause::operands_gemm;
    case CommandKind::math:
    case CommandKind::copy: return Cause::operands_math;
    case CommandKind::composite: return c.gemm_index() >= 0 ? Cause::operands_gemm : Cause::operands_math;
    case CommandKind::ipcq_send:
    case CommandKind::ipcq_recv: return Cause::operands_ipcq;
  }
  return Cause::operands_math;
}

CostModel cost_model_of(const CostModelParams& p) {
  CostModel m;
  m.fixed_per_composite_cycles = p.fixed_per_composite_cycles;
  m.fixed_per_single_op_cycles = p.fixed_per_single_op_cycles;
  m.cycles_per_byte = p.cycles_per_byte;
  m.max_command_bytes = p.max_command_bytes;
  return m;
}

}  // namespace

Cpu::Cpu(const sc_core::sc_module_name& name, const BoxContext& context)
    : sc_core::sc_module(name),
      commands("commands"),
      control_in("control_in"),
      control_out("control_out"),
      context_(context),
      records_(context.env, Box::cpu),
      cost_(cost_model_of(context.params.cost_model)),
      launch_event_("launch"),
      answer_event_("answer"),
      abandon_event_("abandon") {
  SC_HAS_PROCESS(Cpu);
  commands.bind(static_cast<ProtocolBwIf<CommandProtocol>&>(*this));
  control_in.bind(static_cast<PacketFwIf&>(*this));
  SC_THREAD(main);
  set_stack_size(context.params.cpu.stack_bytes);
}

tlm::tlm_sync_enum Cpu::nb_transport_fw(Packet& packet, PacketPhase&, sc_core::sc_time& delay) {
  Message& message = *packet.message;
  if (message.kind != Message::Kind::launch || message.launch == nullptr)
    throw ModelError(pe_name_ + ".cpu: found a control message that is no launch; expected launches only");
  launches_.push_back(
      {message.launch, message.route == nullptr ? nullptr : message.route->reverse, message.context, after(delay)});
  if (context_.env.activity != nullptr) context_.env.activity->begin();
  launch_event_.notify(delay);
  if (message.owner != nullptr) message.owner->packet_consumed(packet);
  return tlm::TLM_ACCEPTED;
}

void Cpu::packet_consumed(Packet& packet) {
  messages_.give(packet.message);
  packets_.give(&packet);
}

void Cpu::main() {
  const char base = 0;
  stack_base_ = &base;
  while (true) {
    while (launches_.empty()) sc_core::wait(launch_event_);
    const Launched launched = launches_.front();
    launches_.pop_front();
    running_ = true;
    try {
      run(launched);
      report(launched);
    } catch (const sc_core::sc_unwind_exception&) {
      throw;
    } catch (const Abandoned&) {
    } catch (...) {
      if (context_.env.faults == nullptr) throw;
      context_.env.faults->fault(std::current_exception());
    }
    running_ = abandoned_ = false;
    if (context_.env.activity != nullptr && !asleep_) context_.env.activity->end();
    asleep_ = false;
    blocked_ = Blocked{};
  }
}

void Cpu::run(const Launched& launched) {
  finished_ = false;
  if (unfinished_ == 0) {  // command numbers count from 1 in every launch
    issued_.clear();
    first_issued_ = 1;
    last_id_ = 0;
  }
  const Ps ready = launched.arrival + ps_from_ns(context_.params.cpu.overhead_ns);
  start_ = std::max(ready, launched.message->start);
  pause(start_ - now_ps());
  context_.counters.open(start_);
  if (records_) records_.emit(records_.blank(OpKind::control, OpName::launch, launched.arrival, start_));

  launched.message->program->run(*this);
  absorb();
  while (unfinished_ != 0) {
    const auto first = std::find_if(issued_.begin(), issued_.end(), [](const Issued& i) { return !i.completed; });
    const CommandId id = first_issued_ + static_cast<CommandId>(first - issued_.begin());
    block("end of the kernel", id, first->waits_as);
    absorb();
  }
  finish_ = now_ps();
  finished_ = true;
  if (records_) records_.emit(records_.blank(OpKind::control, OpName::launch_done, start_, finish_));
}

void Cpu::report(const Launched& launched) {
  if (control_out.size() == 0) return;
  Message& message = *messages_.take();
  message = Message{};
  message.kind = Message::Kind::launch;
  message.route = launched.back;
  message.launch = launched.message;
  message.context = launched.context;
  message.owner = this;
  message.packets = 1;
  message.injected = finish_;
  Packet& packet = *packets_.take();
  packet = Packet{};
  packet.message = &message;
  packet.train = FlitTrain::all_at(finish_, 1);
  PacketPhase phase = PacketPhase::send;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  control_out->nb_transport_fw(packet, phase, delay);
}

void Cpu::pause(Ps time) {
  if (time > 0) sc_core::wait(to_sc_time(time), abandon_event_);
  if (abandoned_) throw Abandoned{};
}

void Cpu::spend(Ps time, EngineAccount& account) {
  const Ps begin = now_ps();
  account.serve(begin, begin + time, Cause::dispatch);
  pause(time);
}

CommandId Cpu::issue(Command command) {
  check_stack();
  cost_.check_size(command);
  PeCounters& counters = context_.counters;
  EngineAccount& account = counters.account(EngineKind::cpu);

  const double cycles = cost_.cycles(command);
  const Ps cost = cycles_ps(cycles, context_.params.clock_ghz);
  counters.dispatch.add(command, cycles);
  counters.dispatch_ps += cost;
  counters.serial_ps += cost;
  spend(cost, account);
  const Ps ready = now_ps();
  absorb();
  while (in_queue_ >= context_.params.scheduler.queue_depth) {
    block("a place in the command queue", 0, Cause::command_queue);
    absorb();
  }

  command.id = ++last_id_;
  issued_.push_back({cause_of(command), command.kind});
  ++in_queue_;
  ++unfinished_;
  counters.split.issued(command.id);
  CommandSlip slip;
  slip.id = command.id;
  slip.ready = ready;
  slip.command = std::make_shared<const Command>(std::move(command));
  CommandPhase phase = CommandPhase::issue;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  commands->nb_transport_fw(slip, phase, delay);
  return slip.id;
}

void Cpu::wait(CommandId id, const char* why) {
  check_stack();
  if (id == 0) return;
  if (id > last_id_)
    throw ModelError(pe_name_ + ": " + why + ": found a wait for command " + std::to_string(id) + "; issued: 1 .. " +
                     std::to_string(last_id_));
  while (!done(id)) block(why, id, issued_[id - first_issued_].waits_as);
}

bool Cpu::done(CommandId id) const {
  absorb();
  return id < first_issued_ || (id <= last_id_ && issued_[id - first_issued_].completed);
}

void Cpu::spend_cycles(double cycles) {
  check_stack();
  const Ps time = cycles_ps(cycles, context_.params.clock_ghz);
  context_.counters.serial_ps += time;
  spend(time, context_.counters.account(EngineKind::cpu));
}

void Cpu::block(const char* why, CommandId id, Cause cause) {
  blocked_ = {why, id, now_ps()};
  if (answers_.empty()) {
    asleep_ = true;
    if (context_.env.activity != nullptr) context_.env.activity->end();
  }
  const bool for_message = cause == Cause::operands_ipcq;
  if (for_message) context_.counters.split.begin(LatencyPart::transfer, now_ps());
  sc_core::wait(answer_event_);
  if (for_message) context_.counters.split.end(LatencyPart::transfer, now_ps());
  if (abandoned_) throw Abandoned{};
  blocked_ = Blocked{};
  context_.counters.account(EngineKind::cpu).stall(now_ps(), cause);
}

tlm::tlm_sync_enum Cpu::nb_transport_bw(CommandSlip& slip, CommandPhase& phase, sc_core::sc_time&) {
  answers_.push_back({slip.id, phase, sc_core::sc_delta_count()});
  if (asleep_) {
    asleep_ = false;
    if (context_.env.activity != nullptr) context_.env.activity->begin();
  }
  answer_event_.notify(sc_core::SC_ZERO_TIME);
  return tlm::TLM_ACCEPTED;
}

void Cpu::absorb() const {
  const std::uint64_t delta = sc_core::sc_delta_count();
  while (!answers_.empty() && answers_.front().stamp < delta) {
    const Answer answer = answers_.front();
    answers_.pop_front();
    Issued& i = issued_[answer.id - first_issued_];
    if (i.in_queue) --in_queue_;
    i.in_queue = false;
    if (answer.phase == CommandPhase::completed) {
      i.completed = true;
      --unfinished_;
    }
    while (!issued_.empty() && issued_.front().completed) {
      issued_.pop_front();
      ++first_issued_;
    }
  }
}

// The stack has a guard page; a kernel that comes near it gets a message instead of a segmentation fault, at the
// next call of its PE.
void Cpu::check_stack() const {
  const char here = 0;
  const auto depth = static_cast<std::uint64_t>(stack_base_ > &here ? stack_base_ - &here : &here - stack_base_);
  const std::uint64_t size = context_.params.cpu.stack_bytes;
  if (depth + std::min(kStackReserve, size / 4) > size)
    throw ModelError(pe_name_ + ": the kernel has used " + std::to_string(depth) + " bytes of its stack; allowed: " +
                     std::to_string(size) + " less a reserve (pe.cpu.stack_bytes)");
}

std::string Cpu::describe(CommandId id) const {
  if (id == 0 || id < first_issued_ || id > last_id_) return "";
  return std::string(name_of(issued_[id - first_issued_].kind)) + " command " + std::to_string(id);
}

std::string Cpu::blocked_state() const {
  if (blocked_.why == nullptr) return "";
  std::string text = pe_name_ + " waits in " + blocked_.why;
  if (blocked_.id != 0) text += " for " + describe(blocked_.id);
  return text + " since " + std::to_string(ns_from_ps(blocked_.since)) + " ns";
}

void Cpu::abandon() {
  const auto status = sc_core::sc_get_status();
  if (!running_ || (status != sc_core::SC_RUNNING && status != sc_core::SC_PAUSED)) return;
  abandoned_ = true;
  // At once, so that a single sc_start(SC_ZERO_TIME) unwinds; no model time or result hangs on it any more.
  answer_event_.notify();
  abandon_event_.notify();
}

}  // namespace kb
