// Topology text to SystemConfig and back.
#include <kb/platform/config.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "keys.h"
#include "sources.h"
#include "yaml_tree.h"

namespace kb {

using config_detail::Key;
using config_detail::Place;
using config_detail::Sources;
using config_detail::YamlNode;

namespace {

constexpr std::uint32_t kUsualWidth = 4;  // PHYs of an IO chiplet; widest logical grid of PEs that is derived

std::string map_with_keys(const std::string& group) {
  return "a map with some of the keys " + config_detail::children_of(group);
}

[[noreturn]] void refuse_unknown(const Place& place, const std::string& key) {
  throw InputError(place.str() + ": key '" + key + "': found an unknown key; " + config_detail::hint_for_unknown(key));
}

/// Sets one key from its node and notes where that came from.
void set_key(const Key& key, const YamlNode& node, const Place& place, SystemConfig& config, Sources& sources) {
  if (!key.read(node, config)) config_detail::refuse(place, key.name, node.describe(), key.allowed_text());
  sources.places[key.name] = place;
}

/// Sets all keys below a map. `prefix` is the dotted name of the map, "" for the document. Keys may be nested or
/// written with dots.
void set_group(const YamlNode& map, const std::string& prefix, const std::string& origin, SystemConfig& config,
               Sources& sources) {
  for (const YamlNode::Entry& entry : map.entries) {
    const std::string name = prefix.empty() ? entry.key : prefix + "." + entry.key;
    const Place place{origin, entry.line};
    const auto [first, is_new] = sources.places.emplace(name, place);
    if (!is_new) {
      config_detail::refuse(place, name, "a duplicate of line " + std::to_string(first->second.line), "each key once");
    }
    if (const Key* key = config_detail::find_key(name)) {
      set_key(*key, entry.value, place, config, sources);
    } else if (!config_detail::is_group(name)) {
      refuse_unknown(place, name);
    } else if (entry.value.kind != YamlNode::Kind::map) {
      config_detail::refuse(place, name, entry.value.describe(), map_with_keys(name));
    } else {
      set_group(entry.value, name, origin, config, sources);
    }
  }
}

void apply_override(const Override& assignment, SystemConfig& config, Sources& sources) {
  const auto& [name, text] = assignment;
  const Place place{"--set", 0};
  const Key* key = config_detail::find_key(name);
  if (key == nullptr && !config_detail::is_group(name)) refuse_unknown(place, name);
  if (key == nullptr) {
    config_detail::refuse(place, name, text, "one of the group's keys, " + config_detail::children_of(name));
  }
  YamlNode node;
  try {
    node = config_detail::parse_yaml(text, place.origin);
  } catch (const InputError&) {  // its line number means nothing here
    config_detail::refuse(place, name, text, key->allowed_text());
  }
  set_key(*key, node, place, config, sources);
}

/// Fills what depends on other keys and was not given.
void derive(SystemConfig& config, const Sources& sources) {
  const auto given = [&](const char* key) { return sources.places.count(key) > 0; };
  if (!given("sip.io.phys")) config.sip.io.phys = std::min(kUsualWidth, config.sip.cube_cols);
  if (!given("cube.pe_grid_cols")) {
    std::uint32_t cols = kUsualWidth;
    while (config.pes_per_cube() % cols != 0) --cols;
    config.cube.pe_grid_cols = cols;
  }
}

}  // namespace

void config_detail::refuse(const Place& place, const std::string& key, const std::string& found,
                           const std::string& allowed) {
  throw InputError(place.str() + ": key '" + key + "': found " + found + "; allowed: " + allowed);
}

SystemConfig parse_config(const std::string& yaml, const std::string& origin, const std::vector<Override>& overrides) {
  const YamlNode root = config_detail::parse_yaml(yaml, origin);
  if (root.kind == YamlNode::Kind::null) {
    throw InputError(origin + ": found an empty file; allowed: " + map_with_keys(""));
  }
  if (root.kind != YamlNode::Kind::map) {
    throw InputError(Place{origin, root.line}.str() + ": found " + root.describe() + "; allowed: " + map_with_keys(""));
  }
  SystemConfig config;
  Sources sources;
  sources.origin = origin;
  sources.complete = true;
  set_group(root, "", origin, config, sources);
  for (const Override& o : overrides) apply_override(o, config, sources);
  derive(config, sources);
  config_detail::check(config, sources);
  return config;
}

SystemConfig load_config(const std::string& path, const std::vector<Override>& overrides) {
  const auto unreadable = [&](const std::string& why) {
    return InputError(path + ": the topology file cannot be read: " + why);
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw unreadable("it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw unreadable(std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw unreadable(std::strerror(errno));
  return parse_config(text.str(), path, overrides);
}

void validate_config(const SystemConfig& config, const std::string& origin) {
  Sources sources;
  sources.origin = origin;
  config_detail::check(config, sources);
}

std::string dump_config(const SystemConfig& config) {
  std::ostringstream out;
  std::vector<std::string> open;  // the groups that the previous key lies in
  for (const Key& key : config_detail::key_table()) {
    std::vector<std::string> path;
    std::istringstream segments(key.name);
    for (std::string segment; std::getline(segments, segment, '.');) path.push_back(segment);
    const std::string leaf = path.back();
    path.pop_back();

    const auto common = std::mismatch(open.begin(), open.end(), path.begin(), path.end()).second - path.begin();
    for (auto level = static_cast<std::size_t>(common); level < path.size(); ++level) {
      out << std::string(2 * level, ' ') << path[level] << ":\n";
    }
    out << std::string(2 * path.size(), ' ') << leaf << ": " << key.write(config) << "  # "
        << (key.unit.empty() ? "" : key.unit + "; ") << key.doc << "\n";
    open = std::move(path);
  }
  return out.str();
}

std::pair<std::uint32_t, std::uint32_t> fabric_shape(const SystemConfig& config) {
  if (config.fabric.cols != 0 || config.fabric.rows != 0) return {config.fabric.cols, config.fabric.rows};
  std::uint32_t rows = 1;
  for (std::uint32_t r = 1; r * r <= config.sips; ++r)
    if (config.sips % r == 0) rows = r;
  return {config.sips / rows, rows};
}

bool is_config_key(const std::string& key) {
  return config_detail::find_key(key) != nullptr;
}

std::vector<std::string> config_keys() {
  std::vector<std::string> names;
  for (const Key& key : config_detail::key_table()) names.push_back(key.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::pair<std::string, std::string>> config_items(const SystemConfig& config) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const Key& key : config_detail::key_table()) items.emplace_back(key.name, key.write(config));
  return items;
}

std::vector<ConfigKeyInfo> describe_config_keys() {
  const SystemConfig defaults;
  std::vector<ConfigKeyInfo> keys;
  for (const Key& key : config_detail::key_table()) {
    keys.push_back({key.name, key.write(defaults), key.allowed, key.unit, key.doc});
  }
  return keys;
}

}  // namespace kb
