// Reads one JSON text from front to back, as the caller expects it to be. Errors name file, line and column.
#pragma once

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/units.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace kb {

class JsonCursor {
 public:
  /// `where` is "FILE:LINE"; both must outlive the cursor.
  JsonCursor(const std::string& where, std::string_view text)
      : where_(where), begin_(text.data()), p_(text.data()), end_(text.data() + text.size()) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(where_ + ":" + std::to_string(p_ - begin_ + 1) + ": " + what);
  }
  [[noreturn]] void fail(const std::string& what, const std::string& found, const std::string& allowed) const {
    fail(what + ": found " + found + "; allowed: " + allowed);
  }

  char peek() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\r' || *p_ == '\n')) ++p_;
    return p_ == end_ ? '\0' : *p_;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++p_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("found ") + rest() + "; allowed: '" + c + "'");
  }
  void expect_end() {
    if (peek() != '\0' || p_ != end_) fail("found " + rest() + "; allowed: the end of the line");
  }

  /// Calls on_key(name) for each member, with the cursor on its value. The name is valid until the next string.
  template <typename F>
  void object(F on_key) {
    expect('{');
    if (take('}')) return;
    do {
      const std::string_view key = string();
      expect(':');
      on_key(key);
    } while (take(','));
    expect('}');
  }
  /// Calls on_item() for each item, with the cursor on it.
  template <typename F>
  void array(F on_item) {
    expect('[');
    if (take(']')) return;
    do on_item();
    while (take(','));
    expect(']');
  }

  /// Valid until the next string.
  std::string_view string() {
    expect('"');
    const char* start = p_;
    while (p_ != end_ && *p_ != '"' && *p_ != '\\') ++p_;
    if (p_ != end_ && *p_ == '"') return {start, static_cast<std::size_t>(p_++ - start)};
    return escaped(start);
  }

  bool boolean() {
    peek();
    if (literal("true")) return true;
    if (literal("false")) return false;
    fail("found " + rest() + "; allowed: true or false");
  }
  bool null() {
    peek();
    return literal("null");
  }

  template <typename T>
  T integer() {
    peek();
    T value{};
    const auto [stop, error] = std::from_chars(p_, end_, value);
    if (error != std::errc() || (stop != end_ && (*stop == '.' || *stop == 'e' || *stop == 'E')))
      fail("found " + rest() + "; allowed: a whole number of " + std::to_string(8 * sizeof(T)) + " bits");
    p_ = stop;
    return value;
  }
  /// Also the strings "inf", "-inf", "nan".
  double number() {
    if (peek() == '"') {
      const std::string_view word = string();
      if (word == "inf") return std::numeric_limits<double>::infinity();
      if (word == "-inf") return -std::numeric_limits<double>::infinity();
      if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
      fail("found \"" + std::string(word) + "\"; allowed: a number");
    }
    double value = 0;
    const auto [stop, error] = std::from_chars(p_, end_, value);
    if (error != std::errc()) fail("found " + rest() + "; allowed: a number");
    p_ = stop;
    return value;
  }
  /// Nanoseconds with three decimals, as picoseconds.
  Ps ns() {
    peek();
    const char* start = p_;
    std::int64_t whole = 0;
    const auto [stop, error] = std::from_chars(p_, end_, whole);
    const bool fits = error == std::errc() && end_ - stop >= 4 && *stop == '.' &&
                      whole < std::numeric_limits<Ps>::max() / 1000 && whole > std::numeric_limits<Ps>::min() / 1000;
    unsigned fraction = 0;
    bool digits = fits;
    for (int i = 1; digits && i <= 3; ++i) {
      digits = stop[i] >= '0' && stop[i] <= '9';
      fraction = fraction * 10 + static_cast<unsigned>(stop[i] - '0');
    }
    if (!digits || (end_ - stop > 4 && stop[4] >= '0' && stop[4] <= '9'))
      fail("found " + rest() + "; allowed: a time in ns with three decimals");
    p_ = stop + 4;
    const Ps ps = whole * 1000;
    return *start == '-' ? ps - static_cast<Ps>(fraction) : ps + static_cast<Ps>(fraction);
  }

 private:
  bool literal(std::string_view word) {
    if (static_cast<std::size_t>(end_ - p_) < word.size() || std::string_view(p_, word.size()) != word) return false;
    p_ += word.size();
    return true;
  }

  /// A string with escapes; those of this library's files and the short ones, no surrogates.
  std::string_view escaped(const char* start) {
    scratch_.assign(start, p_);
    while (p_ != end_ && *p_ != '"') {
      if (*p_ != '\\') {
        scratch_ += *p_++;
        continue;
      }
      if (++p_ == end_) break;
      const char c = *p_++;
      if (c == 'u') {
        unsigned code = 0;
        const auto [stop, error] = std::from_chars(p_, p_ + (end_ - p_ < 4 ? end_ - p_ : 4), code, 16);
        if (error != std::errc() || stop != p_ + 4 || code >= 0x80)
          fail("found an escape; allowed: \\u0000 .. \\u007f");
        p_ = stop;
        scratch_ += static_cast<char>(code);
      } else {
        static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
        const auto i = kFrom.find(c);
        if (i == std::string_view::npos) fail(std::string("found escape '\\") + c + "'; allowed: JSON's");
        scratch_ += kTo[i];
      }
    }
    if (p_ == end_) fail("found the end inside a string; allowed: '\"'");
    ++p_;
    return scratch_;
  }

  std::string rest() const {
    if (p_ == end_) return "the end of the line";
    const auto n = static_cast<std::size_t>(end_ - p_);
    return "'" + std::string(p_, n < 24 ? n : 24) + (n > 24 ? "...'" : "'");
  }

  const std::string& where_;
  const char* begin_;
  const char* p_;
  const char* end_;
  std::string scratch_;
};

}  // namespace kb
