#include <kb/tlm_if/shape.h>

#include <kb/tlm_if/errors.h>

namespace kb {

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  for (auto d : dims) push_back(d);
}

void Shape::push_back(std::int64_t dim) {
  if (dim < 0) throw ModelError("shape: found dimension " + std::to_string(dim) + "; allowed: 0 and above");
  if (rank_ == kMaxRank) throw ModelError("shape: found more than 4 dimensions; allowed: at most 4");
  dims_[static_cast<std::size_t>(rank_++)] = dim;
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank_; ++i)
    if (__builtin_mul_overflow(n, dims_[static_cast<std::size_t>(i)], &n))
      throw ModelError("shape " + str() + ": found more than 2^63 elements; allowed: a count that fits 63 bits");
  return n;
}

std::string Shape::str() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(dims_[static_cast<std::size_t>(i)]);
  return s + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank_ != b.rank_) return false;
  for (int i = 0; i < a.rank_; ++i)
    if (a.dims_[static_cast<std::size_t>(i)] != b.dims_[static_cast<std::size_t>(i)]) return false;
  return true;
}

}  // namespace kb
