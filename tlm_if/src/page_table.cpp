#include <kb/tlm_if/page_table.h>

#include <algorithm>

namespace kb {

void PageTable::map(std::uint64_t va, std::uint64_t pa, std::uint64_t bytes, const std::string& what) {
  entries_[va] = Entry{pa, bytes, what};
}

void PageTable::unmap(std::uint64_t va) { entries_.erase(va); }

PhysicalRun PageTable::translate(std::uint64_t va, std::uint64_t bytes) const {
  auto it = entries_.upper_bound(va);
  if (it == entries_.begin()) return {};
  --it;
  const std::uint64_t into = va - it->first;
  if (into >= it->second.bytes) return {};
  PhysicalRun run{it->second.pa + into, std::min(bytes, it->second.bytes - into)};
  while (run.bytes < bytes) {
    const auto next = std::next(it);
    if (next == entries_.end() || next->first != it->first + it->second.bytes ||
        next->second.pa != it->second.pa + it->second.bytes)
      break;
    run.bytes = std::min(bytes, run.bytes + next->second.bytes);
    it = next;
  }
  return run;
}

std::string PageTable::describe(std::uint64_t va) const {
  if (entries_.empty()) return "nothing is mapped";
  auto it = entries_.upper_bound(va);
  if (it != entries_.begin()) --it;
  return "nearest mapping: " + it->second.what + " at " + std::to_string(it->first) + ", " +
         std::to_string(it->second.bytes) + " bytes";
}

}  // namespace kb
