#include <kb/tlm_if/numerics.h>

#include <kb/tlm_if/errors.h>

#include <cmath>
#include <limits>
#include <string>

namespace kb::num {

namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 in two parts; products of the first with integers below 2^12 are exact.
constexpr double kLn2Hi = 0x1.62e42fefa4000p-1;
constexpr double kLn2Lo = -0x1.8432a1b0e2634p-43;
constexpr double kRoundMagic = 0x1.8p52;  // adding it rounds a small double to an integer

std::uint64_t bits64(double d) {
  std::uint64_t u;
  std::memcpy(&u, &d, sizeof u);
  return u;
}

double double_of(std::uint64_t u) {
  double d;
  std::memcpy(&d, &u, sizeof d);
  return d;
}

/// e^x for |x| < 700: x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor series of e^r to r^10 (truncated at
/// 3e-13 relative), times 2^n.
double exp_core(double x) {
  const double shifted = x * kLog2E + kRoundMagic;
  const double n = shifted - kRoundMagic;
  const double r = (x - n * kLn2Hi) - n * kLn2Lo;
  double p = 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // The low bits of the shifted sum hold n in two's complement.
  return p * double_of((bits64(shifted) + 1023) << 52);
}

/// `n` elements through a staging buffer of the storage type; memcpy because addresses may be unaligned.
template <typename Raw, typename To, typename Convert>
void load_as(const void* from, To* to, std::size_t n, Convert convert) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  constexpr std::size_t kChunk = 16;
  Raw raw[kChunk];
  std::size_t i = 0;
  for (; i + kChunk <= n; i += kChunk) {
    std::memcpy(raw, bytes + i * sizeof(Raw), sizeof raw);
    for (std::size_t j = 0; j < kChunk; ++j) to[i + j] = convert(raw[j]);
  }
  if (i < n) {
    std::memcpy(raw, bytes + i * sizeof(Raw), (n - i) * sizeof(Raw));
    for (std::size_t j = 0; i + j < n; ++j) to[i + j] = convert(raw[j]);
  }
}

template <typename Raw, typename From, typename Convert>
void store_as(const From* from, void* to, std::size_t n, Convert convert) {
  auto* bytes = static_cast<unsigned char*>(to);
  constexpr std::size_t kChunk = 16;
  Raw raw[kChunk];
  std::size_t i = 0;
  for (; i + kChunk <= n; i += kChunk) {
    for (std::size_t j = 0; j < kChunk; ++j) raw[j] = convert(from[i + j]);
    std::memcpy(bytes + i * sizeof(Raw), raw, sizeof raw);
  }
  if (i < n) {
    for (std::size_t j = 0; i + j < n; ++j) raw[j] = convert(from[i + j]);
    std::memcpy(bytes + i * sizeof(Raw), raw, (n - i) * sizeof(Raw));
  }
}

}  // namespace

std::int8_t i8_from_f32(float f) {
  if (!(f == f)) return 0;
  if (f <= -128.0f) return -128;
  if (f >= 127.0f) return 127;
  return static_cast<std::int8_t>(std::nearbyint(f));
}

std::int32_t i32_from_f32(float f) {
  if (!(f == f)) return 0;
  if (f <= -2147483648.0f) return std::numeric_limits<std::int32_t>::min();
  if (f >= 2147483648.0f) return std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::nearbyint(f));
}

float round_to(DType type, float f) {
  switch (type) {
    case DType::f16: return f32_from_f16(f16_from_f32(f));
    case DType::bf16: return f32_from_bf16(bf16_from_f32(f));
    case DType::f32: return canonical(f);
    case DType::i8: return static_cast<float>(i8_from_f32(f));
    case DType::i32: return static_cast<float>(i32_from_f32(f));
  }
  return f;
}

void load_f32(DType type, const void* from, float* to, std::size_t n) {
  switch (type) {
    case DType::f16: return load_as<std::uint16_t>(from, to, n, [](std::uint16_t h) { return f32_from_f16(h); });
    case DType::bf16: return load_as<std::uint16_t>(from, to, n, [](std::uint16_t h) { return f32_from_bf16(h); });
    case DType::f32:
      if (n != 0) std::memcpy(to, from, n * sizeof(float));
      return;
    case DType::i8: return load_as<std::int8_t>(from, to, n, [](std::int8_t i) { return static_cast<float>(i); });
    case DType::i32: return load_as<std::int32_t>(from, to, n, [](std::int32_t i) { return static_cast<float>(i); });
  }
}

