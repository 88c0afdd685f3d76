// What the engines of a PE have in common: token and signal sockets, one deciding process, records, counters.
#pragma once

#include <kb/modules/params.h>
#include <kb/modules/pe/counters.h>
#include <kb/modules/pe/pe_env.h>
#include <kb/modules/pe/wake.h>
#include <kb/tlm_if/protocol.h>

#include <array>
#include <cstdint>
#include <systemc>

namespace kb {

/// The boxes of a PE in the order of the component table.
enum class Box : std::uint8_t { cpu, scheduler, dma, fetch_store, gemm, math, tcm, mmu, ipcq };
inline constexpr std::size_t kBoxes = 9;
const char* name_of(Box box);

/// The box that serves a stage.
Box box_of(EngineKind engine);

/// What every box of a PE is built with; the referenced objects belong to the PE.
struct BoxContext {
  const PeParams& params;
  const PeEnv& env;
  PeCounters& counters;
  PayloadPool& pool;
};

/// Writes the op records of one component, numbered in the order in which its process emits them.
class RecordWriter {
 public:
  RecordWriter(const PeEnv& env, Box box)
      : recorder_(env.recorder), component_(env.component_base + static_cast<std::uint32_t>(box)), pe_(env.rank) {}
  explicit operator bool() const { return recorder_ != nullptr; }

  /// A record with component, number, PE and times set.
  OpRecord blank(OpKind kind, OpName name, Ps start, Ps end);
  /// A record of the token's present stage, which the engine was handed at `ready`.
  OpRecord of(const TileToken& token, OpKind kind, OpName name, Ps ready, Ps start, Ps end);
  void emit(OpRecord&& r) { recorder_->emit(std::move(r)); }

 private:
  OpRecorder* recorder_;
  std::uint32_t component_;
  std::uint32_t pe_;
  std::uint64_t number_ = 0;
};

/// A box with one SC_METHOD that decides over everything it has been told, and sleeps until the next thing is
/// due. Callbacks append and wake; an exception of the process goes to the platform's fault sink.
class DecidingBox : public sc_core::sc_module {
 protected:
  DecidingBox(const sc_core::sc_module_name& name, const BoxContext& context, Box box);

  /// One decision at time `now`. It has to wake itself again for everything that is still to come.
  virtual void decide(Ps now, std::uint64_t delta) = 0;

  Box box() const { return box_; }
  const PeParams& params() const { return context_.params; }
  const PeEnv& env() const { return context_.env; }
  PayloadPool& pool() { return context_.pool; }
  PeCounters& counters() { return context_.counters; }
  EngineAccount& account(EngineKind k) { return context_.counters.account(k); }
  RecordWriter& records() { return records_; }
  void wake_at(Ps when) { wake_.at(when, now_ps()); }
  void wake_at(Ps when, Ps now) { wake_.at(when, now); }
  static sc_core::sc_time delay_until(Ps at, Ps now) { return at <= now ? sc_core::SC_ZERO_TIME : until(at); }

 private:
  void activate();

  Box box_;
  BoxContext context_;
  RecordWriter records_;
  Wake wake_;
};

/// A box that takes tokens, and signals from other boxes.
class TokenEngine : public DecidingBox, protected ProtocolFwIf<TokenProtocol>, protected ProtocolFwIf<SignalProtocol> {
 public:
  ProtocolTargetSocket<TokenProtocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND> token_in;
  /// Bound to dma, fetch_store, gemm, math and ipcq in this order.
  OneWayInitiatorSocket<TokenProtocol, 0> token_out;
  ProtocolTargetSocket<SignalProtocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND> signal_in;
  /// Bound to scheduler, dma, fetch_store, gemm, math and ipcq in this order.
  OneWayInitiatorSocket<SignalProtocol, 0> signal_out;

 protected:
  TokenEngine(const sc_core::sc_module_name& name, const BoxContext& context, Box box);

  /// A token will be here at `at`. Called in the caller's process: append and wake only.
  virtual void on_token(TileToken& token, Ps at) = 0;
  virtual void on_signal(const Signal& signal, Ps at);

  /// The token's present stage ends at `at`: hands it to the engine of the next stage or reports it done.
  /// Returns true when the next stage is this engine's own; the token then stays.
  bool pass_on(TileToken& token, Ps at, Ps now);
  /// Hands a token to the engine of its present stage.
  void send(TileToken& token, Ps at, Ps now);
  void raise(Box to, Signal signal, Ps at, Ps now);

  tlm::tlm_sync_enum nb_transport_fw(TileToken& token, TokenPhase& phase, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(Signal& signal, SignalPhase& phase, sc_core::sc_time& delay) override;
  void end_of_elaboration() override;

 private:
  std::array<tlm::tlm_fw_nonblocking_transport_if<TileToken, TokenPhase>*, kBoxes> token_to_{};
  std::array<tlm::tlm_fw_nonblocking_transport_if<Signal, SignalPhase>*, kBoxes> signal_to_{};
};

}  // namespace kb
