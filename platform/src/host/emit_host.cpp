#include <kb/kernels/emit_port.h>
#include <kb/platform/emit_host.h>
#include <kb/tlm_if/errors.h>

namespace kb {

LaunchResult EmitHost::launch(const KernelProgram& program, const LaunchOptions& options) {
  LaunchOptions checked = options;
  checked.pes = participants(options);
  return emit_launch(machine(), program, checked);
}

LaunchResult EmitHost::run_transfers(const std::vector<DirectTransfer>&) {
  throw InputError("--mode emit: found a bench that only moves data; allowed: --mode timing or data");
}

Ps EmitHost::host_copy(bool, std::uint64_t, std::uint64_t) {
  throw InputError("--mode emit: found a bench that only moves data; allowed: --mode timing or data");
}

}  // namespace kb
