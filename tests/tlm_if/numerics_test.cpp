// Number formats: every 16-bit value and every rounding tie. Functions: against long double libm.
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/numerics.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace kb;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

/// A 16-bit float format written out by its definition.
struct Format {
  int fraction_bits, bias, max_exponent;
  double value(unsigned h) const {
    const unsigned fraction = h & ((1u << fraction_bits) - 1);
    const int exponent = static_cast<int>(h & 0x7fffu) >> fraction_bits;
    const double sign = h & 0x8000u ? -1 : 1;
    if (exponent == max_exponent) return fraction ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(fraction + std::ldexp(1.0, fraction_bits), exponent - bias - fraction_bits);
  }
};
constexpr Format kF16{10, 15, 31};
constexpr Format kBf16{7, 127, 255};

template <typename Decode, typename Encode>
void check_format(const Format& format, Decode decode, Encode encode, std::uint16_t quiet_nan) {
  const unsigned infinity = static_cast<unsigned>(format.max_exponent) << format.fraction_bits;
  for (unsigned h = 0; h < 0x10000; ++h) {
    const double expected = format.value(h);
    const float f = decode(static_cast<std::uint16_t>(h));
    if (std::isnan(expected)) {
      BOOST_REQUIRE(std::isnan(f));
      BOOST_REQUIRE_EQUAL(encode(f), quiet_nan);
      continue;
    }
    BOOST_REQUIRE_EQUAL(static_cast<double>(f), expected);
    BOOST_REQUIRE_EQUAL(std::signbit(f), std::signbit(expected));
    BOOST_REQUIRE_EQUAL(encode(f), h);
  }
  // Between each value and the next: the tie goes to the even one, its neighbours to the nearer one. The value
  // after the largest is where the next binade would start; it encodes as infinity.
  for (unsigned h = 0; h < infinity; ++h)
    for (unsigned sign : {0u, 0x8000u}) {
      const double low = format.value(h);
      const double high = h + 1 < infinity ? format.value(h + 1) : std::ldexp(1.0, format.max_exponent - format.bias);
      const double tie = low + (high - low) / 2;
      const auto as_float = [&](double d) { return static_cast<float>(sign ? -d : d); };
      if (static_cast<double>(static_cast<float>(tie)) != tie) continue;  // bf16's smallest ties are exact too
      BOOST_REQUIRE_EQUAL(encode(as_float(tie)), ((h & 1u) ? h + 1 : h) | sign);
      BOOST_REQUIRE_EQUAL(encode(as_float(static_cast<double>(std::nextafterf(static_cast<float>(tie), 0.0f)))),
                          h | sign);
      BOOST_REQUIRE_EQUAL(encode(as_float(static_cast<double>(std::nextafterf(static_cast<float>(tie), kInf)))),
                          (h + 1) | sign);
    }
  BOOST_CHECK_EQUAL(encode(kInf), infinity);
  BOOST_CHECK_EQUAL(encode(-kInf), infinity | 0x8000u);
  BOOST_CHECK_EQUAL(encode(-kNan), quiet_nan);
}

/// Largest error in units in the last place of f32 (the spacing at the exact result, subnormals included).
template <typename Function, typename Reference>
double max_ulp(Function function, Reference reference, std::uint32_t first, std::uint32_t last, std::uint32_t step) {
  double worst = 0;
  for (std::uint64_t u = first; u <= last; u += step) {
    const float x = num::float_of(static_cast<std::uint32_t>(u));
    const float y = function(x);
    const long double exact = reference(static_cast<long double>(x));
    if (std::isinf(y) || std::isnan(y) || exact == 0) {
      const float rounded = static_cast<float>(exact);
      BOOST_REQUIRE_MESSAGE(y == rounded || (std::isnan(y) && std::isnan(rounded)), "at " << x << ": " << y);
      continue;
    }
    int exponent = 0;
    std::frexp(exact, &exponent);
    const long double ulp = std::ldexp(1.0L, std::max(exponent - 24, -149));
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(y) - exact) / ulp));
  }
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(numerics)

BOOST_AUTO_TEST_CASE(f16_is_exact_and_rounds_to_even) {
  check_format(kF16, num::f32_from_f16, num::f16_from_f32, 0x7e00);
  BOOST_CHECK_EQUAL(num::f16_from_f32(65519.996f), 0x7bff);
  BOOST_CHECK_EQUAL(num::f16_from_f32(65520.0f), 0x7c00);
  BOOST_CHECK_EQUAL(num::f16_from_f32(2.98023224e-08f), 0x0000);  // 2^-25, the tie with 0
  BOOST_CHECK_EQUAL(num::f16_from_f32(2.98023260e-08f), 0x0001);
  BOOST_CHECK_EQUAL(num::f16_from_f32(1e-45f), 0x0000);
}

