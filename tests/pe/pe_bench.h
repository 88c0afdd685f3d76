// A test bench around one PE: a memory with fixed latency and bandwidth at its DMA port, kernels as lambdas, and
// everything that it records.
#pragma once

#include <kb/modules/pe/pe.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/extensions.h>
#include <kb/tlm_if/launch.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kb::test {

/// A base-protocol memory. Reads and writes have a channel each; a transaction that arrives at t is served from
/// s = max(t, channel free), its data is whole at s + latency + bytes / bandwidth, and the channel is free again
/// at s + bytes / bandwidth.
class StubMemory : public sc_core::sc_module, public tlm::tlm_fw_transport_if<> {
 public:
  enum class Style {
    train,          // 4 phases; BEGIN_RESP at the head, the train complete
    growing_train,  // BEGIN_RESP at the head, the rest of the train is told when it is known
    plain,          // a foreign memory: no extension; BEGIN_RESP when the data is whole less its streaming time
    early,          // answers TLM_COMPLETED to BEGIN_REQ, annotated
  };
  tlm::tlm_target_socket<> socket{"socket"};

  StubMemory(const sc_core::sc_module_name& name, double latency_ns, double gbs, Style style = Style::train)
      : sc_core::sc_module(name), latency_(ps_from_ns(latency_ns)), gbs_(gbs), style_(style) {
    SC_HAS_PROCESS(StubMemory);
    socket.bind(*this);
    SC_METHOD(serve);
    sensitive << event_;
    dont_initialize();
  }

