#include "sim_host.h"

#include "bounds.h"

#include <kb/modules/pe/pe.h>
#include <kb/platform/machine.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kb {

namespace {
constexpr Ps kTick = 1'000'000;  // 1 us: how often a user's interrupt is looked for
}

SimHost::SimHost(const sc_core::sc_module_name& name, const SystemConfig& config, Mode mode, std::function<bool(Ps)> tick)
    : sc_module(name), TensorHost(config, mode), tick_(std::move(tick)) {
  SC_METHOD(on_idle);
  sensitive << activity_.idle();
  dont_initialize();
  SC_METHOD(on_tick);
  sensitive << tick_event_;
  dont_initialize();
  SC_THREAD(watch_transfers);
  SC_METHOD(resume_caller);
  sensitive << done_event_;
  dont_initialize();
}

void SimHost::write(const Tensor& tensor, std::size_t shard, const void* bytes, std::size_t size) {
  const Shard& s = shard_of(tensor, shard, size);
  if (mode() != Mode::data || size == 0) return;
  sim_->memory().write(s.pe, tensor.space, s.addr, bytes, size);
}

void SimHost::read(const Tensor& tensor, std::size_t shard, void* bytes, std::size_t size) {
  const Shard& s = shard_of(tensor, shard, size);
  if (mode() != Mode::data || size == 0) return;
  sim_->memory().read(s.pe, tensor.space, s.addr, bytes, size);
}

void SimHost::fault(std::exception_ptr error) {
  if (!error_) error_ = error;
  done_event_.notify(sc_core::SC_ZERO_TIME);
}

void SimHost::finished() {
  done_ = true;
  done_event_.notify(sc_core::SC_ZERO_TIME);
}

// The data pass of a launch is done before its completion is the host's (spec 1.5).
void SimHost::finish_records() {
  try {
    sim_->flush_records();
  } catch (...) {
    fault(std::current_exception());
    return;
  }
  finished();
}

// A caller outside of any process gets control back at the end of this delta; one that is a process is woken by the event,
// and the simulation around it goes on.
void SimHost::resume_caller() {
  if (running_ && outside_) sc_core::sc_pause();
}

// Waits for the engines of one PE after the other; the last to finish ends the run whatever the order.
void SimHost::watch_transfers() {
  while (true) {
    // The flag, and not the event alone: a notification before the simulation starts finds nobody waiting.
    while (!watching_) sc_core::wait(watch_event_);
    watching_ = false;
    for (const auto rank : active_) {
      Pe& pe = sim_->pe(rank);
      while (!pe.transfers_done()) sc_core::wait(pe.transfers_done_event());
    }
    finish_records();
  }
}

void SimHost::on_tick() {
  if (!running_ || done_ || error_) return;
  if (tick_ && !tick_(now_ps())) {
    fault(std::make_exception_ptr(Interrupted(fmt::format("interrupted at {:.3f} ns", ns_from_ps(now_ps())))));
    return;
  }
  tick_event_.notify(to_sc_time(kTick));
}

// Nothing is under way: a kernel that waits now waits for ever (spec 5.1). Without one the run is about to end.
void SimHost::on_idle() {
  if (!running_ || done_ || error_ || activity_.any()) return;
  const bool waits = std::any_of(active_.begin(), active_.end(),
                                 [this](std::uint32_t rank) { return !sim_->pe(rank).blocked_state().empty(); });
  if (waits) fault(std::make_exception_ptr(ModelError(deadlock_report())));
}

std::string SimHost::deadlock_report() const {
  std::string text = fmt::format("deadlock at {:.3f} ns: nothing is under way and these wait for ever:", ns_from_ps(now_ps()));
  for (const auto rank : active_) {
    const std::string state = sim_->pe(rank).blocked_state();
    if (!state.empty()) text += "\n  " + state;
  }
  return text;
}

