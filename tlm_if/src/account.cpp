#include <kb/tlm_if/account.h>

namespace kb {

const char* name_of(Cause c) {
  static constexpr const char* kNames[kCauses] = {"operands_dma",  "operands_fetch", "operands_gemm", "operands_math",
                                                  "operands_ipcq", "hazard",         "buffer",        "engine",
                                                  "credit",        "command_queue",  "dispatch"};
  return kNames[static_cast<std::size_t>(c)];
}

}  // namespace kb
