// How one value of a topology file is read, written and described. A codec is the only place that knows the
// textual form and the range of a kind of value.
#pragma once

#include <kb/modules/params.h>
#include <kb/platform/config.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "yaml_tree.h"

namespace kb::config_detail {

template <typename T>
struct Codec {
  std::string allowed;                            // what a message says is allowed
  std::function<bool(const YamlNode&, T&)> read;  // false: not allowed; the target is then unspecified
  std::function<std::string(const T&)> write;     // a YAML flow value that reads back to the same
};

/// The shortest decimal text that reads back to the same double.
std::string text_of(double value);

// Readers of plain scalars. Strings (quoted scalars) are never numbers.
bool read_real(const YamlNode& node, double& value);
bool read_whole(const YamlNode& node, std::uint64_t& value);
/// A whole number of bytes, or one with the suffix KiB, MiB, GiB or TiB.
bool read_bytes(const YamlNode& node, std::uint64_t& value);
std::string text_of_bytes(std::uint64_t bytes);

/// A finite number in [low, high].
Codec<double> real_in(double low, double high);

/// true, false, on or off.
Codec<bool> boolean();

/// A name of letters, digits, '_', '-' and '.' that starts with a letter and is no boolean or null.
Codec<std::string> name();

/// A router of the mesh: r<row>c<col>.
Codec<RouterPos> router();

/// A whole number in [low, high].
template <typename T>
Codec<T> whole_in(std::uint64_t low, std::uint64_t high = std::numeric_limits<T>::max()) {
  return {"a whole number from " + std::to_string(low) + " to " + std::to_string(high),
          [=](const YamlNode& node, T& value) {
            std::uint64_t v = 0;
            if (!read_whole(node, v) || v < low || v > high) return false;
            value = static_cast<T>(v);
            return true;
          },
          [](const T& value) { return std::to_string(value); }};
}

/// A size in bytes in [low, high].
template <typename T>
Codec<T> bytes_in(std::uint64_t low, std::uint64_t high) {
  return {"a size from " + text_of_bytes(low) + " to " + text_of_bytes(high) +
              ", in bytes or with the suffix KiB, MiB, GiB",
          [=](const YamlNode& node, T& value) {
            std::uint64_t v = 0;
            if (!read_bytes(node, v) || v < low || v > high) return false;
            value = static_cast<T>(v);
            return true;
          },
          [](const T& value) { return text_of_bytes(value); }};
}

/// Of what `base` allows, the powers of two.
template <typename T>
Codec<T> power_of_two(Codec<T> base) {
  return {"a power of two, " + base.allowed,
          [base](const YamlNode& node, T& value) {
            return base.read(node, value) && value != 0 && (value & (value - 1)) == 0;
          },
          base.write};
}

/// One of a fixed set of words.
template <typename T>
Codec<T> one_of(std::vector<std::pair<const char*, T>> words) {
  std::string allowed;
  for (const auto& w : words) allowed += (allowed.empty() ? "" : ", ") + std::string(w.first);
  return {allowed,
          [words](const YamlNode& node, T& value) {
            if (node.kind != YamlNode::Kind::scalar || node.quoted) return false;
            for (const auto& w : words) {
              if (node.text != w.first) continue;
              value = w.second;
              return true;
            }
            return false;
          },
          [words](const T& value) -> std::string {
            for (const auto& w : words)
              if (w.second == value) return w.first;
            return "'?'";  // not a member of the enum: reads back as an error
          }};
}

/// The flow text of a list.
template <typename Items, typename T>
std::string text_of_list(const Items& items, const Codec<T>& element) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + element.write(item);
  return "[" + text + "]";
}

/// A list of N values with fixed meanings, such as [x, y].
template <typename T, std::size_t N>
Codec<std::array<T, N>> tuple_of(const std::string& parts, Codec<T> element) {
  return {parts + ", each " + element.allowed,
          [element](const YamlNode& node, std::array<T, N>& value) {
            if (node.kind != YamlNode::Kind::sequence || node.items.size() != N) return false;
            for (std::size_t i = 0; i < N; ++i)
              if (!element.read(node.items[i], value[i])) return false;
            return true;
          },
          [element](const std::array<T, N>& value) { return text_of_list(value, element); }};
}

enum class Order { matters, sorted };

/// A list of at least `min_size` values without repetition. Where the order has no meaning it is normalised.
template <typename T>
Codec<std::vector<T>> distinct_list(Codec<T> element, std::size_t min_size, Order order) {
  return {std::string("a list of ") + (min_size > 0 ? "at least " + std::to_string(min_size) + " " : "") +
              "distinct entries, each " + element.allowed,
          [=](const YamlNode& node, std::vector<T>& value) {
            if (node.kind != YamlNode::Kind::sequence || node.items.size() < min_size) return false;
            value.clear();
            for (const YamlNode& item : node.items) {
              T v{};
              if (!element.read(item, v) || std::find(value.begin(), value.end(), v) != value.end()) return false;
              value.push_back(std::move(v));
            }
            if (order == Order::sorted) std::sort(value.begin(), value.end());
            return true;
          },
          [element](const std::vector<T>& value) { return text_of_list(value, element); }};
}

}  // namespace kb::config_detail
