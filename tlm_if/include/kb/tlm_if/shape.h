// Tensor shapes of up to four dimensions, with checked arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace kb {

/// Dimensions of a tensor, outermost first. Rank 0 is a scalar (one element).
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  /// Throws ModelError on a negative dimension or more than four dimensions.
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t back() const { return rank_ == 0 ? 1 : dims_[static_cast<std::size_t>(rank_ - 1)]; }
  void push_back(std::int64_t dim);

  /// Number of elements. Throws ModelError where it does not fit 63 bits.
  std::int64_t numel() const;
  /// "[8, 128]"
  std::string str() const;

  friend bool operator==(const Shape& a, const Shape& b);
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace kb
