// First-fit allocation with coalescing, one instance per memory region.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace kb {

/// Hands out ranges of [begin, begin + bytes). Sizes are rounded up to the alignment.
class Allocator {
 public:
  /// `name` stands for the region in messages, e.g. "tray.sip0.cube0.hbm3".
  Allocator(std::string name, std::uint64_t begin, std::uint64_t bytes, std::uint64_t alignment);

  /// The lowest range that fits. Throws InputError naming `what`, the size asked for and the largest free range.
  std::uint64_t allocate(std::uint64_t bytes, const std::string& what);
  /// Throws InputError when nothing was allocated at `address`.
  void free(std::uint64_t address);

  std::uint64_t in_use() const { return in_use_; }
  std::uint64_t largest_free() const;

 private:
  std::string name_;
  std::uint64_t alignment_;
  std::uint64_t in_use_ = 0;
  std::map<std::uint64_t, std::uint64_t> free_;  // address -> bytes, never adjacent
  std::map<std::uint64_t, std::uint64_t> used_;
};

}  // namespace kb
