// Helpers on shapes and views of handles.
#pragma once

#include <kb/tlm_if/handle.h>

#include <algorithm>
#include <optional>
#include <string>

namespace kb::tl {

/// "[8, 64] f16", for messages.
inline std::string describe(const TensorHandle& h) { return h.shape.str() + " " + kb::name_of(h.dtype); }

/// Numpy's rule: axes are matched from the last on; they must be equal or one of them 1.
inline std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const std::int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) return std::nullopt;
    out.push_back(da == 1 ? db : da);
  }
  return out;
}

/// A two-dimensional view whose axes are those of a dense tensor, swapped.
inline bool is_transposed(const TensorHandle& h) {
  return h.shape.rank() == 2 && !h.dense() && h.strides[0] == 1 && h.strides[1] == h.shape[0];
}

/// The dense tensor that a transposed view was made of.
inline TensorHandle stored_form(const TensorHandle& view) {
  TensorHandle h = view;
  h.shape = Shape{view.shape[1], view.shape[0]};
  h.strides = dense_strides(h.shape);
  return h;
}

}  // namespace kb::tl
