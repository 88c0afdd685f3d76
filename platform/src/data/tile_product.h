// The arithmetic of a GEMM tile step, with a summation order that no cache size or vector width changes.
#pragma once

#include <Eigen/Core>

#include <cstdint>
#include <cstring>

namespace kb {

/// Columns that a row of B is padded to a multiple of.
inline constexpr std::int64_t kProductLanes = 16;

namespace detail {

template <typename T, int Rows>
void product_rows(const T* a, std::int64_t k, const T* b, std::int64_t ldb, T* out, std::int64_t n, bool accumulate) {
  using Lanes = Eigen::Array<T, kProductLanes, 1>;
  for (std::int64_t c = 0; c < n; c += kProductLanes) {
    Lanes sum[Rows];
    for (auto& s : sum) s.setZero();
    for (std::int64_t i = 0; i < k; ++i) {
      const Lanes b_row = Eigen::Map<const Lanes>(b + i * ldb + c);
      for (int r = 0; r < Rows; ++r) sum[r] += a[r * k + i] * b_row;
    }
    const std::int64_t width = n - c < kProductLanes ? n - c : kProductLanes;
    for (int r = 0; r < Rows; ++r) {
      T* to = out + r * n + c;
      if (accumulate) {
        for (std::int64_t i = 0; i < width; ++i) to[i] += sum[r][i];
      } else {
        std::memcpy(to, sum[r].data(), static_cast<std::size_t>(width) * sizeof(T));
      }
    }
  }
}

}  // namespace detail

/// out[m][n] (+)= a[m][k] * b[k][ldb], where ldb is n rounded up to kProductLanes. Each element is the sum of its k
/// products, each rounded, added in order from 0; with `accumulate` that sum is added to what `out` holds.
/// T is float, or std::uint32_t for two's complement i32 (which wraps).
template <typename T>
void tile_product(const T* a, const T* b, T* out, std::int64_t m, std::int64_t k, std::int64_t n, bool accumulate) {
  const std::int64_t ldb = (n + kProductLanes - 1) / kProductLanes * kProductLanes;
  std::int64_t r = 0;
  for (; r + 2 <= m; r += 2) detail::product_rows<T, 2>(a + r * k, k, b, ldb, out + r * n, n, accumulate);
  if (r < m) detail::product_rows<T, 1>(a + r * k, k, b, ldb, out + r * n, n, accumulate);
}

}  // namespace kb