  std::uint64_t transactions = 0, read_bytes = 0, write_bytes = 0;
  std::uint64_t fail_at = ~0ull;  // transactions that touch this address get an address error
  std::vector<std::pair<std::uint64_t, Ps>> reads;  // address and arrival, when `keep` is set
  bool keep = false;
  std::size_t in_flight() const { return waiting_.size(); }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase != tlm::BEGIN_REQ) return tlm::TLM_COMPLETED;
    const Ps at = now_ps() + to_ps(delay);
    ++transactions;
    const bool read = trans.is_read();
    (read ? read_bytes : write_bytes) += trans.get_data_length();
    if (keep && read) reads.emplace_back(trans.get_address(), at);
    Ps& free = free_[read ? 0 : 1];
    const Ps start = std::max(at, free);
    free = start + transfer_ps(trans.get_data_length(), gbs_);
    const Ps whole = free + latency_;
    const std::uint64_t address = trans.get_address();
    const bool bad = fail_at >= address && fail_at - address < trans.get_data_length();
    trans.set_response_status(bad ? tlm::TLM_ADDRESS_ERROR_RESPONSE : tlm::TLM_OK_RESPONSE);
    if (style_ == Style::early) {
      // Reads: the initiator adds the streaming time of the data itself.
      const Ps answer = read ? start + latency_ : whole;
      delay = to_sc_time(answer - now_ps());
      return tlm::TLM_COMPLETED;
    }
    trans.acquire();
    waiting_.push_back({&trans, read ? start + latency_ : whole, whole});
    wake();
    phase = tlm::END_REQ;
    return tlm::TLM_UPDATED;
  }
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time&) override {
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned int transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

 private:
  struct Waiting {
    tlm::tlm_generic_payload* trans;
    Ps respond;
    Ps whole;
    bool responded = false;
  };
  void wake() {
    Ps next = kNever;
    for (const auto& w : waiting_) next = std::min(next, w.responded ? w.whole : w.respond);
    if (next != kNever) event_.notify(next <= now_ps() ? sc_core::SC_ZERO_TIME : to_sc_time(next - now_ps()));
  }
  void serve() {
    const Ps now = now_ps();
    for (std::size_t i = 0; i < waiting_.size();) {
      Waiting& w = waiting_[i];
      bool done = false;
      if (!w.responded && w.respond <= now) {
        w.responded = true;
        auto* ext = w.trans->get_extension<TransferExtension>();
        if (style_ != Style::plain && ext != nullptr && w.trans->is_read()) {
          const auto flits = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(w.trans->get_data_length(), 256));
          const Ps span = w.whole - w.respond;
          ext->train.clear();
          if (flits > 1) ext->train.append_run(w.respond + span / flits, span / flits, flits - 1);
          ext->complete = style_ == Style::train;
          if (ext->complete || flits == 1) ext->train.append(w.whole);
        }
        tlm::tlm_phase phase = tlm::BEGIN_RESP;
        sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
        socket->nb_transport_bw(*w.trans, phase, delay);
        done = style_ != Style::growing_train || !w.trans->is_read();
      } else if (w.responded && w.whole <= now) {
        auto* ext = w.trans->get_extension<TransferExtension>();
        if (ext->train.flits() * 256ull < w.trans->get_data_length()) ext->train.append(w.whole);
        ext->complete = true;
        if (ext->listener != nullptr) ext->listener->train_extended(*w.trans, *ext);
        done = true;
      }
      if (done) {
        w.trans->release();
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    wake();
  }

  Ps latency_;
  double gbs_;
  Style style_;
  Ps free_[2] = {0, 0};
  std::deque<Waiting> waiting_;
  sc_core::sc_event event_{"event"};
};

/// Keeps every record.
class KeepRecords : public OpRecorder {
 public:
  void emit(OpRecord&& r) override {
    if (r.t_end < now_ps()) late = true;
    records.push_back(std::move(r));
  }
  std::vector<OpRecord> records;
  bool late = false;  // a record came after its end

  /// Records of one name, in order of their start.
  std::vector<OpRecord> of(OpName name, TileRole role = TileRole::none, CommandId command = 0) const {
    std::vector<OpRecord> found;
    for (const auto& r : records)
      if (r.name == name && (role == TileRole::none || r.role == role) &&
          (command == 0 || (r.command && r.command->id == command)))
        found.push_back(r);
    std::stable_sort(found.begin(), found.end(),
                     [](const OpRecord& x, const OpRecord& y) { return x.t_start < y.t_start; });
    return found;
  }
};

class LambdaProgram : public KernelProgram {
 public:
  explicit LambdaProgram(std::function<void(PePort&)> f) : f_(std::move(f)) {}
  const char* name() const override { return "lambda"; }
  void run(PePort& pe) const override { f_(pe); }

 private:
  std::function<void(PePort&)> f_;
};

class KeepFaults : public FaultSink {
 public:
  void fault(std::exception_ptr error) override {
    if (!first) first = error;
    sc_core::sc_stop();
  }
  std::exception_ptr first;
};

/// Parameters without any fixed cost, so that hand-computed times show one rule at a time.
inline PeParams free_params() {
  PeParams p;
  p.cpu.overhead_ns = 0;
  p.scheduler.overhead_ns = 0;
  p.dma.overhead_ns = 0;
  p.cost_model.fixed_per_composite_cycles = 0;
  p.cost_model.fixed_per_single_op_cycles = 0;
  return p;
}

inline MachineInfo machine_of(const PeParams& p) {
  MachineInfo m;
  m.clock_ghz = p.clock_ghz;
  m.tile = p.scheduler.tile;
  m.tile_buffers = p.scheduler.tile_buffers;
  m.mac_shape = p.gemm.mac_shape;
  m.accumulator_bytes = p.gemm.accumulator_bytes;
  m.vector_width = p.math.vector_width;
  m.queue_depth = p.scheduler.queue_depth;
  m.tcm_bytes = p.tcm.bytes;
  m.scratch_bytes = p.tcm.scratch_bytes;
  m.tcm_read_bw_gbs = p.tcm.read_bw_gbs;
  m.tcm_write_bw_gbs = p.tcm.write_bw_gbs;
  m.dma_overhead_ns = p.dma.overhead_ns;
  m.dma_outstanding = p.dma.outstanding;
  m.ipcq_slots = p.ipcq.slots;
  m.ipcq_slot_bytes = p.ipcq.slot_bytes;
  m.ipcq_credit_bytes = p.ipcq.credit_bytes;
  return m;
}

/// One PE, its memory, and the ends of its control and TCM sockets.
class OnePe : public sc_core::sc_module, protected PacketFwIf, protected tlm::tlm_bw_transport_if<> {
 public:
  PeParams params;
  MachineInfo machine;
  KeepRecords recorder;
  KeepFaults faults;
  Activity activity;
  PayloadPool pool;
  std::unique_ptr<StubMemory> memory;
  std::unique_ptr<Pe> pe;
  Ps completed_at = -1;
  std::vector<QueueEnd> queues;  // installed at every launch
  std::vector<tlm::tlm_generic_payload*> responses;

  struct Options {
    double latency_ns = 0;
    double gbs = 256;
    StubMemory::Style style = StubMemory::Style::train;
    bool record = true;
    bool catch_faults = true;
    const PageTable* pages = nullptr;
    const AddressMap* addresses = nullptr;
    const PeRegistry* registry = nullptr;
    Mode mode = Mode::timing;
    bool memory_last = false;  // another order of construction, which must not matter
  };

  explicit OnePe(const PeParams& p, const sc_core::sc_module_name& name = "bench") : OnePe(p, Options{}, name) {}
  OnePe(const PeParams& p, const Options& o, const sc_core::sc_module_name& name = "bench")
      : sc_core::sc_module(name), params(p), machine(machine_of(p)) {
    PeEnv env;
    env.machine = &machine;
    env.mode = o.mode;
    env.recorder = o.record ? &recorder : nullptr;
    env.faults = o.catch_faults ? &faults : nullptr;
    env.activity = &activity;
    env.pool = &pool;
    env.pages = o.pages;
    env.addresses = o.addresses;
    env.registry = o.registry;
    const auto make_memory = [&] {
      memory = std::make_unique<StubMemory>("memory", o.latency_ns, o.gbs, o.style);
    };
    if (!o.memory_last) make_memory();
    pe = std::make_unique<Pe>("pe", params, env);
    if (o.memory_last) make_memory();
    pe->dma_socket.bind(memory->socket);
    to_cpu_.bind(pe->control_in);
    from_cpu_.bind(static_cast<PacketFwIf&>(*this));
    pe->control_out.bind(from_cpu_);
    to_tcm.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    to_tcm.bind(pe->tcm_socket);
  }

  /// Launches the kernel now; the simulation is run by the caller.
  void launch(const KernelProgram& program, Ps common_start = 0) {
    pe->prepare_launch(queues);
    message_ = LaunchMessage{};
    message_.program = &program;
    message_.start = common_start;
    control_ = Message{};
    control_.kind = Message::Kind::launch;
    control_.route = &route_;
    control_.launch = &message_;
    control_.packets = 1;
    packet_ = Packet{};
    packet_.message = &control_;
    PacketPhase phase = PacketPhase::send;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    to_cpu_->nb_transport_fw(packet_, phase, delay);
  }

  /// Runs a kernel from now on to the end of all events and returns its time; rethrows the first fault.
  Ps run(std::function<void(PePort&)> kernel) {
    // Elaborates, and lets the cpu wait for launches.
    if (sc_core::sc_get_status() != sc_core::SC_PAUSED) sc_core::sc_start(sc_core::SC_ZERO_TIME);
    const LambdaProgram program(std::move(kernel));
    start = now_ps();
    launch(program);
    sc_core::sc_start();
    if (faults.first) std::rethrow_exception(faults.first);
    if (!pe->finished()) throw ModelError("deadlock: " + pe->blocked_state());
    return pe->finish_time() - start;
  }
  /// Counters of the last run; checks that the accounts close.
  PeStats stats() const { return pe->stats(start, pe->finish_time()); }

  Ps start = 0;
  tlm::tlm_initiator_socket<> to_tcm{"to_tcm"};

 protected:
  tlm::tlm_sync_enum nb_transport_fw(Packet& packet, PacketPhase&, sc_core::sc_time&) override {
    completed_at = now_ps();
    packet.message->owner->packet_consumed(packet);
    return tlm::TLM_ACCEPTED;
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time&) override {
    if (phase == tlm::BEGIN_RESP) responses.push_back(&trans);
    return phase == tlm::BEGIN_RESP ? tlm::TLM_COMPLETED : tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

 private:
  PacketInitiatorSocket to_cpu_{"to_cpu"};
  PacketTargetSocket from_cpu_{"from_cpu"};
  Route route_;
  LaunchMessage message_;
  Message control_;
  Packet packet_;
};

// Commands as the kernel API builds them.

inline TensorHandle tcm_tensor(std::uint64_t addr, const Shape& shape, DType dtype = DType::f32) {
  return make_handle(0, shape, dtype, Space::tcm, addr, true);
}
inline TensorHandle hbm_tensor(std::uint64_t addr, const Shape& shape, DType dtype = DType::f16) {
  return make_handle(0, shape, dtype, Space::hbm, addr, false);
}

inline OpSpec gemm_op(const TensorHandle& a, const TensorHandle& b, const TensorHandle& out, std::int64_t m,
                      std::int64_t k, std::int64_t n) {
  OpSpec op;
  op.kind = "gemm";
  op.operands = {{"a", a}, {"b", b}};
  op.extra = {{"m", static_cast<double>(m)}, {"k", static_cast<double>(k)}, {"n", static_cast<double>(n)}};
  op.has_out = true;
  op.out = out;
  return op;
}

inline OpSpec math_op(const std::string& kind, const std::vector<Operand>& operands, const TensorHandle& out) {
  OpSpec op;
  op.kind = kind;
  op.operands = operands;
  op.has_out = true;
  op.out = out;
  return op;
}

inline OpSpec tile_op(const std::string& kind, OpScope scope, const std::vector<Operand>& operands = {}) {
  OpSpec op;
  op.kind = kind;
  op.scope = scope;
  op.operands = operands;
  return op;
}

inline Command single(CommandKind kind, OpSpec op) {
  Command c;
  c.kind = kind;
  c.ops = {std::move(op)};
  return c;
}

inline Command composite(std::vector<OpSpec> ops) {
  Command c;
  c.kind = CommandKind::composite;
  c.ops = std::move(ops);
  return c;
}

inline Command read_command(const TensorHandle& src, const TensorHandle& out) {
  OpSpec op = math_op("dma_read", {{"src", src}}, out);
  op.extra = {{"bytes", static_cast<double>(src.bytes())}};
  return single(CommandKind::dma_read, op);
}

inline Command write_command(const TensorHandle& src, const TensorHandle& out) {
  OpSpec op = math_op("dma_write", {{"src", src}}, out);
  op.extra = {{"bytes", static_cast<double>(src.bytes())}};
  return single(CommandKind::dma_write, op);
}

inline Command math_command(const std::vector<Operand>& operands, const TensorHandle& out) {
  return single(CommandKind::math, math_op("exp", operands, out));
}

}  // namespace kb::test
