// Counters of a launch, as summaries, reports and tests read them.
#pragma once

#include <kb/tlm_if/account.h>
#include <kb/tlm_if/cost_model.h>
#include <kb/tlm_if/machine_info.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// The engines of a PE that keep a closed account.
enum class EngineKind : std::uint8_t { cpu, scheduler, dma_read, dma_write, fetch, store, gemm, math, tcm_read, tcm_write, ipcq };
inline constexpr std::size_t kEngineKinds = 11;
const char* name_of(EngineKind k);

/// What a PE's time is split into, in the order in which they count: an instant belongs to the first that applies.
enum class LatencyPart : std::uint8_t {
  reduction,  // the oldest unfinished command merges partial results of PEs or waits for them; else
  gemm,       // the MAC array works
  math,       // the vector unit works
  transfer,   // the DMA moves data, or a message is moved or waited for
  dispatch,   // the cpu issues a command
  idle,       // none of these: TCM accesses, scheduler overhead, waits
};
inline constexpr std::size_t kLatencyParts = 6;
const char* name_of(LatencyPart p);
/// By LatencyPart.
using LatencySplit = std::array<Ps, kLatencyParts>;

/// One PE over one launch.
struct PeStats {
  PeId id;
  Ps start = 0;  // common start of the launch
  Ps done = 0;   // this PE's kernel returned and all its commands completed
  std::array<EngineTime, kEngineKinds> engines{};  // each totals the launch's kernel time
  DispatchCounts dispatch;
  std::uint64_t dma_reads = 0, dma_read_bytes = 0, dma_writes = 0, dma_write_bytes = 0;
  std::uint64_t ipcq_sends = 0, ipcq_recvs = 0, ipcq_bytes = 0;
  std::uint64_t macs_useful = 0;  // M*K*N exactly
  std::uint64_t macs_padded = 0;  // MAC-array slots occupied
  std::uint64_t math_elements = 0;
  std::uint64_t tcm_read_bytes = 0, tcm_write_bytes = 0;
  std::uint64_t tile_stages = 0;
  std::uint64_t must_read_bytes = 0, must_write_bytes = 0;  // what any plan of its commands must move
  std::uint64_t streams = 0;       // composites that streamed an operand from memory
  std::uint64_t stream_bytes = 0;  // what they read
  Ps stream_ps = 0;                // sum over them, first read issued to last read complete
  std::uint64_t scratch_peak_bytes = 0;  // most of the kernel's arena in use at once
  LatencySplit split{};            // adds up to the launch's kernel time
  Ps serial_ps = 0;    // dispatch + overheads + path latencies + uncontended stage times
  Ps compute_ps = 0;   // larger of MAC-array time and vector time
  Ps dispatch_ps = 0;
};

/// A memory channel or link over one launch.
struct LinkStats {
  std::string name;
  double bw_gbs = 0;
  std::uint64_t bytes = 0;
  Ps busy = 0;
};

struct Bounds {
  double compute_ns = 0, memory_ns = 0, tcm_ns = 0, dispatch_ns = 0, serial_ns = 0;
  std::string bound_by;
  double ratio = 0;  // latency / largest bound; 0 when there was no work
};

/// What a launch yields.
struct LaunchResult {
  Ps start = 0;
  Ps end = 0;  // last PE done
  std::vector<PeStats> pes;  // in rank order
  std::vector<LinkStats> links;
  Bounds bounds;
  std::uint64_t messages = 0;
  Ps latency() const { return end - start; }
};

}  // namespace kb
