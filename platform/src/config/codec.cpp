#include "codec.h"

#include <cctype>
#include <charconv>
#include <cmath>

namespace kb::config_detail {

namespace {

struct Suffix {
  const char* name;
  std::uint64_t factor;
};
constexpr std::array<Suffix, 4> kSuffixes{{{"TiB", 1024 * GiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}};

bool is_plain_scalar(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && !node.quoted;
}

/// Reads all of [first, last) as a number.
template <typename T>
bool from_text(const char* first, const char* last, T& value) {
  const auto result = std::from_chars(first, last, value);
  return first != last && result.ec == std::errc() && result.ptr == last;
}

/// Reads decimal digits from `first` on and moves it behind them.
bool take_index(const char*& first, const char* last, std::uint32_t& value) {
  if (first == last || std::isdigit(static_cast<unsigned char>(*first)) == 0) return false;
  const auto result = std::from_chars(first, last, value);
  if (result.ec != std::errc()) return false;
  first = result.ptr;
  return true;
}

/// Whether `text` can stand in a file as it is and be nothing but a name.
bool is_name(const std::string& text) {
  for (const char* word : {"true", "false", "on", "off", "yes", "no", "null"})
    if (text == word) return false;
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto is_inner = [&](char c) {
    return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
  };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), is_inner);
}

}  // namespace

std::string text_of(double value) {
  std::array<char, 64> buffer{};
  const double size = std::fabs(value);
  const bool fixed = value == 0 || (size >= 1e-6 && size < 1e15);
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    fixed ? std::chars_format::fixed : std::chars_format::general);
  return {buffer.data(), result.ptr};
}

bool read_real(const YamlNode& node, double& value) {
  return is_plain_scalar(node) && from_text(node.text.data(), node.text.data() + node.text.size(), value) &&
         std::isfinite(value);
}

bool read_whole(const YamlNode& node, std::uint64_t& value) {
  return is_plain_scalar(node) && from_text(node.text.data(), node.text.data() + node.text.size(), value);
}

bool read_bytes(const YamlNode& node, std::uint64_t& value) {
  if (!is_plain_scalar(node)) return false;
  std::string digits = node.text;
  std::uint64_t factor = 1;
  for (const Suffix& suffix : kSuffixes) {
    const std::string name = suffix.name;
    if (digits.size() <= name.size() || digits.compare(digits.size() - name.size(), name.size(), name) != 0) continue;
    digits.resize(digits.size() - name.size());
    if (digits.back() == ' ') digits.pop_back();
    factor = suffix.factor;
    break;
  }
  if (!from_text(digits.data(), digits.data() + digits.size(), value)) return false;
  if (value > std::numeric_limits<std::uint64_t>::max() / factor) return false;
  value *= factor;
  return true;
}

std::string text_of_bytes(std::uint64_t bytes) {
  for (const Suffix& suffix : kSuffixes)
    if (bytes >= suffix.factor && bytes % suffix.factor == 0)
      return std::to_string(bytes / suffix.factor) + suffix.name;
  return std::to_string(bytes);
}

Codec<double> real_in(double low, double high) {
  return {"a number from " + text_of(low) + " to " + text_of(high),
          [=](const YamlNode& node, double& value) {
            if (!read_real(node, value) || value < low || value > high) return false;
            value += 0.0;  // -0 becomes 0
            return true;
          },
          [](const double& value) { return text_of(value); }};
}

Codec<bool> boolean() {
  return one_of<bool>({{"on", true}, {"off", false}, {"true", true}, {"false", false}});
}

Codec<std::string> name() {
  return {"a name of letters, digits, '_', '-' and '.' that is no boolean",
          [](const YamlNode& node, std::string& value) {
            if (node.kind != YamlNode::Kind::scalar || !is_name(node.text)) return false;
            value = node.text;
            return true;
          },
          [](const std::string& value) {
            if (is_name(value)) return value;
            std::string text = "'";
            for (const char c : value) text += c == '\'' ? "''" : std::string(1, c);
            return text + "'";
          }};
}

Codec<RouterPos> router() {
  return {"a router, written r<row>c<col>",
          [](const YamlNode& node, RouterPos& value) {
            if (node.kind != YamlNode::Kind::scalar) return false;
            const char* at = node.text.data();
            const char* const last = at + node.text.size();
            if (at == last || *at++ != 'r' || !take_index(at, last, value.row)) return false;
            return at != last && *at++ == 'c' && take_index(at, last, value.col) && at == last;
          },
          [](const RouterPos& value) { return value.name(); }};
}

}  // namespace kb::config_detail
