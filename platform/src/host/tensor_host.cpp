#include <kb/platform/machine.h>
#include <kb/platform/tensor_host.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {
constexpr std::uint64_t kVirtualEnd = 1ull << 50;
constexpr std::uint64_t kTcmAlignment = 64;

std::uint64_t bytes_of(const std::string& name, const Shape& shape, DType dtype) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(shape.numel()), static_cast<std::uint64_t>(size_of(dtype)),
                             &bytes))
    throw InputError(name + ": found shape " + shape.str() + "; allowed: a size that fits 64 bits");
  return bytes;
}
}  // namespace

TensorHost::TensorHost(const SystemConfig& config, Mode mode)
    : machine_(machine_info(config)),
      mode_(mode),
      page_bytes_(config.pe.mmu.page_bytes),
      map_(address_map(config)),
      virtual_("the virtual address space", page_bytes_, kVirtualEnd - page_bytes_, page_bytes_) {
  for (std::uint32_t rank = 0; rank < machine_.total_pes(); ++rank) {
    const PeId id = machine_.pe_of(rank);
    const std::uint64_t pages = machine_.slice_bytes / page_bytes_;
    const std::string slice = cube_name(id.sip, id.cube) + ".hbm" + std::to_string(id.pe);
    hbm_.emplace_back(slice, map_.hbm(id.sip, id.cube, id.pe), pages * page_bytes_, page_bytes_);
    tcm_.emplace_back(pe_name(id) + ".tcm", machine_.scratch_bytes, machine_.tcm_bytes - machine_.scratch_bytes,
                      kTcmAlignment);
  }
}

Tensor TensorHost::allocate(const std::string& name, DType dtype, Space space,
                            const std::vector<std::pair<std::uint32_t, Shape>>& shards) {
  if (space == Space::sram) throw InputError("tensor " + name + ": found space sram; allowed: hbm, tcm");
  Tensor t;
  t.id = next_id_++;
  t.name = name;
  t.dtype = dtype;
  t.space = space;
  for (const auto& [rank, shape] : shards) {
    const std::string what = "tensor " + name + " " + shape.str() + " " + name_of(dtype);
    if (rank >= machine_.total_pes())
      throw InputError(what + ": found a shard on PE " + std::to_string(rank) + "; allowed: 0 to " +
                       std::to_string(machine_.total_pes() - 1));
    Shard s{rank, shape, 0};
    const std::uint64_t bytes = bytes_of(what, shape, dtype);
    if (bytes > 0 && space == Space::tcm) {
      s.addr = tcm_[rank].allocate(bytes, what);
    } else if (bytes > 0) {
      const std::uint64_t physical = hbm_[rank].allocate(bytes, what);
      const std::uint64_t mapped = (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
      s.addr = virtual_.allocate(mapped, what);
      pages_.map(s.addr, physical, mapped, "tensor " + name);
    }
    t.shards.push_back(s);
  }
  return t;
}

void TensorHost::free(const Tensor& tensor) {
  for (const auto& s : tensor.shards) {
    if (s.shape.numel() == 0) continue;
    if (tensor.space == Space::tcm) {
      tcm_[s.pe].free(s.addr);
    } else {
      const PhysicalRun run = pages_.translate(s.addr, 1);
      if (run.bytes == 0)
        throw InputError("tensor " + tensor.name + ": found a free of address " + std::to_string(s.addr) +
                         ", which is not allocated; allowed: each allocation freed once");
      hbm_[s.pe].free(run.address);
      pages_.unmap(s.addr);
      virtual_.free(s.addr);
    }
  }
}

std::uint64_t TensorHost::physical_address(const Tensor& tensor, std::size_t shard) const {
  if (shard >= tensor.shards.size())
    throw InputError("tensor " + tensor.name + ": found shard " + std::to_string(shard) + "; allowed: below " +
                     std::to_string(tensor.shards.size()));
  const Shard& s = tensor.shards[shard];
  const PeId id = machine_.pe_of(s.pe);
  if (tensor.space == Space::tcm) return map_.tcm(id.sip, id.cube, id.pe, s.addr);
  const PhysicalRun run = pages_.translate(s.addr, 1);
  if (run.bytes == 0)
    throw InputError("tensor " + tensor.name + ": found shard " + std::to_string(shard) +
                     " without memory; allowed: an allocated one that is not empty");
  return run.address;
}

std::uint64_t TensorHost::map(std::uint64_t physical, std::uint64_t bytes, const std::string& what) {
  const std::uint64_t into = physical % page_bytes_;
  const std::uint64_t mapped = (into + bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  const std::uint64_t address = virtual_.allocate(mapped, what);
  pages_.map(address, physical - into, mapped, what);
  return address + into;
}

std::vector<std::uint32_t> TensorHost::participants(const LaunchOptions& options) const {
  std::vector<std::uint32_t> pes = options.pes;
  if (pes.empty())
    for (std::uint32_t r = 0; r < machine_.total_pes(); ++r) pes.push_back(r);
  for (std::size_t i = 0; i < pes.size(); ++i) {
    if (pes[i] >= machine_.total_pes())
      throw InputError("launch: found PE rank " + std::to_string(pes[i]) + "; allowed: 0 to " +
                       std::to_string(machine_.total_pes() - 1));
    if (i > 0 && pes[i] <= pes[i - 1])
      throw InputError("launch: found PE rank " + std::to_string(pes[i]) + " after " + std::to_string(pes[i - 1]) +
                       "; allowed: ascending ranks, each once");
  }
  return pes;
}

const Shard& TensorHost::shard_of(const Tensor& tensor, std::size_t shard, std::size_t bytes) const {
  if (shard >= tensor.shards.size())
    throw InputError("tensor " + tensor.name + ": found shard " + std::to_string(shard) + "; allowed: below " +
                     std::to_string(tensor.shards.size()));
  const Shard& s = tensor.shards[shard];
  const std::uint64_t want = bytes_of("tensor " + tensor.name, s.shape, tensor.dtype);
  if (bytes != want)
    throw InputError("tensor " + tensor.name + ": found " + std::to_string(bytes) + " bytes for shard " +
                     std::to_string(shard) + " " + s.shape.str() + "; allowed: " + std::to_string(want));
  return s;
}

}  // namespace kb
