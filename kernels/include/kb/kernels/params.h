// Typed parameters of a bench: declared with default, range and words, parsed once, checked before the run.
#pragma once

#include <kb/tlm_if/text.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kb {

enum class ParamType : std::uint8_t { integer, word, flag };
const char* name_of(ParamType t);

/// Declaration of one parameter. An integer may also take one of `words` ("all", "topology").
struct ParamSpec {
  std::string name;
  ParamType type = ParamType::integer;
  std::string default_value;
  std::int64_t min = 1;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::vector<std::string> words;  // word: the allowed values; integer: allowed beside numbers
  std::string doc;

  /// "1 ..", "1 .. 256", "f16 | bf16 | f32", "true | false"
  std::string allowed() const;
};

ParamSpec int_param(const std::string& name, std::int64_t default_value, std::int64_t min, std::int64_t max,
                    const std::string& doc);
/// An integer that may be given as one of `words` too; `default_value` is either.
ParamSpec int_or_word_param(const std::string& name, const std::string& default_value, std::int64_t min,
                            std::int64_t max, std::vector<std::string> words, const std::string& doc);
ParamSpec word_param(const std::string& name, const std::string& default_value, std::vector<std::string> words,
                     const std::string& doc);
ParamSpec flag_param(const std::string& name, bool default_value, const std::string& doc);

/// The values of one run: what was given, defaults for the rest.
class Params {
 public:
  Params() = default;
  /// `owner` is the bench's name, for messages. Throws InputError for a name that is not declared (naming the
  /// nearest that is), a value of the wrong type, out of range or not among the words.
  Params(const std::string& owner, const std::vector<ParamSpec>& specs,
         const std::map<std::string, std::string>& given);

  /// Accessors by declared name; asking for another name or type is a fault of the bench (std::logic_error).
  std::int64_t integer(const std::string& name) const;
  const std::string& word(const std::string& name) const;
  bool flag(const std::string& name) const;
  /// The word given in place of an integer, if one was.
  std::optional<std::string> word_instead(const std::string& name) const;

  /// All names with their values as text, in the order of declaration.
  struct Item {
    std::string name;
    ParamType type = ParamType::integer;
    std::string value;
  };
  const std::vector<Item>& items() const { return items_; }

 private:
  const Item& find(const std::string& name) const;
  std::vector<Item> items_;
};

}  // namespace kb
