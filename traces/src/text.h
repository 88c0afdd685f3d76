// Formatting into a character buffer: integers, picoseconds as nanoseconds, exact doubles, JSON strings.
#pragma once

#include <kb/tlm_if/units.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kb::text {

inline char* put(char* to, std::string_view s) {
  std::memcpy(to, s.data(), s.size());
  return to + s.size();
}

/// At most 20 characters.
inline char* put_unsigned(char* to, std::uint64_t v) {
  static constexpr char kPairs[] =
      "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
      "5556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
      "99";
  char digits[20];
  char* p = digits + sizeof digits;
  while (v >= 100) {
    p -= 2;
    std::memcpy(p, kPairs + v % 100 * 2, 2);
    v /= 100;
  }
  if (v >= 10) {
    p -= 2;
    std::memcpy(p, kPairs + v * 2, 2);
  } else {
    *--p = static_cast<char>('0' + v);
  }
  const auto n = static_cast<std::size_t>(digits + sizeof digits - p);
  std::memcpy(to, p, n);
  return to + n;
}

/// At most 20 characters.
inline char* put_signed(char* to, std::int64_t v) {
  if (v < 0) {
    *to++ = '-';
    return put_unsigned(to, ~static_cast<std::uint64_t>(v) + 1);
  }
  return put_unsigned(to, static_cast<std::uint64_t>(v));
}

/// Picoseconds as ns with three decimals; at most 22 characters.
inline char* put_ns(char* to, Ps ps) {
  std::uint64_t v = static_cast<std::uint64_t>(ps);
  if (ps < 0) {
    *to++ = '-';
    v = ~v + 1;
  }
  to = put_unsigned(to, v / 1000);
  const auto fraction = static_cast<unsigned>(v % 1000);
  *to++ = '.';
  *to++ = static_cast<char>('0' + fraction / 100);
  *to++ = static_cast<char>('0' + fraction / 10 % 10);
  *to++ = static_cast<char>('0' + fraction % 10);
  return to;
}

/// The shortest text that reads back as the same double; whole numbers without a fraction. JSON has no
/// infinities and no NaN: they become the strings "inf", "-inf", "nan". At most 32 characters.
inline char* put_double(char* to, double v) {
  if (v != v) return put(to, "\"nan\"");
  if (std::isinf(v)) return put(to, v > 0 ? "\"inf\"" : "\"-inf\"");
  if (v == std::floor(v) && std::fabs(v) < 9007199254740992.0 && !(v == 0 && std::signbit(v)))
    return put_signed(to, static_cast<std::int64_t>(v));
  return std::to_chars(to, to + 32, v).ptr;
}

/// `s` as a JSON string with its quotes.
inline std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      static constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

inline void append_unsigned(std::string& to, std::uint64_t v) {
  char b[20];
  to.append(b, put_unsigned(b, v));
}
inline void append_signed(std::string& to, std::int64_t v) {
  char b[21];
  to.append(b, put_signed(b, v));
}
inline void append_double(std::string& to, double v) {
  char b[32];
  to.append(b, put_double(b, v));
}
inline void append_ns(std::string& to, Ps ps) {
  char b[24];
  to.append(b, put_ns(b, ps));
}

}  // namespace kb::text
