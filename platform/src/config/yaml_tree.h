// A YAML document as a plain tree that keeps what the configuration's error messages need: lines, quoting and
// duplicate keys. yaml-cpp's own nodes lose or hide them.
#pragma once

#include <string>
#include <vector>

namespace kb::config_detail {

/// Where a text came from, for messages: "topology.yaml:12", "--set" (line 0: no line).
struct Place {
  std::string origin;
  int line = 0;
  std::string str() const { return line > 0 ? origin + ":" + std::to_string(line) : origin; }
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;     // scalar
  bool quoted = false;  // scalar in quotes, as a block or with a tag: a string, whatever it looks like
  int line = 0;         // 1-based
  std::vector<YamlNode> items;
  std::vector<Entry> entries;  // in file order, duplicates included

  /// The value as a message shows it, shortened: 12, 'text' (a string), [1, 2], a map, nothing.
  std::string describe() const;
};

struct YamlNode::Entry {
  std::string key;
  int line = 0;
  YamlNode value;
};

/// Parses one document. Throws InputError for syntax errors, aliases, keys that are not plain text and more than one
/// document; an empty text gives a null node.
YamlNode parse_yaml(const std::string& text, const std::string& origin);

}  // namespace kb::config_detail
