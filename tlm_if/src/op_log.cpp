#include <kb/tlm_if/op_log.h>

namespace kb {

const char* name_of(OpKind k) {
  static constexpr const char* kNames[] = {"memory", "gemm", "math", "ipcq", "control"};
  return kNames[static_cast<int>(k)];
}

const char* name_of(OpName n) {
  static constexpr const char* kNames[] = {"dma_read", "dma_write",  "fetch",  "store",   "mem_read",
                                           "mem_write", "gemm",      "math",   "send",    "recv",
                                           "slot_write", "credit",   "command", "command_done", "launch",
                                           "launch_done"};
  return kNames[static_cast<int>(n)];
}

}  // namespace kb