BOOST_AUTO_TEST_CASE(bf16_is_exact_and_rounds_to_even) {
  check_format(kBf16, num::f32_from_bf16, num::bf16_from_f32, 0x7fc0);
  BOOST_CHECK(std::isfinite(num::f32_from_bf16(num::bf16_from_f32(3e38f))));
  BOOST_CHECK_EQUAL(num::bf16_from_f32(std::numeric_limits<float>::max()), 0x7f80);
}

BOOST_AUTO_TEST_CASE(a_nan_with_only_low_payload_bits_stays_a_nan) {
  BOOST_CHECK_EQUAL(num::bf16_from_f32(num::float_of(0x7f800001u)), 0x7fc0);
  BOOST_CHECK_EQUAL(num::bf16_from_f32(num::float_of(0xff800001u)), 0x7fc0);
  BOOST_CHECK_EQUAL(num::f16_from_f32(num::float_of(0x7f800001u)), 0x7e00);
  BOOST_CHECK_EQUAL(num::bits_of(num::canonical(num::float_of(0xffc12345u))), 0x7fc00000u);
}

BOOST_AUTO_TEST_CASE(integers_saturate_and_round_to_even) {
  BOOST_CHECK_EQUAL(num::i8_from_f32(2.5f), 2);
  BOOST_CHECK_EQUAL(num::i8_from_f32(3.5f), 4);
  BOOST_CHECK_EQUAL(num::i8_from_f32(-2.5f), -2);
  BOOST_CHECK_EQUAL(num::i8_from_f32(126.5f), 126);
  BOOST_CHECK_EQUAL(num::i8_from_f32(1e30f), 127);
  BOOST_CHECK_EQUAL(num::i8_from_f32(-kInf), -128);
  BOOST_CHECK_EQUAL(num::i8_from_f32(kNan), 0);
  BOOST_CHECK_EQUAL(num::i32_from_f32(3e9f), std::numeric_limits<std::int32_t>::max());
  BOOST_CHECK_EQUAL(num::i32_from_f32(-3e9f), std::numeric_limits<std::int32_t>::min());
  BOOST_CHECK_EQUAL(num::i32_from_f32(2147483520.0f), 2147483520);
  BOOST_CHECK_EQUAL(num::i32_from_f32(-0.5f), 0);
  BOOST_CHECK_EQUAL(num::i32_from_f32(kNan), 0);
}

BOOST_AUTO_TEST_CASE(arrays_agree_with_scalars_at_every_length_and_alignment) {
  std::vector<float> values;
  for (int i = 0; i < 67; ++i) values.push_back(std::ldexp(1.0f + 0.37f * i, i % 40 - 20) * (i % 3 ? 1.0f : -1.0f));
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::i8, DType::i32})
    for (std::size_t n : {0u, 1u, 15u, 16u, 17u, 67u}) {
      std::vector<unsigned char> raw(n * size_of(type) + 3, 0xee);
      num::store_f32(type, values.data(), raw.data() + 1, n);
      BOOST_CHECK_EQUAL(static_cast<int>(raw[n * size_of(type) + 1]), 0xee);
      std::vector<float> back(n);
      num::load_f32(type, raw.data() + 1, back.data(), n);
      for (std::size_t i = 0; i < n; ++i) BOOST_CHECK_EQUAL(back[i], num::round_to(type, values[i]));
    }
}

BOOST_AUTO_TEST_CASE(integer_arrays_are_exact) {
  const std::vector<std::int32_t> values{0, 1, -1, 127, 128, -128, -129, 16777217, -2147483647 - 1, 2147483647};
  const std::size_t n = values.size();
  std::vector<std::int32_t> back(n);
  num::store_i32(DType::i32, values.data(), back.data(), n);
  BOOST_CHECK(back == values);
  num::load_i32(DType::i32, values.data(), back.data(), n);
  BOOST_CHECK(back == values);
  std::vector<std::int8_t> small(n);
  num::store_i32(DType::i8, values.data(), small.data(), n);
  num::load_i32(DType::i8, small.data(), back.data(), n);
  BOOST_CHECK((back == std::vector<std::int32_t>{0, 1, -1, 127, 127, -128, -128, 127, -128, 127}));
  std::vector<float> f(n);
  num::store_i32(DType::f32, values.data(), f.data(), n);
  BOOST_CHECK_EQUAL(f[7], 16777216.0f);
  BOOST_CHECK_THROW(num::load_i32(DType::f16, f.data(), back.data(), 1), ModelError);
}

