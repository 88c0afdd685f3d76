// The table of topology keys. It drives parsing, overrides, the dump, the list of keys and the texts of errors.
#pragma once

#include <kb/platform/config.h>

#include <functional>
#include <string>
#include <vector>

#include "yaml_tree.h"

namespace kb::config_detail {

struct Key {
  std::string name;  // dotted
  std::string allowed;
  std::string unit;
  std::string doc;
  std::function<bool(const YamlNode&, SystemConfig&)> read;  // false: the value is not allowed
  std::function<std::string(const SystemConfig&)> write;     // YAML flow text

  std::string allowed_text() const { return unit.empty() ? allowed : allowed + " (" + unit + ")"; }
};

/// In the order of the dump: the keys of a group follow one another.
const std::vector<Key>& key_table();

/// The key of this dotted name, or nullptr.
const Key* find_key(const std::string& name);

/// Whether `name` is a prefix of keys ("pe", "cube.hbm").
bool is_group(const std::string& name);

/// The next segments under a group ("" is the top), comma-separated, for messages.
std::string children_of(const std::string& group);

/// "nearest known key: 'pe.clock_ghz'", or the keys of the innermost known group where none is near.
std::string hint_for_unknown(const std::string& name);

}  // namespace kb::config_detail
