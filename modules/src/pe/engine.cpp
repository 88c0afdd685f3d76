#include <kb/modules/pe/engine.h>

namespace kb {

namespace {

constexpr std::array<Box, 5> kTokenTargets{Box::dma, Box::fetch_store, Box::gemm, Box::math, Box::ipcq};
constexpr std::array<Box, 6> kSignalTargets{Box::scheduler, Box::dma,  Box::fetch_store,
                                            Box::gemm,      Box::math, Box::ipcq};

}  // namespace

const char* name_of(Box box) {
  static constexpr const char* kNames[kBoxes] = {"cpu",  "scheduler", "dma", "fetch_store", "gemm",
                                                 "math", "tcm",       "mmu", "ipcq"};
  return kNames[static_cast<std::size_t>(box)];
}

Box box_of(EngineKind engine) {
  switch (engine) {
    case EngineKind::cpu: return Box::cpu;
    case EngineKind::scheduler: return Box::scheduler;
    case EngineKind::dma_read:
    case EngineKind::dma_write: return Box::dma;
    case EngineKind::fetch:
    case EngineKind::store: return Box::fetch_store;
    case EngineKind::gemm: return Box::gemm;
    case EngineKind::math: return Box::math;
    case EngineKind::tcm_read:
    case EngineKind::tcm_write: return Box::tcm;
    case EngineKind::ipcq: return Box::ipcq;
  }
  return Box::cpu;
}

OpRecord RecordWriter::blank(OpKind kind, OpName name, Ps start, Ps end) {
  OpRecord r;
  r.t_start = start;
  r.t_end = end;
  r.component = component_;
  r.number = number_++;
  r.kind = kind;
  r.name = name;
  r.pe = pe_;
  return r;
}

OpRecord RecordWriter::of(const TileToken& token, OpKind kind, OpName name, Ps ready, Ps start,
                          Ps end) {
  OpRecord r = blank(kind, name, start, end);
  r.t_ready = ready;
  const Stage& stage = token.now();
  r.role = stage.role;
  r.op = stage.op;
  r.command = token.context->plan.command_ptr();
  if (token.in_loop) {
    r.tile_m = static_cast<std::int32_t>(token.at.m);
    r.tile_n = static_cast<std::int32_t>(token.at.n);
    r.tile_k = static_cast<std::int32_t>(token.at.k);
  }
  const StageWork work = token.work();
  r.address = work.address;
  r.bytes = work.bytes;
  r.elements = work.elements;
  r.m = work.m;
  r.k = work.k;
  r.n = work.n;
  r.path_ps = end - start;
  return r;
}

DecidingBox::DecidingBox(const sc_core::sc_module_name& name, const BoxContext& context, Box box)
    : sc_core::sc_module(name), box_(box), context_(context), records_(context.env, box), wake_("wake") {
  SC_HAS_PROCESS(DecidingBox);
  SC_METHOD(activate);
  sensitive << wake_.event();
  dont_initialize();
}

void DecidingBox::activate() {
  wake_.fired();
  ++context_.counters.activations;
  if (context_.env.faults == nullptr) {
    decide(now_ps(), sc_core::sc_delta_count());
    return;
  }
  try {
    decide(now_ps(), sc_core::sc_delta_count());
  } catch (...) {
    context_.env.faults->fault(std::current_exception());
  }
}

TokenEngine::TokenEngine(const sc_core::sc_module_name& name, const BoxContext& context, Box box)
    : DecidingBox(name, context, box),
      token_in("token_in"),
      token_out("token_out"),
      signal_in("signal_in"),
      signal_out("signal_out") {
  token_in.bind(static_cast<ProtocolFwIf<TokenProtocol>&>(*this));
  signal_in.bind(static_cast<ProtocolFwIf<SignalProtocol>&>(*this));
}

void TokenEngine::end_of_elaboration() {
  for (std::size_t i = 0; i < kTokenTargets.size() && static_cast<int>(i) < token_out.size(); ++i)
    token_to_[static_cast<std::size_t>(kTokenTargets[i])] = token_out[static_cast<int>(i)];
  for (std::size_t i = 0; i < kSignalTargets.size() && static_cast<int>(i) < signal_out.size(); ++i)
    signal_to_[static_cast<std::size_t>(kSignalTargets[i])] = signal_out[static_cast<int>(i)];
}

void TokenEngine::on_signal(const Signal&, Ps) {}

bool TokenEngine::pass_on(TileToken& token, Ps at, Ps now) {
  ++counters().tile_stages;
  if (token.at_end()) {
    Signal done;
    done.kind = Signal::Kind::done;
    done.slot = token.context->slot;
    done.token = &token;
    raise(Box::scheduler, done, at, now);
    return false;
  }
  ++token.stage;
  if (box_of(token.now().engine) == box()) return true;
  send(token, at, now);
  return false;
}

void TokenEngine::send(TileToken& token, Ps at, Ps now) {
  sc_core::sc_time delay = delay_until(at, now);
  TokenPhase phase = TokenPhase::arrive;
  token_to_[static_cast<std::size_t>(box_of(token.now().engine))]->nb_transport_fw(token, phase, delay);
}

void TokenEngine::raise(Box to, Signal signal, Ps at, Ps now) {
  sc_core::sc_time delay = delay_until(at, now);
  SignalPhase phase = SignalPhase::raise;
  signal_to_[static_cast<std::size_t>(to)]->nb_transport_fw(signal, phase, delay);
}

tlm::tlm_sync_enum TokenEngine::nb_transport_fw(TileToken& token, TokenPhase&, sc_core::sc_time& delay) {
  on_token(token, after(delay));
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum TokenEngine::nb_transport_fw(Signal& signal, SignalPhase&, sc_core::sc_time& delay) {
  on_signal(signal, after(delay));
  return tlm::TLM_ACCEPTED;
}

}  // namespace kb
