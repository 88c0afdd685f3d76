#include <kb/modules/pe/pe.h>

#include <kb/modules/pe/cpu.h>
#include <kb/modules/pe/dma.h>
#include <kb/modules/pe/fetch_store.h>
#include <kb/modules/pe/gemm.h>
#include <kb/modules/pe/ipcq.h>
#include <kb/modules/pe/math.h>
#include <kb/modules/pe/mmu.h>
#include <kb/modules/pe/registry.h>
#include <kb/modules/pe/scheduler.h>
#include <kb/modules/pe/tcm.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {

/// The built-in box, or the one that `impl` names in the registry.
template <typename Builtin, typename T>
std::unique_ptr<T> make(const char* box, const std::string& impl, const PeRegistry* registry,
                        Implementations<T> PeRegistry::* implementations, const BoxContext& context) {
  if (impl == kBuiltin) return std::make_unique<Builtin>(box, context);
  const auto* factory = registry == nullptr ? nullptr : (registry->*implementations).find(impl);
  if (factory == nullptr) {
    const std::string others = registry == nullptr ? "" : (registry->*implementations).names();
    throw InputError(std::string("pe.") + box + ".impl: found '" + impl + "'; allowed: " + kBuiltin +
                     (others.empty() ? "" : ", ") + others);
  }
  return (*factory)(box, context);
}

void require(bool fine, const std::string& key, const std::string& found, const std::string& allowed) {
  if (!fine) throw InputError(key + ": found " + found + "; allowed: " + allowed);
}

void check(const PeParams& p) {
  const auto positive = [](const char* key, std::uint64_t value) {
    require(value > 0, key, std::to_string(value), "at least 1");
  };
  const auto rate = [](const char* key, double value) {
    require(value > 0, key, std::to_string(value), "more than 0");
  };
  const auto time = [](const char* key, double value) {
    require(value >= 0, key, std::to_string(value), "at least 0");
  };
  rate("pe.clock_ghz", p.clock_ghz);
  time("pe.cpu.overhead_ns", p.cpu.overhead_ns);
  time("pe.scheduler.overhead_ns", p.scheduler.overhead_ns);
  positive("pe.scheduler.queue_depth", p.scheduler.queue_depth);
  positive("pe.scheduler.tile_buffers", p.scheduler.tile_buffers);
  for (const auto t : p.scheduler.tile) positive("pe.scheduler.tile", t);
  positive("pe.dma.read_engines", p.dma.read_engines);
  positive("pe.dma.write_engines", p.dma.write_engines);
  positive("pe.dma.outstanding", p.dma.outstanding);
  time("pe.dma.overhead_ns", p.dma.overhead_ns);
  time("pe.fetch_store.overhead_ns", p.fetch_store.overhead_ns);
  time("pe.gemm.overhead_ns", p.gemm.overhead_ns);
  for (const auto s : p.gemm.mac_shape) positive("pe.gemm.mac_shape", s);
  time("pe.math.overhead_ns", p.math.overhead_ns);
  positive("pe.math.vector_width", p.math.vector_width);
  rate("pe.tcm.read_bw_gbs", p.tcm.read_bw_gbs);
  rate("pe.tcm.write_bw_gbs", p.tcm.write_bw_gbs);
  time("pe.mmu.tlb_overhead_ns", p.mmu.tlb_overhead_ns);
  positive("pe.ipcq.slots", p.ipcq.slots);
  positive("pe.ipcq.slot_bytes", p.ipcq.slot_bytes);
}

}  // namespace

struct Pe::Impl {
  PeParams params;
  PeEnv env;
  PeCounters counters;
  std::unique_ptr<PayloadPool> own_pool;
  BoxContext context;
  std::unique_ptr<Cpu> cpu;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Dma> dma;
  std::unique_ptr<FetchStore> fetch_store;
  std::unique_ptr<TokenEngine> gemm, math;
  std::unique_ptr<Tcm> tcm;
  std::unique_ptr<Mmu> mmu;
  std::unique_ptr<Ipcq> ipcq;

  Impl(const PeParams& p, const PeEnv& e)
      : params(p),
        env(e),
        own_pool(e.pool == nullptr ? std::make_unique<PayloadPool>() : nullptr),
        context{params, env, counters, e.pool == nullptr ? *own_pool : *e.pool} {}

  void build(const std::string& name) {
    const PeRegistry* r = env.registry;
    cpu = make<Cpu>("cpu", params.cpu.impl, r, &PeRegistry::cpu, context);
    cpu->set_pe_name(name);
    scheduler = make<Scheduler>("scheduler", params.scheduler.impl, r, &PeRegistry::scheduler, context);
    dma = make<Dma>("dma", params.dma.impl, r, &PeRegistry::dma, context);
    fetch_store = make<FetchStore>("fetch_store", params.fetch_store.impl, r, &PeRegistry::fetch_store, context);
    gemm = make<Gemm>("gemm", params.gemm.impl, r, &PeRegistry::gemm, context);
    math = make<Math>("math", params.math.impl, r, &PeRegistry::math, context);
    tcm = make<Tcm>("tcm", params.tcm.impl, r, &PeRegistry::tcm, context);
    mmu = make<Mmu>("mmu", params.mmu.impl, r, &PeRegistry::mmu, context);
    ipcq = make<Ipcq>("ipcq", params.ipcq.impl, r, &PeRegistry::ipcq, context);
  }

