#include "tensor_io.h"

#include <kb/tlm_if/errors.h>

#include <cstring>
#include <string>

namespace kb {

namespace {

// A rectangle with gaps is read in one access while that is at most this many times its own size.
constexpr std::int64_t kMaxSpanFactor = 4;

void move_element(const unsigned char* from, unsigned char* to, std::uint32_t size) {
  switch (size) {
    case 1: *to = *from; break;
    case 2: std::memcpy(to, from, 2); break;
    default: std::memcpy(to, from, 4); break;
  }
}

/// `rows` x `cols` dense elements to `cols` x `rows`.
void turn(const unsigned char* from, unsigned char* to, std::int64_t rows, std::int64_t cols, std::uint32_t size) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      move_element(from + (r * cols + c) * size, to + (c * rows + r) * size, size);
}

void reserve(std::vector<unsigned char>& buffer, std::int64_t bytes) {
  if (buffer.size() < static_cast<std::size_t>(bytes)) buffer.resize(static_cast<std::size_t>(bytes));
}

}  // namespace

void TensorIo::gather(const Rect& r, unsigned char* to) {
  if (r.rows == 0 || r.cols == 0) return;
  const auto size = static_cast<std::int64_t>(r.element);
  const std::int64_t row_bytes = r.cols * size;
  if (r.rows > 1 && r.row_step == 0) {
    Rect one = r;
    one.rows = 1;
    gather(one, to);
    for (std::int64_t i = 1; i < r.rows; ++i) std::memcpy(to + i * row_bytes, to, static_cast<std::size_t>(row_bytes));
    return;
  }
  if (r.cols > 1 && r.col_step == 0) {
    Rect one = r;
    one.cols = 1;
    gather(one, to);
    for (std::int64_t i = r.rows; i-- > 0;)  // the last one first: sources lie below their copies
      for (std::int64_t c = r.cols; c-- > 0;) move_element(to + i * size, to + i * row_bytes + c * size, r.element);
    return;
  }
  if (r.cols > 1 && r.col_step != 1 && (r.rows == 1 || r.row_step == 1)) {  // columns are dense, or there is one row
    if (r.rows == 1) {
      Rect column = r;
      column.rows = r.cols;
      column.row_step = r.col_step;
      column.cols = 1;
      column.col_step = 1;
      gather(column, to);
      return;
    }
    Rect columns = r;
    std::swap(columns.rows, columns.cols);
    std::swap(columns.row_step, columns.col_step);
    std::vector<unsigned char> dense;
    dense.swap(turned_);
    reserve(dense, r.rows * row_bytes);
    gather(columns, dense.data());
    turn(dense.data(), to, r.cols, r.rows, r.element);
    dense.swap(turned_);
    return;
  }
  const std::int64_t col_step = r.cols == 1 ? 1 : r.col_step;
  const std::int64_t row_extent = (r.cols - 1) * col_step + 1;
  const std::int64_t extent = (r.rows - 1) * r.row_step + row_extent;
  if (extent == r.rows * r.cols && col_step == 1) {
    memory_.read(r.pe, r.space, r.addr, to, static_cast<std::size_t>(extent * size));
    return;
  }
  if (extent <= kMaxSpanFactor * r.rows * r.cols) {
    reserve(span_, extent * size);
    memory_.read(r.pe, r.space, r.addr, span_.data(), static_cast<std::size_t>(extent * size));
    for (std::int64_t i = 0; i < r.rows; ++i) {
      const unsigned char* row = span_.data() + i * r.row_step * size;
      if (col_step == 1) {
        std::memcpy(to + i * row_bytes, row, static_cast<std::size_t>(row_bytes));
      } else {
        for (std::int64_t c = 0; c < r.cols; ++c)
          move_element(row + c * col_step * size, to + i * row_bytes + c * size, r.element);
      }
    }
    return;
  }
  for (std::int64_t i = 0; i < r.rows; ++i) {
    const std::uint64_t addr = r.addr + static_cast<std::uint64_t>(i * r.row_step * size);
    if (col_step == 1) {
      memory_.read(r.pe, r.space, addr, to + i * row_bytes, static_cast<std::size_t>(row_bytes));
    } else {
      for (std::int64_t c = 0; c < r.cols; ++c)
        memory_.read(r.pe, r.space, addr + static_cast<std::uint64_t>(c * col_step * size),
                     to + i * row_bytes + c * size, r.element);
    }
  }
}

