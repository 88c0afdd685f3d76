// Virtual to physical pages, filled by the host before a launch and read by the MMUs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kb {

/// A piece of a virtual range that is contiguous in physical memory.
struct PhysicalRun {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// Maps whole ranges of pages; all PEs of a platform share one table.
class PageTable {
 public:
  /// Maps [va, va + bytes) to [pa, pa + bytes); both aligned to the page. `what` names it in messages.
  void map(std::uint64_t va, std::uint64_t pa, std::uint64_t bytes, const std::string& what);
  void unmap(std::uint64_t va);
  /// The run at `va`, at most `bytes` long, cut where the next mapping is not contiguous; bytes = 0 if unmapped.
  PhysicalRun translate(std::uint64_t va, std::uint64_t bytes) const;
  /// The nearest mapping in words, for messages.
  std::string describe(std::uint64_t va) const;

 private:
  struct Entry {
    std::uint64_t pa = 0;
    std::uint64_t bytes = 0;
    std::string what;
  };
  std::map<std::uint64_t, Entry> entries_;  // by virtual address
};

}  // namespace kb