  /// Every engine reaches every other; the order of the bindings is the one that TokenEngine expects.
  void connect() {
    TokenEngine* const engines[] = {dma.get(), fetch_store.get(), gemm.get(), math.get(), ipcq.get()};
    TokenEngine* const boxes[] = {scheduler.get(), dma.get(), fetch_store.get(), gemm.get(), math.get(), ipcq.get()};
    for (TokenEngine* from : boxes) {
      for (TokenEngine* to : engines) from->token_out.bind(to->token_in);
      for (TokenEngine* to : boxes) from->signal_out.bind(to->signal_in);
    }
    cpu->commands.bind(scheduler->commands);
    fetch_store->tcm.bind(tcm->channels);
    ipcq->tcm.bind(tcm->channels);
    tcm->port().slots.bind(ipcq->arrivals);
    ipcq->dma.bind(dma->slots);
    dma->mmu.bind(mmu->port);
  }
};

Pe::Pe(const sc_core::sc_module_name& module_name, const PeParams& params, const PeEnv& env)
    : sc_core::sc_module(module_name),
      dma_socket("dma_socket"),
      tcm_socket("tcm_socket"),
      control_in("control_in"),
      control_out("control_out"),
      credit_out("credit_out"),
      credit_in("credit_in") {
  check(params);
  PlanParams{params.scheduler.tile, params.scheduler.tile_buffers, params.gemm.accumulator_bytes}.accumulators();
  impl_ = std::make_unique<Impl>(params, env);
  impl_->build(name());
  impl_->connect();
  impl_->dma->socket.bind(dma_socket);
  tcm_socket.bind(impl_->tcm->port().socket);
  control_in.bind(impl_->cpu->control_in);
  impl_->cpu->control_out.bind(control_out);
  impl_->ipcq->credit_out.bind(credit_out);
  credit_in.bind(impl_->ipcq->credit_in);
}

Pe::~Pe() = default;

const std::vector<std::string>& Pe::component_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> n;
    for (std::size_t i = 0; i < kBoxes; ++i) n.emplace_back(name_of(static_cast<Box>(i)));
    return n;
  }();
  return names;
}

void Pe::prepare_launch(const std::vector<QueueEnd>& queues) {
  impl_->dma->close_streams();
  impl_->counters.open(now_ps());
  impl_->tcm->port().invalidate_dmi();
  impl_->ipcq->install(queues);
  std::uint32_t peers = 0;
  for (const QueueEnd& q : queues) peers |= 1u << static_cast<int>(q.direction);
  impl_->cpu->set_peers(peers);
}

void Pe::set_bank_path(Ps latency) { impl_->ipcq->set_bank_path(latency); }

bool Pe::finished() const { return impl_->cpu->finished(); }
Ps Pe::finish_time() const { return impl_->cpu->finish_time(); }

PeStats Pe::stats(Ps start, Ps end) const {
  const PeCounters& c = impl_->counters;
  impl_->ipcq->check_empty();
  impl_->dma->close_streams();
  PeStats s;
  s.id = impl_->env.id;
  s.start = start;
  s.done = impl_->cpu->start_time() == start ? impl_->cpu->finish_time() : start;
  for (std::size_t i = 0; i < kEngineKinds; ++i)
    s.engines[i] = c.accounts[i].close(start, end, std::string(name()) + "." + name_of(static_cast<EngineKind>(i)));
  s.dispatch = c.dispatch;
  s.dma_reads = c.dma_reads;
  s.dma_read_bytes = c.dma_read_bytes;
  s.dma_writes = c.dma_writes;
  s.dma_write_bytes = c.dma_write_bytes;
  s.ipcq_sends = c.ipcq_sends;
  s.ipcq_recvs = c.ipcq_recvs;
  s.ipcq_bytes = c.ipcq_bytes;
  s.macs_useful = c.macs_useful;
  s.macs_padded = c.macs_padded;
  s.math_elements = c.math_elements;
  s.tcm_read_bytes = c.tcm_read_bytes;
  s.tcm_write_bytes = c.tcm_write_bytes;
  s.tile_stages = c.tile_stages;
  s.must_read_bytes = c.must_read_bytes;
  s.must_write_bytes = c.must_write_bytes;
  s.streams = c.streams;
  s.stream_bytes = c.stream_bytes;
  s.stream_ps = c.stream_ps;
  s.scratch_peak_bytes = c.scratch_peak_bytes;
  s.split = c.split.close(start, end);
  s.serial_ps = c.serial_ps;
  s.compute_ps = std::max(c.gemm_ps, c.math_ps);
  s.dispatch_ps = c.dispatch_ps;
  return s;
}

void Pe::start_transfers(const std::vector<Host::DirectTransfer>& transfers, Ps start) {
  impl_->counters.open(start);
  impl_->dma->start_direct(transfers, start);
}
bool Pe::transfers_done() const { return impl_->dma->direct_done(); }
const sc_core::sc_event& Pe::transfers_done_event() const { return impl_->dma->direct_done_event(); }
Ps Pe::first_transfer_issue() const { return impl_->dma->first_direct_issue(); }
Ps Pe::last_transfer_end() const { return impl_->dma->last_direct_end(); }

std::uint64_t Pe::activations() const { return impl_->counters.activations; }

std::string Pe::blocked_state() const {
  if (!impl_->cpu->blocked()) return "";
  std::string text = impl_->cpu->blocked_state();
  const std::string commands = impl_->scheduler->unfinished();
  if (!commands.empty()) text += "; in flight: " + commands;
  const std::string queues = impl_->ipcq->state();
  if (!queues.empty()) text += "; queues: " + queues;
  return text;
}

void Pe::abandon() { impl_->cpu->abandon(); }

const PeEnv& Pe::env() const { return impl_->env; }
const PeParams& Pe::params() const { return impl_->params; }

}  // namespace kb
