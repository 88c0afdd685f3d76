// A host without a machine for tests of benches: allocates addresses, counts commands.
#pragma once

#include <kb/kernels/emit_port.h>
#include <kb/tlm_if/host.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kb::test {

/// Emit mode with addresses handed out one after the other; keeps every launch.
class CountingHost : public Host {
 public:
  explicit CountingHost(const MachineInfo& machine) : machine_(machine) {}

  const MachineInfo& machine() const override { return machine_; }
  Mode mode() const override { return Mode::emit; }
  Tensor allocate(const std::string& name, DType dtype, Space space,
                  const std::vector<std::pair<std::uint32_t, Shape>>& shards) override {
    Tensor t;
    t.id = ++last_id_;
    t.name = name;
    t.dtype = dtype;
    t.space = space;
    for (const auto& s : shards) {
      std::uint64_t& next =
          space == Space::hbm ? next_hbm_ : next_tcm_.try_emplace(s.first, machine_.scratch_bytes).first->second;
      t.shards.push_back({s.first, s.second, next});
      next += (static_cast<std::uint64_t>(s.second.numel()) * size_of(dtype) + 255) / 256 * 256;
    }
    return t;
  }
  void free(const Tensor&) override {}
  void write(const Tensor&, std::size_t, const void*, std::size_t) override {}
  void read(const Tensor&, std::size_t, void*, std::size_t) override {}
  LaunchResult launch(const KernelProgram& program, const LaunchOptions& options) override {
    last_options = options;
    return emit_launch(machine_, program, options);
  }
  LaunchResult run_transfers(const std::vector<DirectTransfer>&) override { return {}; }
  Ps host_copy(bool, std::uint64_t, std::uint64_t) override { return 0; }

  LaunchOptions last_options;

 private:
  MachineInfo machine_;
  std::uint32_t last_id_ = 0;
  std::uint64_t next_hbm_ = 1 << 20;
  std::map<std::uint32_t, std::uint64_t> next_tcm_;
};

}  // namespace kb::test
