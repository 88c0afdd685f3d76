#include <kb/platform/sweep.h>

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/text.h>

#include "config/codec.h"
#include "config/keys.h"
#include "config/sources.h"
#include "config/yaml_tree.h"

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kb {

using config_detail::Place;
using config_detail::refuse;
using config_detail::YamlNode;

namespace {

constexpr const char* kBenchPrefix = "bench.";

/// A value as `--set` takes it: a scalar's text, or a list in flow style.
std::string flow_text(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return node.text;
  std::string text;
  for (const YamlNode& item : node.items) text += (text.empty() ? "" : ", ") + flow_text(item);
  return "[" + text + "]";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

/// SplitMix64: the whole of a 64-bit state mixed into a 64-bit value.
std::uint64_t mix(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15ull;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
  return state ^ (state >> 31);
}

/// Uniform in [0, 1), from the sweep's seed, the sample's number and the key alone.
double uniform(std::uint64_t seed, std::uint64_t sample, const std::string& key) {
  std::uint64_t state = mix(mix(seed) ^ sample);
  for (const char c : key) state = mix(state ^ static_cast<unsigned char>(c));
  return static_cast<double>(mix(state) >> 11) * 0x1.0p-53;
}

/// Values of one key of a random design.
struct RandomKey {
  std::string key;
  std::vector<std::string> choices;  // empty: a range
  double min = 0, max = 0;
  bool whole = false;
  bool log_scale = false;

  std::string draw(std::uint64_t seed, std::uint64_t sample) const {
    const double u = uniform(seed, sample, key);
    if (!choices.empty()) return choices[static_cast<std::size_t>(u * static_cast<double>(choices.size()))];
    // A whole number k stands for [k, k + 1), so that both ends are as likely as the rest.
    const double high = whole ? max + 1 : max;
    const double value = log_scale ? min * std::exp(u * std::log(high / min)) : min + u * (high - min);
    if (whole) return fmt::format("{:.0f}", std::clamp(std::floor(value), min, max));
    return fmt::format("{}", std::stod(fmt::format("{:.6g}", std::clamp(value, min, max))));
  }
};

class Reader {
 public:
  Reader(const std::string& origin, const BenchRegistry& benches) : origin_(origin), benches_(benches) {}

  SweepSpec read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::map) {
      throw InputError(Place{origin_, root.line}.str() + ": found " +
                       (root.kind == YamlNode::Kind::null ? "an empty file" : root.describe()) +
                       "; allowed: a map with the keys " + joined(kTop));
    }
    check_names(root, "", kTop);
    const YamlNode::Entry& topology = require(root, "topology");
    const YamlNode::Entry& bench = require(root, "bench");
    spec_.topology = resolve(word(topology, "", "the path of a topology file"));
    spec_.bench = word(bench, "", "a bench (kernbench list)");
    bench_ = benches_.find(spec_.bench);
    if (bench_ == nullptr) refuse_bench(bench);
    if (const auto* e = find(root, "mode")) {
      spec_.mode = word(*e, "", "timing, data, emit");
      if (spec_.mode != "timing" && spec_.mode != "data" && spec_.mode != "emit")
        refuse(at(*e), "mode", spec_.mode, "timing, data, emit");
    }
    if (const auto* e = find(root, "seed")) spec_.seed = whole(*e, "seed", 0);
    if (const auto* e = find(root, "set")) read_fixed(*e);
    if (const auto* e = find(root, "grid")) read_grid(*e);
    if (const auto* e = find(root, "list")) read_list(*e);
    if (const auto* e = find(root, "random")) read_random(*e);
    if (spec_.points.empty())
      throw InputError(origin_ + ": found no points; allowed: at least one of grid, list and random with values");
    return std::move(spec_);
  }

 private:
  static inline const std::vector<std::string> kTop{"topology", "bench", "mode", "seed",
                                                    "set",      "grid",  "list", "random"};
  static inline const std::vector<std::string> kRandom{"samples", "seed", "keys"};
  static inline const std::vector<std::string> kRange{"min", "max", "scale"};

  Place at(const YamlNode::Entry& e) const { return {origin_, e.line}; }

  static const YamlNode::Entry* find(const YamlNode& map, const char* key) {
    for (const auto& e : map.entries)
      if (e.key == key) return &e;
    return nullptr;
  }

  const YamlNode::Entry& require(const YamlNode& map, const char* key) const {
    if (const auto* e = find(map, key)) return *e;
    throw InputError(Place{origin_, map.line}.str() + ": key '" + key + "': found none; allowed: it must be given");
  }

  /// Unknown and duplicate keys of a map with fixed keys.
  void check_names(const YamlNode& map, const std::string& prefix, const std::vector<std::string>& known) const {
    for (const auto& e : map.entries)
      if (std::find(known.begin(), known.end(), e.key) == known.end())
        throw InputError(at(e).str() + ": key '" + prefix + e.key + "': found an unknown key; " +
                         did_you_mean(e.key, known, prefix) + "allowed: " + joined(known));
    check_duplicates(map, prefix);
  }

  void check_duplicates(const YamlNode& map, const std::string& prefix) const {
    for (std::size_t i = 0; i < map.entries.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (map.entries[i].key == map.entries[j].key)
          refuse(at(map.entries[i]), prefix + map.entries[i].key,
                 fmt::format("a duplicate of line {}", map.entries[j].line), "each key once");
  }

  std::string word(const YamlNode::Entry& e, const std::string& prefix, const char* allowed) const {
    if (e.value.kind != YamlNode::Kind::scalar || e.value.text.empty())
      refuse(at(e), prefix + e.key, e.value.describe(), allowed);
    return e.value.text;
  }

  std::uint64_t whole(const YamlNode::Entry& e, const std::string& name, std::uint64_t min) const {
    std::uint64_t value = 0;
    if (!config_detail::read_whole(e.value, value) || value < min)
      refuse(at(e), name, e.value.describe(), fmt::format("a whole number from {}", min));
    return value;
  }

  std::string resolve(const std::string& path) const {
    const std::filesystem::path p(path);
    if (p.is_absolute()) return path;
    return (std::filesystem::path(origin_).parent_path() / p).lexically_normal().string();
  }

  [[noreturn]] void refuse_bench(const YamlNode::Entry& e) const {
    std::vector<std::string> names;
    for (const auto* b : benches_.list()) names.push_back(b->name());
    throw InputError(at(e).str() + ": key 'bench': found unknown bench '" + spec_.bench + "'; " +
                     did_you_mean(spec_.bench, names) + "allowed: " + joined(names));
  }

  const ParamSpec* bench_param(const std::string& name) const {
    for (const auto& p : params_())
      if (p.name == name) return &p;
    return nullptr;
  }
  const std::vector<ParamSpec>& params_() const {
    if (param_specs_.empty()) param_specs_ = bench_->params();
    return param_specs_;
  }

  /// A key that settings may name; `where` is its line.
  void check_key(const std::string& key, const Place& where) const {
    if (key.rfind(kBenchPrefix, 0) == 0) {
      const std::string name = key.substr(std::strlen(kBenchPrefix));
      if (bench_param(name) != nullptr) return;
      std::vector<std::string> names;
      for (const auto& p : params_()) names.push_back(kBenchPrefix + p.name);
      throw InputError(where.str() + ": key '" + key + "': found an unknown parameter of " + spec_.bench +
                       (names.empty()
                            ? "; it has none"
                            : "; " + did_you_mean(key, names) + "allowed: " + joined(names)));
    }
    if (config_detail::find_key(key) != nullptr) return;
    if (config_detail::is_group(key))
      refuse(where, key, "a group of keys", "one of its keys, " + config_detail::children_of(key));
    std::vector<std::string> names = config_keys();
    for (const auto& p : params_()) names.push_back(kBenchPrefix + p.name);
    throw InputError(where.str() + ": key '" + key + "': found an unknown key; " + did_you_mean(key, names) +
                     "allowed: topology keys and bench.NAME");
  }

  /// The text of one value, checked against what its key takes.
  std::string value_of(const std::string& key, const YamlNode& value) const {
    const Place where{origin_, value.line};
    if (value.kind == YamlNode::Kind::map || value.kind == YamlNode::Kind::null)
      refuse(where, key, value.describe(), "a value");
    const std::string text = flow_text(value);
    if (key.rfind(kBenchPrefix, 0) == 0) {
      const ParamSpec& param = *bench_param(key.substr(std::strlen(kBenchPrefix)));
      try {
        Params(spec_.bench, {param}, {{param.name, text}});
      } catch (const InputError&) {
        refuse(where, key, value.describe(), param.allowed());
      }
      return text;
    }
    const config_detail::Key& k = *config_detail::find_key(key);
    SystemConfig scratch;
    if (!k.read(value, scratch)) refuse(where, key, value.describe(), k.allowed_text());
    return text;
  }

  void check_swept(const std::string& key, const Place& where) {
    check_key(key, where);
    for (const auto& f : spec_.fixed)
      if (f.first == key) refuse(where, key, "a key of 'set' too", "a key is either fixed or swept");
    if (std::find(spec_.keys.begin(), spec_.keys.end(), key) == spec_.keys.end()) spec_.keys.push_back(key);
  }

  void read_fixed(const YamlNode::Entry& e) {
    if (e.value.kind != YamlNode::Kind::map) refuse(at(e), "set", e.value.describe(), "a map of keys and values");
    check_duplicates(e.value, "");
    for (const auto& entry : e.value.entries) {
      check_key(entry.key, at(entry));
      spec_.fixed.emplace_back(entry.key, value_of(entry.key, entry.value));
    }
  }

  std::vector<std::string> values(const YamlNode::Entry& e) const {
    if (e.value.kind != YamlNode::Kind::sequence || e.value.items.empty())
      refuse(at(e), e.key, e.value.describe(), "a list of values");
    std::vector<std::string> texts;
    for (const YamlNode& item : e.value.items) texts.push_back(value_of(e.key, item));
    return texts;
  }

  void check_count(std::size_t more, const YamlNode::Entry& e) const {
    if (more > kMaxSweepPoints || spec_.points.size() + more > kMaxSweepPoints)
      refuse(at(e), e.key, fmt::format("more than {} points", kMaxSweepPoints),
             fmt::format("up to {}", kMaxSweepPoints));
  }

  void read_grid(const YamlNode::Entry& e) {
    if (e.value.kind != YamlNode::Kind::map || e.value.entries.empty())
      refuse(at(e), "grid", e.value.describe(), "a map from keys to lists of values");
    check_duplicates(e.value, "");
    std::vector<std::vector<std::string>> axes;
    std::size_t count = 1;
    for (const auto& entry : e.value.entries) {
      check_swept(entry.key, at(entry));
      axes.push_back(values(entry));
      count = axes.back().size() > kMaxSweepPoints / count ? kMaxSweepPoints + 1 : count * axes.back().size();
      check_count(count, e);
    }
    for (std::size_t i = 0; i < count; ++i) {
      SweepPoint point;
      std::size_t below = count;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        below /= axes[a].size();
        point.emplace_back(e.value.entries[a].key, axes[a][i / below % axes[a].size()]);
      }
      spec_.points.push_back(std::move(point));
    }
  }

  void read_list(const YamlNode::Entry& e) {
    if (e.value.kind != YamlNode::Kind::sequence || e.value.items.empty())
      refuse(at(e), "list", e.value.describe(), "a list of maps from keys to values");
    check_count(e.value.items.size(), e);
    for (const YamlNode& item : e.value.items) {
      if (item.kind != YamlNode::Kind::map)
        refuse({origin_, item.line}, "list", item.describe(), "a map from keys to values");
      check_duplicates(item, "");
      SweepPoint point;
      for (const auto& entry : item.entries) {
        check_swept(entry.key, at(entry));
        point.emplace_back(entry.key, value_of(entry.key, entry.value));
      }
      spec_.points.push_back(std::move(point));
    }
  }

  RandomKey read_random_key(const YamlNode::Entry& e) const {
    RandomKey key;
    key.key = e.key;
    if (e.value.kind == YamlNode::Kind::sequence) {
      key.choices = values(e);
      return key;
    }
    if (e.value.kind != YamlNode::Kind::map)
      refuse(at(e), e.key, e.value.describe(), "a list of choices, or {min, max, scale}");
    check_names(e.value, e.key + ": ", kRange);
    const YamlNode::Entry& low = require(e.value, "min");
    const YamlNode::Entry& high = require(e.value, "max");
    for (const auto& [entry, target] : {std::make_pair(&low, &key.min), std::make_pair(&high, &key.max)}) {
      if (!config_detail::read_real(entry->value, *target))
        refuse(at(*entry), e.key + ": " + entry->key, entry->value.describe(), "a number");
      value_of(e.key, entry->value);
    }
    std::uint64_t unused = 0;
    key.whole = config_detail::read_whole(low.value, unused) && config_detail::read_whole(high.value, unused);
    if (const auto* scale = find(e.value, "scale")) {
      const std::string text = word(*scale, e.key + ": ", "linear, log");
      if (text != "linear" && text != "log") refuse(at(*scale), e.key + ": scale", text, "linear, log");
      key.log_scale = text == "log";
    }
    if (!(key.min <= key.max)) refuse(at(high), e.key + ": max", high.value.describe(), "not less than min");
    if (key.log_scale && !(key.min > 0))
      refuse(at(low), e.key + ": min", low.value.describe(), "above 0 with scale log");
    return key;
  }

  void read_random(const YamlNode::Entry& e) {
    if (e.value.kind != YamlNode::Kind::map)
      refuse(at(e), "random", e.value.describe(), "a map with the keys " + joined(kRandom));
    check_names(e.value, "random.", kRandom);
    const YamlNode::Entry& samples = require(e.value, "samples");
    const std::uint64_t count = whole(samples, "random.samples", 1);
    check_count(count, e);
    std::uint64_t seed = 1;
    if (const auto* s = find(e.value, "seed")) seed = whole(*s, "random.seed", 0);
    const YamlNode::Entry& map = require(e.value, "keys");
    if (map.value.kind != YamlNode::Kind::map || map.value.entries.empty())
      refuse(at(map), "random.keys", map.value.describe(), "a map from keys to ranges or choices");
    check_duplicates(map.value, "");
    std::vector<RandomKey> keys;
    for (const auto& entry : map.value.entries) {
      check_swept(entry.key, at(entry));
      keys.push_back(read_random_key(entry));
    }
    for (std::uint64_t sample = 0; sample < count; ++sample) {
      SweepPoint point;
      for (const auto& key : keys) point.emplace_back(key.key, key.draw(seed, sample));
      spec_.points.push_back(std::move(point));
    }
  }

  const std::string& origin_;
  const BenchRegistry& benches_;
  const Bench* bench_ = nullptr;
  mutable std::vector<ParamSpec> param_specs_;
  SweepSpec spec_;
};

}  // namespace

SweepSpec parse_sweep(const std::string& yaml, const std::string& origin, const BenchRegistry& benches) {
  return Reader(origin, benches).read(config_detail::parse_yaml(yaml, origin));
}

SweepSpec load_sweep(const std::string& path, const BenchRegistry& benches) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw InputError(path + ": the sweep file cannot be read: it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path + ": the sweep file cannot be read: " + std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw InputError(path + ": the sweep file cannot be read: " + std::strerror(errno));
  return parse_sweep(text.str(), path, benches);
}

}  // namespace kb
