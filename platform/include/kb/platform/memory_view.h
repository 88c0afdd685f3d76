// Untimed access to the machine's memories, as a PE sees them.
#pragma once

#include <kb/tlm_if/handle.h>

#include <cstddef>
#include <cstdint>

namespace kb {

/// What the data pass reads and writes. `addr` is an offset into the TCM of `pe`, or a virtual address that the
/// MMU of `pe` translates. Implementations throw ModelError for an address that is not backed by memory.
class MemoryView {
 public:
  virtual ~MemoryView() = default;
  virtual void read(std::uint32_t pe, Space space, std::uint64_t addr, void* to, std::size_t bytes) = 0;
  virtual void write(std::uint32_t pe, Space space, std::uint64_t addr, const void* from, std::size_t bytes) = 0;
};

}  // namespace kb
