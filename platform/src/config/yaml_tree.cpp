#include "yaml_tree.h"

#include <kb/tlm_if/errors.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

namespace kb::config_detail {

namespace {

constexpr std::size_t kShownChars = 60;

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& origin) : origin_(origin) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add_leaf(make(YamlNode::Kind::null, mark), mark); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "found an alias (*name); allowed: plain values, written out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    YamlNode node = make(YamlNode::Kind::scalar, mark);
    node.text = value;
    node.quoted = tag != "?" && !tag.empty();  // "?" is a plain scalar, "!" one in quotes
    add_leaf(std::move(node), mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::sequence, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    bool have_key = false;  // of a map: the next value belongs to the last entry
  };

  static YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    throw InputError(Place{origin_, mark.line + 1}.str() + ": " + what);
  }

  bool expects_key() const {
    return !levels_.empty() && levels_.back().node.kind == YamlNode::Kind::map && !levels_.back().have_key;
  }

  void add_leaf(YamlNode node, const YAML::Mark& mark) {
    if (!expects_key()) {
      add(std::move(node));
      return;
    }
    if (node.kind != YamlNode::Kind::scalar) refuse(mark, "found an empty key; allowed: the name of a key");
    levels_.back().node.entries.push_back({node.text, node.line, {}});
    levels_.back().have_key = true;
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (expects_key()) refuse(mark, "found a list or map as key; allowed: the name of a key");
    levels_.push_back({make(kind, mark), false});
  }

  void close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
    } else if (levels_.back().node.kind == YamlNode::Kind::sequence) {
      levels_.back().node.items.push_back(std::move(node));
    } else {
      levels_.back().node.entries.back().value = std::move(node);
      levels_.back().have_key = false;
    }
  }

  const std::string& origin_;
  YamlNode root_;
  std::vector<Level> levels_;
};

}  // namespace

std::string YamlNode::describe() const {
  std::string shown;
  switch (kind) {
    case Kind::null: return "nothing";
    case Kind::map: return "a map";
    case Kind::scalar: shown = text; break;
    case Kind::sequence:
      for (const YamlNode& item : items) {
        shown += (shown.empty() ? "" : ", ") + item.describe();
        if (shown.size() > kShownChars) break;
      }
      break;
  }
  if (shown.size() > kShownChars) shown = shown.substr(0, kShownChars) + "...";
  if (kind == Kind::sequence) return "[" + shown + "]";
  return quoted ? "'" + shown + "' (a string)" : shown;
}

YamlNode parse_yaml(const std::string& text, const std::string& origin) {
  std::istringstream stream(text);
  TreeBuilder builder(origin);
  YamlNode root;
  try {
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) root = builder.take();
    TreeBuilder rest(origin);
    if (parser.HandleNextDocument(rest)) {
      throw InputError(Place{origin, rest.take().line}.str() + ": found a second document; allowed: one");
    }
  } catch (const YAML::Exception& e) {
    throw InputError(Place{origin, e.mark.line + 1}.str() + ": not valid YAML: " + e.msg);
  }
  return root;
}

}  // namespace kb::config_detail
