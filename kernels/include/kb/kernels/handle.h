// Handles as kernels hold them: a tensor (or view), bound to the context of its PE so that operators work.
#pragma once

#include <kb/tlm_if/handle.h>

#include <optional>

namespace kb::tl {

class Context;

/// Immutable value. Cheap to copy; copies name the same tensor.
class Handle {
 public:
  Handle() = default;
  Handle(Context& context, const TensorHandle& raw) : raw_(raw), context_(&context) {}

  const Shape& shape() const { return raw_.shape; }
  /// Extent of one axis; negative axes count from the last.
  std::int64_t dim(int axis) const { return raw_.shape[axis < 0 ? raw_.shape.rank() + axis : axis]; }
  DType dtype() const { return raw_.dtype; }
  Space space() const { return raw_.space; }
  std::uint64_t addr() const { return raw_.addr; }
  std::uint64_t bytes() const { return raw_.bytes(); }
  const TensorHandle& raw() const { return raw_; }
  bool valid() const { return context_ != nullptr; }
  Context& context() const { return *context_; }

 private:
  TensorHandle raw_;
  Context* context_ = nullptr;
};

/// Where a result goes, when not into a fresh tensor of the default type.
struct Dest {
  std::optional<Handle> out;
  std::optional<DType> dtype;
};

/// Writes into an existing tensor of exactly the result's shape; it may be one of the inputs.
inline Dest into(const Handle& out) {
  return {out, std::nullopt};
}
/// A fresh tensor of this type.
inline Dest as(DType dtype) {
  return {std::nullopt, dtype};
}

// One Math command each, with numpy broadcasting.
Handle operator+(const Handle& a, const Handle& b);
Handle operator-(const Handle& a, const Handle& b);
Handle operator*(const Handle& a, const Handle& b);
Handle operator/(const Handle& a, const Handle& b);
Handle operator+(const Handle& a, double b);
Handle operator-(const Handle& a, double b);
Handle operator*(const Handle& a, double b);
Handle operator/(const Handle& a, double b);
Handle operator+(double a, const Handle& b);
Handle operator-(double a, const Handle& b);
Handle operator*(double a, const Handle& b);
Handle operator/(double a, const Handle& b);
Handle operator-(const Handle& a);

}  // namespace kb::tl
