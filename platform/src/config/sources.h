// Where each key of a configuration got its value, so that a message about a combination of keys can name the line.
#pragma once

#include <kb/platform/config.h>

#include <map>
#include <string>

#include "yaml_tree.h"

namespace kb::config_detail {

struct Sources {
  std::string origin;     // the file, for keys that are not in it
  bool complete = false;  // keys without a place have their default
  std::map<std::string, Place> places;
};

/// Throws InputError: "PLACE: key 'KEY': found FOUND; allowed: ALLOWED".
[[noreturn]] void refuse(const Place& place, const std::string& key, const std::string& found,
                         const std::string& allowed);

/// Checks ranges and combinations. Throws InputError.
void check(const SystemConfig& config, const Sources& sources);

}  // namespace kb::config_detail
