// The 51-bit physical address: [50:47] sip, [46:42] die, [41:0] offset (spec 1.3).
#pragma once

#include <cstdint>
#include <string>

namespace kb {

/// What an address decodes to.
enum class RegionKind : std::uint8_t { none, hbm, tcm, sram, queue };

struct Decoded {
  RegionKind kind = RegionKind::none;
  std::uint32_t sip = 0;
  std::uint32_t die = 0;         // cube, for dies 0..15
  std::uint32_t unit = 0;        // HBM slice, PE of a TCM or queue window; 0 for SRAM
  std::uint64_t offset = 0;      // inside the region
  std::uint64_t region_bytes = 0;
};

/// Geometry of a cube's 4 TiB window, in one table: HBM slices first, then TCMs, SRAM, queue windows.
class AddressMap {
 public:
  static constexpr int kOffsetBits = 42;
  static constexpr int kDieBits = 5;
  static constexpr int kSipBits = 4;
  static constexpr std::uint32_t kCubeDies = 16;  // dies 0..15 are cubes, 16..20 IO chiplets

  struct Geometry {
    std::uint32_t sips = 1, cubes = 1, pes = 1;
    std::uint64_t slice_bytes = 6ull << 30;
    std::uint64_t tcm_bytes = 16ull << 20;
    std::uint64_t sram_bytes = 32ull << 20;
    std::uint64_t queue_bytes = 1ull << 20;  // queue window of a PE
  };

  AddressMap() = default;
  /// Throws InputError when the counts or sizes do not fit the address.
  explicit AddressMap(const Geometry& g);

  const Geometry& geometry() const { return g_; }
  std::uint64_t hbm(std::uint32_t sip, std::uint32_t cube, std::uint32_t slice, std::uint64_t offset = 0) const;
  std::uint64_t tcm(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe, std::uint64_t offset = 0) const;
  std::uint64_t sram(std::uint32_t sip, std::uint32_t cube, std::uint64_t offset = 0) const;
  std::uint64_t queue(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe, std::uint64_t offset = 0) const;

  /// kind = none where nothing lies at the address.
  Decoded decode(std::uint64_t address) const;
  /// Region and offset in words, with the nearest region for an address that decodes to nothing.
  std::string describe(std::uint64_t address) const;

 private:
  std::uint64_t base(std::uint32_t sip, std::uint32_t die) const {
    return (static_cast<std::uint64_t>(sip) << (kOffsetBits + kDieBits)) | (static_cast<std::uint64_t>(die) << kOffsetBits);
  }
  Geometry g_;
  std::uint64_t tcm_base_ = 0, sram_base_ = 0, queue_base_ = 0, end_ = 0;  // offsets in a cube's window
};

}  // namespace kb
