#include <kb/platform/allocator.h>

#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

Allocator::Allocator(std::string name, std::uint64_t begin, std::uint64_t bytes, std::uint64_t alignment)
    : name_(std::move(name)), alignment_(alignment) {
  if (bytes > 0) free_[begin] = bytes;
}

std::uint64_t Allocator::largest_free() const {
  std::uint64_t largest = 0;
  for (const auto& [address, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

std::uint64_t Allocator::allocate(std::uint64_t bytes, const std::string& what) {
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
  const std::uint64_t rounded = (size + alignment_ - 1) / alignment_ * alignment_;
  for (auto it = free_.begin(); rounded >= size && it != free_.end(); ++it) {
    if (it->second < rounded) continue;
    const std::uint64_t address = it->first;
    const std::uint64_t rest = it->second - rounded;
    free_.erase(it);
    if (rest > 0) free_[address + rounded] = rest;
    used_[address] = rounded;
    in_use_ += rounded;
    return address;
  }
  throw InputError(what + ": found " + std::to_string(bytes) + " bytes asked of " + name_ +
                   "; allowed: the largest free range of " + std::to_string(largest_free()) + " bytes (" +
                   std::to_string(in_use_) + " in use)");
}

void Allocator::free(std::uint64_t address) {
  const auto it = used_.find(address);
  if (it == used_.end())
    throw InputError(name_ + ": found a free of address " + std::to_string(address) +
                     ", which is not allocated; allowed: each allocation freed once");
  std::uint64_t begin = it->first, bytes = it->second;
  in_use_ -= bytes;
  used_.erase(it);
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto prev = std::prev(next);
    if (prev->first + prev->second == begin) {
      begin = prev->first;
      bytes += prev->second;
      free_.erase(prev);
    }
  }
  free_[begin] = bytes;
}

}  // namespace kb
