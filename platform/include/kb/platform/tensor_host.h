// The part of Host that needs no simulation: allocation of tensors and the page table.
#pragma once

#include <kb/platform/allocator.h>
#include <kb/platform/config.h>
#include <kb/tlm_if/address_map.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/page_table.h>

#include <vector>

namespace kb {

/// Allocates shards first fit per PE, HBM by pages behind one virtual address space that all PEs share, TCM
/// above the scratch arena. Keeps the page table that the MMUs read.
class TensorHost : public Host {
 public:
  TensorHost(const SystemConfig& config, Mode mode);

  const MachineInfo& machine() const override { return machine_; }
  Mode mode() const override { return mode_; }
  Tensor allocate(const std::string& name, DType dtype, Space space,
                  const std::vector<std::pair<std::uint32_t, Shape>>& shards) override;
  void free(const Tensor& tensor) override;

  /// As Platform::physical_address and Platform::map.
  std::uint64_t physical_address(const Tensor& tensor, std::size_t shard) const;
  std::uint64_t map(std::uint64_t physical, std::uint64_t bytes, const std::string& what);

  const PageTable& page_table() const { return pages_; }
  const AddressMap& addresses() const { return map_; }

 protected:
  /// Checks the ranks of a launch and fills in "all". Throws InputError.
  std::vector<std::uint32_t> participants(const LaunchOptions& options) const;
  const Shard& shard_of(const Tensor& tensor, std::size_t shard, std::size_t bytes) const;

 private:
  MachineInfo machine_;
  Mode mode_;
  std::uint64_t page_bytes_;
  AddressMap map_;
  PageTable pages_;
  Allocator virtual_;
  std::vector<Allocator> hbm_;  // by rank
  std::vector<Allocator> tcm_;
  std::uint32_t next_id_ = 1;
};

}  // namespace kb
