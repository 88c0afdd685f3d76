// Generated inputs: the same values for the same seed, tensor name and element, with every compiler and library.
#pragma once

#include <kb/kernels/bench.h>

#include <cstdint>
#include <string>

namespace kb {

/// Values of one tensor by element number. Normal values come from Marsaglia's polar method over a counter-based
/// stream (SplitMix64), with a logarithm of its own, so that no library function decides a bit.
class InputGenerator {
 public:
  InputGenerator(std::uint64_t seed, const std::string& tensor_name);

  /// normal: N(0, 1); peaky: gain x N(0, 1); ones: 1; integers: uniform in -8 .. 8.
  double value(std::uint64_t index, InputKind kind, double gain) const;
  /// Elements 2p and 2p+1 of a standard normal stream.
  void normal_pair(std::uint64_t pair, double* first, double* second) const;
  /// A tensor filled in row-major order, rounded to `dtype`.
  LogicalTensor tensor(const Shape& shape, DType dtype, InputKind kind, double gain) const;

 private:
  std::uint64_t key_;
};

}  // namespace kb
