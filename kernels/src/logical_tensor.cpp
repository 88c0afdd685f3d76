#include <kb/kernels/logical_tensor.h>
#include <kb/tlm_if/numerics.h>

namespace kb {

LogicalTensor::LogicalTensor(const Shape& shape, DType dtype, bool with_data) : shape_(shape), dtype_(dtype) {
  if (with_data) bytes_.resize(static_cast<std::size_t>(shape.numel()) * size_of(dtype));
}

double LogicalTensor::at(std::int64_t index) const {
  const std::uint8_t* p = element(index);
  if (dtype_ == DType::i32) {
    std::int32_t value = 0;
    num::load_i32(dtype_, p, &value, 1);
    return value;
  }
  float value = 0;
  num::load_f32(dtype_, p, &value, 1);
  return static_cast<double>(value);
}

void LogicalTensor::set(std::int64_t index, double value) {
  if (dtype_ == DType::i32) {
    const auto whole = static_cast<std::int32_t>(value);
    num::store_i32(dtype_, &whole, element(index), 1);
    return;
  }
  const auto narrow = static_cast<float>(value);
  num::store_f32(dtype_, &narrow, element(index), 1);
}

}  // namespace kb
