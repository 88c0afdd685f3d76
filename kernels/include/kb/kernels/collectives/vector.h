// The vector that a collective works on: one PE's elements, in its TCM or in HBM.
#pragma once

#include <kb/kernels/collectives/moves.h>
#include <kb/kernels/context.h>

#include <cstdint>

namespace kb::collectives {

/// n elements of f16, bf16 or f32, dense. In TCM collectives work in place; of a vector in HBM they load and store
/// one piece at a time.
class Vector {
 public:
  /// This PE's shard of a host tensor. ModelError when it has none.
  Vector(tl::Context& tl, const Tensor& tensor);
  /// A dense tensor of this kernel, of any shape, in TCM or HBM (a ref). ModelError for others.
  Vector(tl::Context& tl, const tl::Handle& handle);

  std::int64_t size() const { return size_; }
  DType dtype() const { return whole_.dtype; }
  bool in_tcm() const { return whole_.space == Space::tcm; }
  std::uint64_t bytes(const Span& span) const { return static_cast<std::uint64_t>(span.count) * size_of(dtype()); }
  /// The span's elements as a tensor [count]; no command.
  tl::Handle part(const Span& span) const;
  /// Its address in HBM or TCM.
  std::uint64_t address(const Span& span) const {
    return whole_.addr + static_cast<std::uint64_t>(span.begin) * size_of(dtype());
  }

 private:
  tl::Context* tl_;
  TensorHandle whole_;
  std::int64_t size_ = 0;
};

/// The first `shape` elements of a dense tensor, without waiting for what is on its way there.
tl::Handle head_of(const tl::Handle& buffer, const Shape& shape);

}  // namespace kb::collectives