void store_f32(DType type, const float* from, void* to, std::size_t n) {
  switch (type) {
    case DType::f16: return store_as<std::uint16_t>(from, to, n, [](float f) { return f16_from_f32(f); });
    case DType::bf16: return store_as<std::uint16_t>(from, to, n, [](float f) { return bf16_from_f32(f); });
    case DType::f32: return store_as<float>(from, to, n, [](float f) { return canonical(f); });
    case DType::i8: return store_as<std::int8_t>(from, to, n, [](float f) { return i8_from_f32(f); });
    case DType::i32: return store_as<std::int32_t>(from, to, n, [](float f) { return i32_from_f32(f); });
  }
}

void load_i32(DType type, const void* from, std::int32_t* to, std::size_t n) {
  switch (type) {
    case DType::i8:
      return load_as<std::int8_t>(from, to, n, [](std::int8_t i) { return static_cast<std::int32_t>(i); });
    case DType::i32:
      if (n != 0) std::memcpy(to, from, n * sizeof(std::int32_t));
      return;
    default: break;
  }
  throw ModelError(std::string("integer load: found dtype ") + name_of(type) + "; allowed: i8, i32");
}

void store_i32(DType type, const std::int32_t* from, void* to, std::size_t n) {
  switch (type) {
    case DType::f16:
      return store_as<std::uint16_t>(from, to, n, [](std::int32_t i) { return f16_from_f32(static_cast<float>(i)); });
    case DType::bf16:
      return store_as<std::uint16_t>(from, to, n, [](std::int32_t i) { return bf16_from_f32(static_cast<float>(i)); });
    case DType::f32: return store_as<float>(from, to, n, [](std::int32_t i) { return static_cast<float>(i); });
    case DType::i8:
      return store_as<std::int8_t>(from, to, n, [](std::int32_t i) {
        return static_cast<std::int8_t>(i < -128 ? -128 : i > 127 ? 127 : i);
      });
    case DType::i32:
      if (n != 0) std::memcpy(to, from, n * sizeof(std::int32_t));
      return;
  }
}

float exp(float x) {
  if (!(x == x)) return canonical(x);
  if (x > 89.0f) return std::numeric_limits<float>::infinity();
  if (x < -104.0f) return 0.0f;
  return static_cast<float>(exp_core(static_cast<double>(x)));
}

float log(float x) {
  if (!(x >= 0.0f)) return float_of(0x7fc00000u);
  if (x == 0.0f) return -std::numeric_limits<float>::infinity();
  if (x == std::numeric_limits<float>::infinity()) return x;
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172; the
  // series to s^17 is truncated at 6e-16 relative. Every f32 is a normal double.
  const std::uint64_t u = bits64(static_cast<double>(x));
  // Subtracting the bits of sqrt(1/2) moves the boundary of the exponent there.
  const std::uint64_t kHalfRoot = 0x3fe6a09e667f3bcdull;
  const auto e = static_cast<std::int64_t>(u - kHalfRoot) >> 52;
  const double m = double_of(u - (static_cast<std::uint64_t>(e) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 17;
  p = p * s2 + 1.0 / 15;
  p = p * s2 + 1.0 / 13;
  p = p * s2 + 1.0 / 11;
  p = p * s2 + 1.0 / 9;
  p = p * s2 + 1.0 / 7;
  p = p * s2 + 1.0 / 5;
  p = p * s2 + 1.0 / 3;
  p = p * s2 + 1.0;
  const auto ed = static_cast<double>(e);
  return static_cast<float>(ed * kLn2Hi + (2.0 * s * p + ed * kLn2Lo));
}

float sigmoid(float x) {
  if (!(x == x)) return canonical(x);
  if (x > 104.0f) return 1.0f;
  if (x < -104.0f) return 0.0f;
  return static_cast<float>(1.0 / (1.0 + exp_core(-static_cast<double>(x))));
}

float rsqrt(float x) {
  return canonical(static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))));
}

float exp_diff(float a, float b) {
  if (a == -std::numeric_limits<float>::infinity()) return 0.0f;
  return exp(a - b);
}

}  // namespace kb::num
