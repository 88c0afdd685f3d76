// summary.json and the table on the terminal: what a run was, how long it took and where the time went.
#pragma once

#include <kb/tlm_if/run_stats.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kb {

/// A value of a parameter, a further key or a table's cell.
using SummaryValue = std::variant<std::int64_t, double, bool, std::string>;
using SummaryItems = std::vector<std::pair<std::string, SummaryValue>>;

/// Counters of launches that ran one after the other, added up.
struct LaunchTotals {
  Ps length = 0;                                   // sum of the launches' kernel times
  std::uint64_t pes = 0;                           // PEs of the largest launch
  std::array<EngineTime, kEngineKinds> engines{};  // over launches and PEs; each totals the kernel times of all PEs
  DispatchCounts dispatch;                         // over PEs
  double cycles_max_pe = 0;                        // dispatch cycles of the PE that spent most
  std::uint64_t dma_reads = 0, dma_read_bytes = 0, dma_writes = 0, dma_write_bytes = 0;
  std::uint64_t ipcq_sends = 0, ipcq_recvs = 0, ipcq_bytes = 0;
  std::uint64_t macs_useful = 0, macs_padded = 0, math_elements = 0;
  std::uint64_t tile_stages = 0, messages = 0;
  Bounds bounds;                 // sums, since the launches ran in turn; ratio = length / the largest
  std::vector<LinkStats> links;  // by name, in the order of the first launch
};
LaunchTotals totals_of(const std::vector<const LaunchResult*>& launches);

/// Busy time of an engine over the time that it was there, in [0, 1].
double utilization_of(const EngineTime& time);

struct SummaryTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<SummaryValue>> rows;
};

/// All that the summary of a run shows (spec 7.2). What depends on the machine it ran on, and not on the model,
/// is in `wall_s`, `activations`, `peak_rss_mb` and `version` only.
struct RunSummary {
  std::string bench;
  SummaryItems params;
  std::string topology;
  std::string mode;
  std::uint64_t seed = 1;
  std::string version;
  std::string status = "done";  // done, failed, interrupted
  std::string message;          // why, when not done
  double latency_ns = 0;
  double wall_s = 0;
  std::uint64_t activations = 0;
  double peak_rss_mb = 0;
  LaunchTotals totals;

  struct NumericsVerdict {
    double max_abs_err = 0, rel_rmse = 0, tolerance = 0;
    bool pass = true;
  };
  std::optional<NumericsVerdict> numerics;  // absent: nothing was computed

  struct OpLogDigest {
    std::uint64_t records = 0;
    std::uint64_t hash = 0;  // op_log_hash() of its lines
  };
  std::optional<OpLogDigest> op_log;

  SummaryItems extra;  // further keys of the bench
  std::vector<SummaryTable> tables;
  std::string verdict;  // a sentence on what bounds the run, for the terminal
};

/// The text of summary.json, keys in the order of spec 7.2, times in ns with three decimals.
std::string summary_json(const RunSummary& summary);

/// The summary for people, up to 100 columns wide, lines ending in '\n'. The percentages of an engine's row are of its
/// time over all PEs and add up to 100.
std::string summary_table(const RunSummary& summary);

}  // namespace kb
