// The host of emit mode: kernels run without a machine, and only their commands are counted (spec 3.3).
#pragma once

#include <kb/platform/tensor_host.h>

namespace kb {

/// Allocates as the real host does, ignores data, and counts commands, bytes and dispatch cycles of launches.
class EmitHost : public TensorHost {
 public:
  explicit EmitHost(const SystemConfig& config) : TensorHost(config, Mode::emit) {}

  void write(const Tensor&, std::size_t, const void*, std::size_t) override {}
  void read(const Tensor&, std::size_t, void*, std::size_t) override {}
  LaunchResult launch(const KernelProgram& program, const LaunchOptions& options) override;
  /// Throws InputError: there is nothing to count in a transfer.
  LaunchResult run_transfers(const std::vector<DirectTransfer>& transfers) override;
  Ps host_copy(bool to_device, std::uint64_t addr, std::uint64_t bytes) override;
};

}  // namespace kb
