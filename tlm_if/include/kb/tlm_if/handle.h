// Tensor handles: what a kernel holds and what a command names.
#pragma once

#include <kb/tlm_if/dtype.h>
#include <kb/tlm_if/shape.h>

#include <cstdint>

namespace kb {

/// Number of a command in its PE, from 1 in issue order; 0 stands for "none".
using CommandId = std::uint64_t;

/// Where a handle's data lives. A `tcm` address is an offset into the PE's own TCM; `hbm` and `sram`
/// addresses are virtual and translated by the PE's MMU.
enum class Space : std::uint8_t { hbm, tcm, sram };

const char* name_of(Space s);

/// A tensor, or a view of one. Data is dense and row-major unless the strides say otherwise
/// (broadcast views have stride 0, transposed views swapped strides).
struct TensorHandle {
  std::uint32_t id = 0;  // unique in its PE and launch; views get ids of their own
  Shape shape;
  std::array<std::int64_t, Shape::kMaxRank> strides{};  // in elements
  DType dtype = DType::f32;
  Space space = Space::tcm;
  bool pinned = false;     // resident: an operand that is never streamed from HBM again
  std::uint64_t addr = 0;  // of the first element, bytes
  CommandId pending = 0;   // the command that produces it, if it may be unfinished
  std::uint32_t scope = 0; // scratch scope that owns the storage; 0: outlives the kernel

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype); }
  bool dense() const;
  /// Bytes from `addr` to the end of the last element touched; 0 for an empty tensor.
  std::uint64_t extent_bytes() const;
};

/// Row-major strides of `shape`.
std::array<std::int64_t, Shape::kMaxRank> dense_strides(const Shape& shape);

/// A dense handle.
TensorHandle make_handle(std::uint32_t id, const Shape& shape, DType dtype, Space space, std::uint64_t addr, bool pinned);

/// A half-open range of addresses in one space: the unit of hazard tracking (spec 2.3).
struct AddressRange {
  Space space = Space::tcm;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool overlaps(const AddressRange& o) const { return space == o.space && begin < o.end && o.begin < end; }
};

inline AddressRange range_of(const TensorHandle& h) { return {h.space, h.addr, h.addr + h.extent_bytes()}; }

}  // namespace kb
