// The host's view of the machine, which benches are written against: tensors, launches, results.
#pragma once

#include <kb/tlm_if/handle.h>
#include <kb/tlm_if/machine_info.h>
#include <kb/tlm_if/program.h>
#include <kb/tlm_if/run_stats.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// One PE's part of a tensor, stored densely in that PE's HBM slice or TCM.
struct Shard {
  std::uint32_t pe = 0;      // rank of the owner
  Shape shape;
  std::uint64_t addr = 0;    // hbm: virtual address, the same seen from every PE; tcm: offset in the owner's TCM
};

/// A tensor as the host allocated it: a list of shards. How shards tile the logical tensor is the
/// caller's knowledge (see kernels/placement.h for the usual placements).
struct Tensor {
  std::uint32_t id = 0;
  std::string name;
  DType dtype = DType::f16;
  Space space = Space::hbm;
  std::vector<Shard> shards;
};

/// Which neighbour a queue direction means, for one PE (spec 5.1).
struct QueueRoute {
  std::uint32_t from = 0;  // rank
  Direction direction = Direction::N;       // as the sender names it
  std::uint32_t to = 0;    // rank
  Direction arrives_as = Direction::S;      // as the receiver names it
};

/// Options of one launch.
struct LaunchOptions {
  std::vector<std::uint32_t> pes;    // ranks that run the kernel, ascending; empty: all
  std::vector<QueueRoute> queues;    // installed before the launch
};

/// Implemented by the platform; benches and users' own programs see this only.
class Host {
 public:
  virtual ~Host() = default;

  virtual const MachineInfo& machine() const = 0;
  virtual Mode mode() const = 0;

  /// Allocates one dense shard per entry (first fit, per PE). Shapes may differ; empty shapes take no memory.
  /// `space` is hbm or tcm. Throws InputError naming the tensor, the size and what is free.
  virtual Tensor allocate(const std::string& name, DType dtype, Space space,
                          const std::vector<std::pair<std::uint32_t, Shape>>& shards) = 0;
  /// Throws InputError for what is not allocated.
  virtual void free(const Tensor& tensor) = 0;

  /// Raw bytes of one shard in its dtype, row-major; data mode only (ignored otherwise). Untimed.
  virtual void write(const Tensor& tensor, std::size_t shard, const void* bytes, std::size_t size) = 0;
  virtual void read(const Tensor& tensor, std::size_t shard, void* bytes, std::size_t size) = 0;

  /// Runs the kernel on the chosen PEs to its end and returns the counters of this launch.
  virtual LaunchResult launch(const KernelProgram& program, const LaunchOptions& options = {}) = 0;

  /// A transfer issued directly at a PE's DMA engine, without cpu or dispatch (dma-contention, probe).
  struct DirectTransfer {
    std::uint32_t pe = 0;       // rank of the issuer
    bool write = false;
    std::uint64_t addr = 0;     // virtual
    std::uint64_t bytes = 0;
  };
  /// Runs the lists (each PE's in order, all PEs from the same time); returns the time from the first issue
  /// to the last completion, with the counters.
  virtual LaunchResult run_transfers(const std::vector<DirectTransfer>& transfers) = 0;

  /// A timed copy between the host port and memory; returns its latency (spec 7.2).
  virtual Ps host_copy(bool to_device, std::uint64_t addr, std::uint64_t bytes) = 0;
};

}  // namespace kb
