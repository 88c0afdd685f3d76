#include <kb/kernels/input_generator.h>

#include <cmath>

namespace kb {

namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Uniform in [-1, 1), 53 bits.
double signed_unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
}

/// Natural logarithm of a positive normal number: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), then
/// log m = 2 atanh((m - 1) / (m + 1)) by its series, which is below 1e-16 after z^21 for |z| <= 0.1716.
double natural_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return 2 * z * sum + exponent * 0.69314718055994531;
}

}  // namespace

InputGenerator::InputGenerator(std::uint64_t seed, const std::string& tensor_name) : key_(splitmix64(seed)) {
  for (const char c : tensor_name) key_ = splitmix64(key_ ^ static_cast<unsigned char>(c));
}

void InputGenerator::normal_pair(std::uint64_t pair, double* first, double* second) const {
  std::uint64_t state = splitmix64(key_ ^ splitmix64(pair));
  for (;;) {
    const double u = signed_unit(state = splitmix64(state));
    const double v = signed_unit(state = splitmix64(state));
    const double s = u * u + v * v;
    if (s >= 1 || s <= 0) continue;
    const double factor = std::sqrt(-2 * natural_log(s) / s);
    *first = u * factor;
    *second = v * factor;
    return;
  }
}

double InputGenerator::value(std::uint64_t index, InputKind kind, double gain) const {
  switch (kind) {
    case InputKind::ones: return 1;
    case InputKind::integers: return static_cast<double>(splitmix64(key_ ^ splitmix64(index)) % 17) - 8;
    case InputKind::normal:
    case InputKind::peaky: break;
  }
  double pair[2];
  normal_pair(index / 2, &pair[0], &pair[1]);
  return pair[index % 2] * (kind == InputKind::peaky ? gain : 1.0);
}

LogicalTensor InputGenerator::tensor(const Shape& shape, DType dtype, InputKind kind, double gain) const {
  LogicalTensor t(shape, dtype);
  const std::int64_t n = t.numel();
  if (kind == InputKind::ones || kind == InputKind::integers) {
    for (std::int64_t i = 0; i < n; ++i) t.set(i, value(static_cast<std::uint64_t>(i), kind, gain));
    return t;
  }
  const double factor = kind == InputKind::peaky ? gain : 1.0;
  for (std::int64_t i = 0; i < n; i += 2) {
    double a = 0, b = 0;
    normal_pair(static_cast<std::uint64_t>(i / 2), &a, &b);
    t.set(i, a * factor);
    if (i + 1 < n) t.set(i + 1, b * factor);
  }
  return t;
}

}  // namespace kb
