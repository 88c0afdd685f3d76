// A tensor as a user sees it: one shape, row-major, whatever the placement in the machine.
#pragma once

#include <kb/tlm_if/dtype.h>
#include <kb/tlm_if/shape.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kb {

/// Elements in their storage dtype. In timing and emit mode tensors have a shape and no data.
class LogicalTensor {
 public:
  LogicalTensor() = default;
  /// A tensor of zeros; without data when `with_data` is false.
  LogicalTensor(const Shape& shape, DType dtype, bool with_data = true);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  bool has_data() const { return !bytes_.empty(); }
  std::int64_t numel() const { return shape_.numel(); }

  /// Element by row-major index, widened exactly.
  double at(std::int64_t index) const;
  /// Rounds to f32 and then to the storage dtype, as the machine's own conversions do; i32 takes whole numbers.
  void set(std::int64_t index, double value);

  std::uint8_t* bytes() { return bytes_.data(); }
  const std::uint8_t* bytes() const { return bytes_.data(); }
  std::size_t size_bytes() const { return bytes_.size(); }
  /// Start of the element, for copies of whole rows.
  std::uint8_t* element(std::int64_t index) {
    return bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_);
  }
  const std::uint8_t* element(std::int64_t index) const {
    return bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_);
  }

 private:
  Shape shape_;
  DType dtype_ = DType::f32;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace kb
