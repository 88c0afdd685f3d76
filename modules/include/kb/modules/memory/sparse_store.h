// Bytes of a large memory: pages that appear when they are first written, zero before.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace kb {

class SparseStore {
 public:
  static constexpr std::uint64_t kPageBytes = 64 * 1024;

  void read(std::uint64_t address, unsigned char* to, std::uint64_t bytes) const;
  void write(std::uint64_t address, const unsigned char* from, std::uint64_t bytes);
  /// As above, only where the byte enable (0xff; repeated every `enable_bytes`) says so.
  void read(std::uint64_t address, unsigned char* to, std::uint64_t bytes, const unsigned char* enable,
            std::uint64_t enable_bytes) const;
  void write(std::uint64_t address, const unsigned char* from, std::uint64_t bytes, const unsigned char* enable,
             std::uint64_t enable_bytes);

  /// The page that holds `address`, allocated if need be; stays where it is for the store's life.
  unsigned char* page(std::uint64_t address);
  std::size_t pages() const { return pages_.size(); }

 private:
  std::unordered_map<std::uint64_t, std::unique_ptr<unsigned char[]>> pages_;  // looked up only
};

}  // namespace kb
