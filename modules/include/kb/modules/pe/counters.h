// The performance counters of a PE: one closed account per engine, and counts of what was done. Each engine
// writes its own fields only; nothing of the model reads them.
#pragma once

#include <kb/modules/pe/latency_split.h>
#include <kb/tlm_if/protocol.h>
#include <kb/tlm_if/run_stats.h>

#include <array>
#include <string>

namespace kb {

/// The account of one engine: every picosecond from the launch's start is busy, stalled for a cause, or idle.
///
/// It is kept without watching the engine: when the engine starts on a token after a gap, the token's trail says
/// what it was waiting for during the gap (spec 2.1). Times come in order; what follows the last service is idle.
class EngineAccount {
 public:
  /// Empties the account; times before `start` do not count.
  void open(Ps start);
  /// Tells `split` of services from now on.
  void report(LatencySplitter& split, LatencyPart part) {
    split_ = &split;
    part_ = part;
  }

  /// The engine served `token` over [start, end]. The gap before is explained by the token's trail, and what
  /// the trail leaves open by `last`. `upstream` replaces the cause of a loop token's wait to be fed: for
  /// engines behind the GEMM that is the time in which their operand was being summed up.
  void serve(Ps start, Ps end, const TileToken& token, Cause last, Cause upstream = Cause::buffer);
  /// The engine served something else; the gap before was for `gap`.
  void serve(Ps start, Ps end, Cause gap);
  /// Stalled for `cause` from the end of what was accounted to `until`.
  void stall(Ps until, Cause cause);

  /// Nothing to do from the end of what was accounted to `until`.
  void rest(Ps until);
  /// As stall, but busy.
  void work(Ps until);

  /// Overlapping services: busy from the first begin to the last finish.
  void begin(Ps at, const TileToken& token, Cause last, Cause upstream = Cause::buffer);
  void begin(Ps at, Cause gap);
  void finish(Ps at);

  /// The closed account over [start, end]. Throws ModelError, naming the engine, when it does not close.
  EngineTime close(Ps start, Ps end, const std::string& name) const;
  Ps accounted_until() const { return until_; }

 private:
  void explain(Ps to, const TileToken& token, Cause last, Cause upstream);
  void busy(Ps start, Ps end);

  EngineTime time_;
  Ps start_ = 0;
  Ps until_ = 0;  // accounted up to here
  Ps begun_ = 0;  // overlapping services: start of the first
  std::uint32_t open_services_ = 0;
  LatencySplitter* split_ = nullptr;
  LatencyPart part_ = LatencyPart::idle;
};

struct PeCounters {
  std::array<EngineAccount, kEngineKinds> accounts;
  DispatchCounts dispatch;
  std::uint64_t dma_reads = 0, dma_read_bytes = 0, dma_writes = 0, dma_write_bytes = 0;
  std::uint64_t ipcq_sends = 0, ipcq_recvs = 0, ipcq_bytes = 0;
  std::uint64_t macs_useful = 0, macs_padded = 0, math_elements = 0;
  std::uint64_t tcm_read_bytes = 0, tcm_write_bytes = 0;
  std::uint64_t tile_stages = 0;
  std::uint64_t must_read_bytes = 0, must_write_bytes = 0;
  std::uint64_t streams = 0, stream_bytes = 0;
  Ps stream_ps = 0;
  std::uint64_t scratch_peak_bytes = 0;
  LatencySplitter split;
  Ps serial_ps = 0, gemm_ps = 0, math_ps = 0, dispatch_ps = 0;
  std::uint64_t activations = 0;  // of the PE's processes

  EngineAccount& account(EngineKind k) { return accounts[static_cast<std::size_t>(k)]; }
  /// Start of the launch's kernel time: all counts from zero.
  void open(Ps start);
};

}  // namespace kb
