// Moves tensors, and rectangles of them, between a memory view and dense buffers.
#pragma once

#include <kb/platform/memory_view.h>

#include <cstdint>
#include <vector>

namespace kb {

/// A rectangle of elements in memory. Steps in elements, 0 or above.
struct Rect {
  std::uint32_t pe = 0;
  Space space = Space::tcm;
  std::uint64_t addr = 0;  // of the first element
  std::uint32_t element = 4;
  std::int64_t row_step = 0, col_step = 0;
  std::int64_t rows = 0, cols = 0;
};

/// Gathers and scatters raw elements. A dense rectangle is one access; rows, or columns where those are the
/// dense ones, are one each; a step of 0 repeats what is read once.
class TensorIo {
 public:
  explicit TensorIo(MemoryView& memory) : memory_(memory) {}

  /// Row-major, densely packed into `to`.
  void gather(const Rect& rect, unsigned char* to);
  /// Throws ModelError for a rectangle that repeats elements.
  void scatter(const Rect& rect, const unsigned char* from);

  /// All elements of a handle in logical row-major order, h.bytes() bytes.
  void gather(std::uint32_t pe, const TensorHandle& h, unsigned char* to);
  void scatter(std::uint32_t pe, const TensorHandle& h, const unsigned char* from);

 private:
  template <typename Visit>
  void for_planes(std::uint32_t pe, const TensorHandle& h, Visit visit);

  MemoryView& memory_;
  std::vector<unsigned char> span_, turned_;
};

}  // namespace kb