void SimHost::run_until_done() {
  done_event_.cancel();
  running_ = true;
  if (tick_) tick_event_.notify(to_sc_time(kTick));
  const auto status = sc_core::sc_get_status();
  const bool inside = status == sc_core::SC_RUNNING;
  outside_ = !inside;
  if (inside) {
    while (!done_ && !error_) sc_core::wait(done_event_);
  } else {
    while (!done_ && !error_) {
      if (sc_core::sc_get_status() == sc_core::SC_STOPPED) {
        error_ = std::make_exception_ptr(ModelError("the simulation was stopped during a launch"));
        break;
      }
      sc_core::sc_start();
      if (!done_ && !error_ && !sc_core::sc_pending_activity())
        error_ = std::make_exception_ptr(ModelError(deadlock_report()));
    }
  }
  running_ = false;
  tick_event_.cancel();
  if (error_) {
    for (const auto rank : active_) sim_->pe(rank).abandon();
    // Kernels unwind in the next delta; inside a larger simulation it comes by itself.
    if (!inside && sc_core::sc_get_status() != sc_core::SC_STOPPED && sc_core::sc_pending_activity_at_current_time())
      sc_core::sc_start(sc_core::SC_ZERO_TIME);
    try {
      sim_->drain_records();
    } catch (...) {
      // What a full disk, say, keeps from being recorded now does not hide why the run ended.
    }
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

LaunchResult SimHost::collect(const std::vector<std::uint32_t>& pes, Ps start, Ps end, std::uint64_t messages_before) {
  LaunchResult result;
  result.start = start;
  result.end = end;
  for (const auto rank : pes) result.pes.push_back(sim_->pe(rank).stats(start, end));
  result.links = sim_->links();
  result.messages = sim_->messages() - messages_before;
  return result;
}

LaunchResult SimHost::launch(const KernelProgram& program, const LaunchOptions& options) {
  const auto pes = participants(options);
  std::map<std::uint32_t, std::vector<QueueEnd>> ends;
  for (const auto& q : options.queues) {
    if (q.from >= machine().total_pes() || q.to >= machine().total_pes())
      throw InputError(fmt::format("launch: found a queue from PE {} to PE {}; allowed: ranks 0 to {}", q.from, q.to,
                                   machine().total_pes() - 1));
    QueueEnd sender;
    sender.direction = q.direction;
    sender.peer = q.to;
    sender.peer_direction = q.arrives_as;
    sender.sends = true;
    const PeId to = machine().pe_of(q.to);
    sender.peer_window = addresses().queue(to.sip, to.cube, to.pe);
    ends[q.from].push_back(sender);
    QueueEnd receiver;
    receiver.direction = q.arrives_as;
    receiver.peer = q.from;
    receiver.peer_direction = q.direction;
    receiver.sends = false;
    receiver.credit_ps = sim_->credit_latency(q.to, q.from);
    ends[q.to].push_back(receiver);
  }
  for (const auto rank : pes) sim_->pe(rank).prepare_launch(ends[rank]);
  sim_->reset_links();
  const std::uint64_t messages = sim_->messages();
  active_ = pes;
  done_ = false;
  sim_->start_launch(program, pes, [this] { finish_records(); });
  run_until_done();
  Ps end = sim_->launch_start();
  for (const auto rank : pes) end = std::max(end, sim_->pe(rank).finish_time());
  LaunchResult result = collect(pes, sim_->launch_start(), end, messages);
  active_.clear();
  fill_bounds(result, machine(), sim_->foreign_ip() ? LinkBytes::none : LinkBytes::share);
  check_bounds(result, !sim_->foreign_ip());
  return result;
}

LaunchResult SimHost::run_transfers(const std::vector<DirectTransfer>& transfers) {
  std::vector<std::uint32_t> pes;
  for (const auto& t : transfers) {
    if (t.pe >= machine().total_pes())
      throw InputError(fmt::format("transfer: found PE rank {}; allowed: 0 to {}", t.pe, machine().total_pes() - 1));
    pes.push_back(t.pe);
  }
  std::sort(pes.begin(), pes.end());
  pes.erase(std::unique(pes.begin(), pes.end()), pes.end());
  sim_->reset_links();
  const std::uint64_t messages = sim_->messages();
  const Ps start = now_ps();
  active_ = pes;
  for (const auto rank : pes) {
    sim_->pe(rank).prepare_launch({});
    sim_->pe(rank).start_transfers(transfers, start);
  }
  done_ = false;
  watching_ = true;
  watch_event_.notify(sc_core::SC_ZERO_TIME);
  run_until_done();
  Ps first = kNever, last = 0;
  for (const auto rank : pes) {
    first = std::min(first, sim_->pe(rank).first_transfer_issue());
    last = std::max(last, sim_->pe(rank).last_transfer_end());
  }
  active_.clear();
  LaunchResult result = collect(pes, first, last, messages);
  for (std::size_t i = 0; i < pes.size(); ++i) result.pes[i].done = sim_->pe(pes[i]).last_transfer_end();
  fill_bounds(result, machine(), sim_->foreign_ip() ? LinkBytes::none : LinkBytes::all);
  check_bounds(result, false);
  return result;
}

Ps SimHost::host_copy(bool to_device, std::uint64_t addr, std::uint64_t bytes) {
  const PhysicalRun run = page_table().translate(addr, bytes);
  if (run.bytes < bytes)
    throw InputError(fmt::format("host copy: found {} bytes at virtual address {:#x}; allowed: mapped memory ({})", bytes, addr,
                                 page_table().describe(addr)));
  sim_->reset_links();
  done_ = false;
  Ps latency = 0;
  sim_->start_copy(to_device, run.address, bytes, [this, &latency](Ps t) {
    latency = t;
    finished();
  });
  run_until_done();
  return latency;
}

}  // namespace kb
