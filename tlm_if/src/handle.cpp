#include <kb/tlm_if/handle.h>

namespace kb {

const char* name_of(Space s) {
  switch (s) {
    case Space::hbm: return "hbm";
    case Space::tcm: return "tcm";
    case Space::sram: return "sram";
  }
  return "?";
}

std::array<std::int64_t, Shape::kMaxRank> dense_strides(const Shape& shape) {
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = step;
    step *= shape[i];
  }
  return strides;
}

TensorHandle make_handle(std::uint32_t id, const Shape& shape, DType dtype, Space space, std::uint64_t addr,
                         bool pinned) {
  TensorHandle h;
  h.id = id;
  h.shape = shape;
  h.strides = dense_strides(shape);
  h.dtype = dtype;
  h.space = space;
  h.addr = addr;
  h.pinned = pinned;
  return h;
}

bool TensorHandle::dense() const {
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[static_cast<std::size_t>(i)] != step) return false;
    step *= shape[i];
  }
  return true;
}

std::uint64_t TensorHandle::extent_bytes() const {
  if (shape.numel() == 0) return 0;
  std::int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) last += (shape[i] - 1) * strides[static_cast<std::size_t>(i)];
  return static_cast<std::uint64_t>(last + 1) * size_of(dtype);
}

}  // namespace kb
