#include <kb/kernels/params.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace kb {

const char* name_of(ParamType t) {
  switch (t) {
    case ParamType::integer: return "integer";
    case ParamType::word: return "word";
    case ParamType::flag: return "flag";
  }
  return "?";
}

namespace {

std::string join(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : separator) + w;
  return text;
}

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string ParamSpec::allowed() const {
  if (type == ParamType::flag) return "true | false";
  if (type == ParamType::word) return join(words, " | ");
  std::string range = std::to_string(min) + " ..";
  if (max != std::numeric_limits<std::int64_t>::max()) range += " " + std::to_string(max);
  return words.empty() ? range : range + " | " + join(words, " | ");
}

ParamSpec int_param(const std::string& name, std::int64_t default_value, std::int64_t min, std::int64_t max,
                    const std::string& doc) {
  return {name, ParamType::integer, std::to_string(default_value), min, max, {}, doc};
}

ParamSpec int_or_word_param(const std::string& name, const std::string& default_value, std::int64_t min,
                            std::int64_t max, std::vector<std::string> words, const std::string& doc) {
  return {name, ParamType::integer, default_value, min, max, std::move(words), doc};
}

ParamSpec word_param(const std::string& name, const std::string& default_value, std::vector<std::string> words,
                     const std::string& doc) {
  return {name, ParamType::word, default_value, 0, 0, std::move(words), doc};
}

ParamSpec flag_param(const std::string& name, bool default_value, const std::string& doc) {
  return {name, ParamType::flag, default_value ? "true" : "false", 0, 0, {}, doc};
}

Params::Params(const std::string& owner, const std::vector<ParamSpec>& specs,
               const std::map<std::string, std::string>& given) {
  std::vector<std::string> names;
  for (const auto& s : specs) names.push_back(s.name);
  for (const auto& g : given)
    if (!contains(names, g.first))
      throw InputError("bench " + owner + ": found unknown parameter " + g.first + "; allowed: " + join(names, ", ") +
                       nearest_hint(g.first, names));
  for (const auto& spec : specs) {
    const auto it = given.find(spec.name);
    const std::string& value = it == given.end() ? spec.default_value : it->second;
    bool ok = false;
    switch (spec.type) {
      case ParamType::flag: ok = value == "true" || value == "false"; break;
      case ParamType::word: ok = contains(spec.words, value); break;
      case ParamType::integer: {
        const auto number = parse_integer(value);
        ok = contains(spec.words, value) || (number && *number >= spec.min && *number <= spec.max);
        break;
      }
    }
    if (!ok) {
      std::string message =
          "bench " + owner + ", parameter " + spec.name + ": found '" + value + "'; allowed: " + spec.allowed();
      if (spec.type == ParamType::word) message += nearest_hint(value, spec.words);
      throw InputError(message);
    }
    items_.push_back({spec.name, spec.type, value});
  }
}

const Params::Item& Params::find(const std::string& name) const {
  for (const auto& item : items_)
    if (item.name == name) return item;
  throw std::logic_error("parameter " + name + " is not declared");
}

std::int64_t Params::integer(const std::string& name) const {
  const Item& item = find(name);
  const auto number = parse_integer(item.value);
  if (item.type != ParamType::integer || !number) throw std::logic_error("parameter " + name + " is not an integer");
  return *number;
}

const std::string& Params::word(const std::string& name) const {
  const Item& item = find(name);
  if (item.type != ParamType::word) throw std::logic_error("parameter " + name + " is not a word");
  return item.value;
}

bool Params::flag(const std::string& name) const {
  const Item& item = find(name);
  if (item.type != ParamType::flag) throw std::logic_error("parameter " + name + " is not a flag");
  return item.value == "true";
}

std::optional<std::string> Params::word_instead(const std::string& name) const {
  const Item& item = find(name);
  if (item.type != ParamType::integer) throw std::logic_error("parameter " + name + " is not an integer");
  if (parse_integer(item.value)) return std::nullopt;
  return item.value;
}

}  // namespace kb
