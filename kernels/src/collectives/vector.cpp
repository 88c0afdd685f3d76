#include <kb/kernels/collectives/vector.h>
#include <kb/tlm_if/errors.h>

namespace kb::collectives {

namespace {

tl::Handle view(tl::Context& tl, TensorHandle raw, std::uint64_t addr, const Shape& shape) {
  raw.addr = addr;
  raw.shape = shape;
  raw.strides = dense_strides(shape);
  return {tl, raw};
}

}  // namespace

tl::Handle head_of(const tl::Handle& buffer, const Shape& shape) {
  return view(buffer.context(), buffer.raw(), buffer.addr(), shape);
}

Vector::Vector(tl::Context& tl, const Tensor& tensor) : tl_(&tl) {
  const Shard& shard = tl.shard_of(tensor);
  const tl::Handle h = tensor.space == Space::tcm ? tl.resident(shard.addr, shard.shape, tensor.dtype)
                                                  : tl.ref(shard.addr, shard.shape, tensor.dtype);
  *this = Vector(tl, h);
}

Vector::Vector(tl::Context& tl, const tl::Handle& handle) : tl_(&tl), whole_(handle.raw()) {
  if (!whole_.dense() || !is_float(whole_.dtype) || whole_.space == Space::sram)
    throw ModelError("collective on rank " + std::to_string(tl.rank()) + ": found a vector " + whole_.shape.str() +
                     " " + name_of(whole_.dtype) + " in " + name_of(whole_.space) +
                     (whole_.dense() ? "" : ", not dense") +
                     "; allowed: a dense tensor of f16, bf16 or f32 in TCM or HBM");
  size_ = whole_.shape.numel();
}

tl::Handle Vector::part(const Span& span) const {
  return view(*tl_, whole_, address(span), Shape{span.count});
}

}  // namespace kb::collectives