void TensorIo::scatter(const Rect& r, const unsigned char* from) {
  if (r.rows == 0 || r.cols == 0) return;
  if ((r.rows > 1 && r.row_step == 0) || (r.cols > 1 && r.col_step == 0))
    throw ModelError("output tensor: found a broadcast view (stride 0); allowed: a tensor whose elements are distinct");
  const auto size = static_cast<std::int64_t>(r.element);
  const std::int64_t row_bytes = r.cols * size;
  if (r.cols > 1 && r.col_step != 1 && r.row_step == 1 && r.rows > 1) {
    std::vector<unsigned char> dense;
    dense.swap(turned_);
    reserve(dense, r.rows * row_bytes);
    turn(from, dense.data(), r.rows, r.cols, r.element);
    Rect columns = r;
    std::swap(columns.rows, columns.cols);
    std::swap(columns.row_step, columns.col_step);
    scatter(columns, dense.data());
    dense.swap(turned_);
    return;
  }
  const std::int64_t col_step = r.cols == 1 ? 1 : r.col_step;
  if (col_step == 1 && (r.rows == 1 || r.row_step == r.cols)) {
    memory_.write(r.pe, r.space, r.addr, from, static_cast<std::size_t>(r.rows * row_bytes));
    return;
  }
  for (std::int64_t i = 0; i < r.rows; ++i) {
    const std::uint64_t addr = r.addr + static_cast<std::uint64_t>(i * r.row_step * size);
    if (col_step == 1) {
      memory_.write(r.pe, r.space, addr, from + i * row_bytes, static_cast<std::size_t>(row_bytes));
    } else {
      for (std::int64_t c = 0; c < r.cols; ++c)
        memory_.write(r.pe, r.space, addr + static_cast<std::uint64_t>(c * col_step * size),
                      from + i * row_bytes + c * size, r.element);
    }
  }
}

/// Calls visit(rect, offset in bytes of its dense image) for each plane of the last two axes, after merging
/// neighbouring axes that are dense in each other.
template <typename Visit>
void TensorIo::for_planes(std::uint32_t pe, const TensorHandle& h, Visit visit) {
  if (h.shape.numel() == 0) return;
  std::array<std::int64_t, Shape::kMaxRank> dims{1, 1, 1, 1}, steps{};
  std::size_t axes = 0;  // kept, outermost first
  for (int i = 0; i < h.shape.rank(); ++i) {
    const std::int64_t dim = h.shape[i];
    const std::int64_t step = h.strides[static_cast<std::size_t>(i)];
    if (step < 0) throw ModelError("tensor: found a negative stride; allowed: 0 and above");
    if (dim == 1) continue;
    if (axes > 0 && steps[axes - 1] == step * dim) {
      dims[axes - 1] *= dim;
      steps[axes - 1] = step;
    } else {
      dims[axes] = dim;
      steps[axes++] = step;
    }
  }
  for (; axes < Shape::kMaxRank; ++axes) {  // right-align
    for (std::size_t i = Shape::kMaxRank - 1; i > 0; --i) {
      dims[i] = dims[i - 1];
      steps[i] = steps[i - 1];
    }
    dims[0] = 1;
    steps[0] = 0;
  }
  const auto size = static_cast<std::int64_t>(size_of(h.dtype));
  Rect rect{pe, h.space, h.addr, size_of(h.dtype), steps[2], steps[3], dims[2], dims[3]};
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < dims[0]; ++i)
    for (std::int64_t j = 0; j < dims[1]; ++j, offset += dims[2] * dims[3] * size) {
      rect.addr = h.addr + static_cast<std::uint64_t>((i * steps[0] + j * steps[1]) * size);
      visit(rect, offset);
    }
}

void TensorIo::gather(std::uint32_t pe, const TensorHandle& h, unsigned char* to) {
  for_planes(pe, h, [&](const Rect& rect, std::int64_t offset) { gather(rect, to + offset); });
}

void TensorIo::scatter(std::uint32_t pe, const TensorHandle& h, const unsigned char* from) {
  for (int i = 0; i < h.shape.rank(); ++i)
    if (h.shape[i] > 1 && h.strides[static_cast<std::size_t>(i)] == 0)
      throw ModelError("output tensor: found a broadcast view (stride 0) of shape " + h.shape.str() +
                       "; allowed: a tensor whose elements are distinct");
  for_planes(pe, h, [&](const Rect& rect, std::int64_t offset) { scatter(rect, from + offset); });
}

}  // namespace kb
