#include <kb/tlm_if/run_stats.h>

namespace kb {

const char* name_of(LatencyPart p) {
  static constexpr const char* kNames[kLatencyParts] = {"reduction", "gemm", "math", "transfer", "dispatch", "idle"};
  return kNames[static_cast<std::size_t>(p)];
}

const char* name_of(EngineKind k) {
  static constexpr const char* kNames[kEngineKinds] = {"cpu",   "scheduler", "dma_read", "dma_write", "fetch", "store",
                                                       "gemm",  "math",      "tcm_read", "tcm_write", "ipcq"};
  return kNames[static_cast<std::size_t>(k)];
}

}  // namespace kb
