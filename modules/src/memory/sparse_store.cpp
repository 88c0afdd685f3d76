#include <kb/modules/memory/sparse_store.h>

#include <algorithm>
#include <cstring>

namespace kb {

namespace {
/// Calls step(address, done, count) for the pieces of a range that lie in one page each.
template <typename Step>
void by_page(std::uint64_t address, std::uint64_t bytes, Step&& step) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t at = address + done;
    const std::uint64_t count = std::min(bytes - done, SparseStore::kPageBytes - at % SparseStore::kPageBytes);
    step(at, done, count);
    done += count;
  }
}
}  // namespace

unsigned char* SparseStore::page(std::uint64_t address) {
  auto& p = pages_[address / kPageBytes];
  if (!p) p = std::make_unique<unsigned char[]>(kPageBytes);  // zeroed
  return p.get();
}

void SparseStore::read(std::uint64_t address, unsigned char* to, std::uint64_t bytes) const {
  by_page(address, bytes, [&](std::uint64_t at, std::uint64_t done, std::uint64_t count) {
    const auto it = pages_.find(at / kPageBytes);
    if (it == pages_.end())
      std::memset(to + done, 0, count);
    else
      std::memcpy(to + done, it->second.get() + at % kPageBytes, count);
  });
}

void SparseStore::write(std::uint64_t address, const unsigned char* from, std::uint64_t bytes) {
  by_page(address, bytes, [&](std::uint64_t at, std::uint64_t done, std::uint64_t count) {
    std::memcpy(page(at) + at % kPageBytes, from + done, count);
  });
}

void SparseStore::read(std::uint64_t address, unsigned char* to, std::uint64_t bytes, const unsigned char* enable,
                       std::uint64_t enable_bytes) const {
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (enable[i % enable_bytes] != 0) read(address + i, to + i, 1);
}

void SparseStore::write(std::uint64_t address, const unsigned char* from, std::uint64_t bytes,
                        const unsigned char* enable, std::uint64_t enable_bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (enable[i % enable_bytes] != 0) write(address + i, from + i, 1);
}

}  // namespace kb