BOOST_AUTO_TEST_CASE(exp_is_within_an_ulp) {
  const auto reference = [](long double x) { return expl(x); };
  // Every 997th float of both signs up to 128, subnormal results included.
  BOOST_CHECK_LT(max_ulp(num::exp, reference, 0x00000000u, 0x43000000u, 997), 0.501);
  BOOST_CHECK_LT(max_ulp(num::exp, reference, 0x80000000u, 0xc3000000u, 997), 0.501);
  BOOST_CHECK_EQUAL(num::exp(0.0f), 1.0f);
  BOOST_CHECK_EQUAL(num::exp(-kInf), 0.0f);
  BOOST_CHECK_EQUAL(num::exp(kInf), kInf);
  BOOST_CHECK_EQUAL(num::exp(-1e38f), 0.0f);
  BOOST_CHECK_EQUAL(num::exp(88.72284f), expf(88.72284f) < kInf ? static_cast<float>(expl(88.72284f)) : kInf);
  BOOST_CHECK_EQUAL(num::exp(88.7229f), kInf);
  BOOST_CHECK_EQUAL(num::exp(-103.9f), 1.40129846e-45f);
  BOOST_CHECK_EQUAL(num::bits_of(num::exp(-kNan)), 0x7fc00000u);
}

BOOST_AUTO_TEST_CASE(log_is_within_an_ulp) {
  const auto reference = [](long double x) { return logl(x); };
  BOOST_CHECK_LT(max_ulp(num::log, reference, 0x00000001u, 0x7f7fffffu, 2003), 0.501);
  BOOST_CHECK_LT(max_ulp(num::log, reference, 0x3f700000u, 0x3f900000u, 7), 0.501);  // around 1
  BOOST_CHECK_EQUAL(num::log(1.0f), 0.0f);
  BOOST_CHECK_EQUAL(num::log(0.0f), -kInf);
  BOOST_CHECK_EQUAL(num::log(-0.0f), -kInf);
  BOOST_CHECK_EQUAL(num::log(kInf), kInf);
  BOOST_CHECK(std::isnan(num::log(-1.0f)));
  BOOST_CHECK(std::isnan(num::log(kNan)));
}

BOOST_AUTO_TEST_CASE(sigmoid_is_within_an_ulp) {
  const auto reference = [](long double x) { return 1 / (1 + expl(-x)); };
  BOOST_CHECK_LT(max_ulp(num::sigmoid, reference, 0x00000000u, 0x43000000u, 997), 0.501);
  BOOST_CHECK_LT(max_ulp(num::sigmoid, reference, 0x80000000u, 0xc3000000u, 997), 0.501);
  BOOST_CHECK_EQUAL(num::sigmoid(0.0f), 0.5f);
  BOOST_CHECK_EQUAL(num::sigmoid(kInf), 1.0f);
  BOOST_CHECK_EQUAL(num::sigmoid(-kInf), 0.0f);
  BOOST_CHECK(std::isnan(num::sigmoid(kNan)));
}

BOOST_AUTO_TEST_CASE(rsqrt_is_within_an_ulp) {
  const auto reference = [](long double x) { return 1 / sqrtl(x); };
  BOOST_CHECK_LT(max_ulp(num::rsqrt, reference, 0x00000001u, 0x7f7fffffu, 2003), 0.501);
  BOOST_CHECK_EQUAL(num::rsqrt(4.0f), 0.5f);
  BOOST_CHECK_EQUAL(num::rsqrt(0.0f), kInf);
  BOOST_CHECK_EQUAL(num::rsqrt(kInf), 0.0f);
  BOOST_CHECK_EQUAL(num::bits_of(num::rsqrt(-1.0f)), 0x7fc00000u);
}

BOOST_AUTO_TEST_CASE(exp_diff_guards_a_masked_operand) {
  BOOST_CHECK_EQUAL(num::exp_diff(-kInf, -kInf), 0.0f);
  BOOST_CHECK_EQUAL(num::exp_diff(-kInf, 3.0f), 0.0f);
  BOOST_CHECK_EQUAL(num::exp_diff(2.0f, 2.0f), 1.0f);
  BOOST_CHECK_EQUAL(num::exp_diff(1.0f, 3.0f), num::exp(-2.0f));
  BOOST_CHECK_EQUAL(num::exp_diff(3.0f, -kInf), kInf);
  BOOST_CHECK(std::isnan(num::exp_diff(kNan, 0.0f)));
}

BOOST_AUTO_TEST_SUITE_END()
