// Number formats and scalar functions of the data pass: the same bytes at every optimisation level, with every
// compiler and on every CPU (spec 2.4).
#pragma once

#include <kb/tlm_if/dtype.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kb::num {

// ---- formats -----------------------------------------------------------------------------------------------
// All conversions round to nearest, ties to even. Overflow goes to infinity in the float formats and saturates
// in the integer ones. A NaN stays a NaN in the float formats and becomes the one canonical quiet NaN
// (f16 0x7e00, bf16 0x7fc0, f32 0x7fc00000), because which payload an operation hands on is the compiler's
// choice; it becomes 0 in the integer formats.

inline std::uint32_t bits_of(float f) {
  std::uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  return u;
}

inline float float_of(std::uint32_t u) {
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
}

/// Exact.
inline float f32_from_f16(std::uint16_t h) {
  std::uint32_t u = (h & 0x7fffu) << 13;
  const std::uint32_t exponent = u & 0x0f800000u;
  u += 0x38000000u;  // bias 15 -> 127
  // Subnormal: treat the fraction as that of 2^-14 and take the implicit one away again.
  const float subnormal = float_of(u + 0x00800000u) - 6.103515625e-05f;
  const std::uint32_t special = u + 0x38000000u;  // infinity and NaN
  u = exponent == 0 ? bits_of(subnormal) : exponent == 0x0f800000u ? special : u;
  return float_of(u | (static_cast<std::uint32_t>(h & 0x8000u) << 16));
}

inline std::uint16_t f16_from_f32(float f) {
  std::uint32_t u = bits_of(f);
  const std::uint32_t sign = u & 0x80000000u;
  u ^= sign;
  // Normal: add half an ulp (less one where the last kept bit is even); a carry into 2^16 gives infinity.
  const std::uint32_t normal = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
  // Below 2^-14: adding 0.5 makes the adder round at 2^-24, the ulp of an f16 subnormal.
  const std::uint32_t subnormal = bits_of(float_of(u) + 0.5f) - 0x3f000000u;
  const std::uint32_t special = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t h = u >= 0x47800000u ? special : u < 0x38800000u ? subnormal : normal;
  return static_cast<std::uint16_t>(u > 0x7f800000u ? h : h | (sign >> 16));
}

/// Exact.
inline float f32_from_bf16(std::uint16_t h) {
  return float_of(static_cast<std::uint32_t>(h) << 16);
}

inline std::uint16_t bf16_from_f32(float f) {
  const std::uint32_t u = bits_of(f);
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

/// The value itself, a NaN as the canonical one.
inline float canonical(float f) {
  return f == f ? f : float_of(0x7fc00000u);
}

std::int8_t i8_from_f32(float f);
std::int32_t i32_from_f32(float f);

/// `f` rounded to `type` and back.
float round_to(DType type, float f);

// ---- arrays ------------------------------------------------------------------------------------------------
// `n` elements of `type`, densely stored, any alignment.

/// i32 rounds to 24 bits of mantissa; every other type is exact.
void load_f32(DType type, const void* from, float* to, std::size_t n);
/// Rounds each element once.
void store_f32(DType type, const float* from, void* to, std::size_t n);

/// Integer types only (throws ModelError for others); exact.
void load_i32(DType type, const void* from, std::int32_t* to, std::size_t n);
/// Exact to i32, saturating to i8; the float types take the value rounded to f32.
void store_i32(DType type, const std::int32_t* from, void* to, std::size_t n);

// ---- functions ---------------------------------------------------------------------------------------------
// Computed in double with additions, multiplications, one division and exponent arithmetic only, no libm, and
// rounded once to f32: the error stays below 0.501 ulp, subnormal results included.

/// e^x. exp(-inf) = 0, exp(inf) = inf.
float exp(float x);
/// Natural logarithm. log(0) = -inf, log(x < 0) = NaN, log(inf) = inf.
float log(float x);
/// 1 / (1 + e^-x).
float sigmoid(float x);
/// 1 / sqrt(x). rsqrt(0) = inf, rsqrt(x < 0) = NaN.
float rsqrt(float x);
/// 0 where a = -inf (whatever b is), else exp(a - b) with the difference rounded to f32 (spec 3.5).
float exp_diff(float a, float b);

}  // namespace kb::num
