#include <kb/tlm_if/address_map.h>

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/machine_info.h>

namespace kb {

namespace {
constexpr std::uint64_t kAlign = 1ull << 30;
std::uint64_t align_up(std::uint64_t x) { return (x + kAlign - 1) / kAlign * kAlign; }
std::string hex(std::uint64_t v) {
  static const char* digits = "0123456789abcdef";
  std::string s;
  do {
    s.insert(s.begin(), digits[v & 15]);
    v >>= 4;
  } while (v != 0);
  return "0x" + s;
}
}  // namespace

AddressMap::AddressMap(const Geometry& g) : g_(g) {
  if (g.sips > (1u << kSipBits))
    throw InputError("address map: found " + std::to_string(g.sips) + " SIPs; allowed: at most 16 (4 address bits)");
  if (g.cubes > kCubeDies)
    throw InputError("address map: found " + std::to_string(g.cubes) + " cubes per SIP; allowed: at most 16 (dies 0..15)");
  tcm_base_ = align_up(g.slice_bytes * g.pes);
  sram_base_ = align_up(tcm_base_ + g.tcm_bytes * g.pes);
  queue_base_ = align_up(sram_base_ + g.sram_bytes);
  end_ = queue_base_ + g.queue_bytes * g.pes;
  if (g.slice_bytes >= (1ull << kOffsetBits) || end_ > (1ull << kOffsetBits))
    throw InputError("address map: found " + std::to_string(end_) + " bytes in a cube; allowed: a window of 4 TiB");
}

std::uint64_t AddressMap::hbm(std::uint32_t sip, std::uint32_t cube, std::uint32_t slice, std::uint64_t offset) const {
  return base(sip, cube) + slice * g_.slice_bytes + offset;
}
std::uint64_t AddressMap::tcm(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe, std::uint64_t offset) const {
  return base(sip, cube) + tcm_base_ + pe * g_.tcm_bytes + offset;
}
std::uint64_t AddressMap::sram(std::uint32_t sip, std::uint32_t cube, std::uint64_t offset) const {
  return base(sip, cube) + sram_base_ + offset;
}
std::uint64_t AddressMap::queue(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe, std::uint64_t offset) const {
  return base(sip, cube) + queue_base_ + pe * g_.queue_bytes + offset;
}

Decoded AddressMap::decode(std::uint64_t address) const {
  Decoded d;
  const std::uint64_t sip = address >> (kOffsetBits + kDieBits);
  d.die = static_cast<std::uint32_t>((address >> kOffsetBits) & ((1u << kDieBits) - 1));
  if (sip >= g_.sips || d.die >= g_.cubes) return d;
  d.sip = static_cast<std::uint32_t>(sip);
  const std::uint64_t off = address & ((1ull << kOffsetBits) - 1);
  auto units = [&](RegionKind kind, std::uint64_t from, std::uint64_t size, std::uint32_t count) {
    if (off < from || off >= from + size * count) return false;
    d.kind = kind;
    d.unit = static_cast<std::uint32_t>((off - from) / size);
    d.offset = (off - from) % size;
    d.region_bytes = size;
    return true;
  };
  if (units(RegionKind::hbm, 0, g_.slice_bytes, g_.pes)) return d;
  if (units(RegionKind::tcm, tcm_base_, g_.tcm_bytes, g_.pes)) return d;
  if (units(RegionKind::sram, sram_base_, g_.sram_bytes, 1)) return d;
  units(RegionKind::queue, queue_base_, g_.queue_bytes, g_.pes);
  return d;
}

std::string AddressMap::describe(std::uint64_t address) const {
  const Decoded d = decode(address);
  const std::string where = cube_name(d.sip, d.die);
  switch (d.kind) {
    case RegionKind::hbm: return where + ".hbm" + std::to_string(d.unit) + "+" + hex(d.offset);
    case RegionKind::tcm: return where + ".pe" + std::to_string(d.unit) + ".tcm+" + hex(d.offset);
    case RegionKind::sram: return where + ".sram+" + hex(d.offset);
    case RegionKind::queue: return where + ".pe" + std::to_string(d.unit) + ".ipcq+" + hex(d.offset);
    case RegionKind::none: break;
  }
  const std::uint64_t sip = address >> (kOffsetBits + kDieBits);
  const std::uint32_t die = static_cast<std::uint32_t>((address >> kOffsetBits) & ((1u << kDieBits) - 1));
  std::string nearest;
  if (sip >= g_.sips)
    nearest = sip_name(static_cast<std::uint32_t>(g_.sips - 1)) + " is the last SIP";
  else if (die >= g_.cubes)
    nearest = cube_name(static_cast<std::uint32_t>(sip), g_.cubes - 1) + " is the last cube of its SIP";
  else {
    const std::uint64_t off = address & ((1ull << kOffsetBits) - 1);
    const std::uint64_t hbm_end = g_.slice_bytes * g_.pes, tcm_end = tcm_base_ + g_.tcm_bytes * g_.pes;
    const std::string cube = cube_name(static_cast<std::uint32_t>(sip), die);
    if (off < tcm_base_)
      nearest = cube + ".hbm" + std::to_string(g_.pes - 1) + " ends at " + hex(base(static_cast<std::uint32_t>(sip), die) + hbm_end);
    else if (off < sram_base_)
      nearest = cube + ".pe" + std::to_string(g_.pes - 1) + ".tcm ends at " + hex(base(static_cast<std::uint32_t>(sip), die) + tcm_end);
    else if (off < queue_base_)
      nearest = cube + ".sram ends at " + hex(base(static_cast<std::uint32_t>(sip), die) + sram_base_ + g_.sram_bytes);
    else
      nearest = cube + ".pe" + std::to_string(g_.pes - 1) + ".ipcq ends at " + hex(base(static_cast<std::uint32_t>(sip), die) + end_);
  }
  return hex(address) + " (nothing there; nearest: " + nearest + ")";
}

}  // namespace kb
