#include <kb/traces/op_log_reader.h>

#include "json_cursor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace kb {

namespace {

constexpr std::size_t kReadBuffer = 1 << 20;
constexpr std::uint32_t kMaxComponents = 1u << 24;

template <typename E, typename Name>
E enum_of(JsonCursor& json, const char* what, int count, Name name) {
  const std::string_view found = json.string();
  for (int i = 0; i < count; ++i)
    if (found == name(static_cast<E>(i))) return static_cast<E>(i);
  std::string allowed;
  for (int i = 0; i < count; ++i) allowed += std::string(i > 0 ? ", " : "") + name(static_cast<E>(i));
  json.fail(what, "\"" + std::string(found) + "\"", allowed);
}

DType read_dtype(JsonCursor& json) {
  const std::string found(json.string());
  if (const auto type = dtype_from_name(found)) return *type;
  json.fail("dtype", "\"" + found + "\"", "f16, bf16, f32, i8, i32");
}

TileRole read_role(JsonCursor& json) {
  const std::string_view found = json.string();
  if (found == "a") return TileRole::a;
  if (found == "b") return TileRole::b;
  if (found == "out") return TileRole::out;
  json.fail("role", "\"" + std::string(found) + "\"", "a, b, out");
}

TensorHandle read_handle(JsonCursor& json) {
  TensorHandle h;
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  int given = -1;
  unsigned seen = 0;
  json.object([&](std::string_view key) {
    if (key == "id") {
      h.id = json.integer<std::uint32_t>();
    } else if (key == "shape") {
      seen |= 1;
      json.array([&] {
        const auto dim = json.integer<std::int64_t>();
        if (dim < 0 || h.shape.rank() == Shape::kMaxRank)
          json.fail("shape", "more than 4 or negative dimensions", "at most 4 from 0");
        h.shape.push_back(dim);
      });
    } else if (key == "strides") {
      given = 0;
      json.array([&] {
        if (given == Shape::kMaxRank) json.fail("strides", "more than 4", "one per dimension");
        strides[static_cast<std::size_t>(given++)] = json.integer<std::int64_t>();
      });
    } else if (key == "dtype") {
      seen |= 2;
      h.dtype = read_dtype(json);
    } else if (key == "space") {
      seen |= 4;
      h.space = enum_of<Space>(json, "space", 3, [](Space s) { return name_of(s); });
    } else if (key == "addr") {
      seen |= 8;
      h.addr = json.integer<std::uint64_t>();
    } else if (key == "pinned") {
      h.pinned = json.boolean();
    } else {
      json.fail("handle", "key \"" + std::string(key) + "\"", "id, shape, strides, dtype, space, addr, pinned");
    }
  });
  if (seen != 15) json.fail("handle", "missing keys", "shape, dtype, space, addr");
  if (given >= 0 && given != h.shape.rank())
    json.fail("strides", std::to_string(given), std::to_string(h.shape.rank()));
  h.strides = given >= 0 ? strides : dense_strides(h.shape);
  return h;
}

OpSpec read_op(JsonCursor& json) {
  OpSpec op;
  json.object([&](std::string_view key) {
    if (key == "kind") {
      op.kind = json.string();
    } else if (key == "scope") {
      op.scope = enum_of<OpScope>(json, "scope", 3, [](OpScope s) { return name_of(s); });
    } else if (key == "operands") {
      json.object([&](std::string_view name) {
        op.operands.push_back({std::string(name), {}});
        op.operands.back().handle = read_handle(json);
      });
    } else if (key == "extra") {
      json.object([&](std::string_view name) {
        op.extra.push_back({std::string(name), 0});
        op.extra.back().value = json.number();
      });
    } else if (key == "out") {
      op.has_out = true;
      op.out = read_handle(json);
    } else if (key == "trans_a") {
      op.trans_a = json.boolean();
    } else if (key == "trans_b") {
      op.trans_b = json.boolean();
    } else {
      json.fail("op", "key \"" + std::string(key) + "\"", "kind, scope, operands, extra, out, trans_a, trans_b");
    }
  });
  if (op.kind.empty()) json.fail("op", "no kind", "a name");
  return op;
}

CommandPtr read_command(JsonCursor& json) {
  auto c = std::make_shared<Command>();
  bool kind = false;
  json.object([&](std::string_view key) {
    if (key == "kind") {
      kind = true;
      c->kind = enum_of<CommandKind>(json, "kind", kCommandKinds, [](CommandKind k) { return name_of(k); });
    } else if (key == "id") {
      c->id = json.integer<CommandId>();
    } else if (key == "ops") {
      json.array([&] { c->ops.push_back(read_op(json)); });
    } else if (key == "rw_handles") {
      json.array([&] { c->rw_handles.push_back(read_handle(json)); });
    } else if (key == "direction") {
      c->direction = enum_of<Direction>(json, "direction", kDirections, [](Direction d) { return name_of(d); });
    } else if (key == "split") {
      c->split = json.boolean();
    } else if (key == "consume") {
      c->consume = json.boolean();
    } else {
      json.fail("command", "key \"" + std::string(key) + "\"", "kind, id, ops, rw_handles, direction, split, consume");
    }
  });
  if (!kind) json.fail("command", "no kind", "one of the command kinds");
  return c;
}

}  // namespace

OpLogReader::OpLogReader(const std::string& path) : path_(path), buffer_(kReadBuffer) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) throw IoError(path + ": cannot open: " + std::strerror(errno));
}

OpLogReader::~OpLogReader() {
  ::close(fd_);
}

bool OpLogReader::next_line() {
  std::size_t searched = begin_;
  for (;;) {
    const void* found = end_ == searched ? nullptr : std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    if (found != nullptr) {
      const auto stop = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
      line_ = {buffer_.data() + begin_, stop - begin_};
      hash_ = op_log_hash(hash_, buffer_.data() + begin_, stop + 1 - begin_);
      begin_ = stop + 1;
      ++lines_;
      where_ = path_ + ":" + std::to_string(lines_);
      return true;
    }
    if (at_end_) {
      if (begin_ == end_) return false;
      throw InputError(path_ + ":" + std::to_string(lines_ + 1) +
                       ": found a last line without its end; allowed: whole lines");
    }
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    searched = end_;
    if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
    ssize_t n;
    do n = ::read(fd_, buffer_.data() + end_, buffer_.size() - end_);
    while (n < 0 && errno == EINTR);
    if (n < 0) throw IoError(path_ + ": cannot read: " + std::strerror(errno));
    at_end_ = n == 0;
    end_ += static_cast<std::size_t>(n);
  }
}

bool OpLogReader::next(OpRecord& r) {
  if (!next_line()) return false;
  r = OpRecord{};
  parse(r);
  if (r.name == OpName::command && r.command)
    commands_.add(r.pe, r.command, r.command);
  else
    commands_.track(r);
  ++records_;
  return true;
}

void OpLogReader::parse(OpRecord& r) {
  JsonCursor json(where_, line_);
  enum Key : unsigned {
    t_start = 1,
    t_end = 2,
    component = 4,
    kind = 8,
    name = 16,
    command = 32,
    tile = 64,
    params = 128
  };
  unsigned seen = 0;
  const auto once = [&](Key k, std::string_view key) {
    if (seen & k) json.fail("record", "key \"" + std::string(key) + "\" twice", "once");
    seen |= k;
  };
  std::string component_name;
  std::uint32_t index = kMaxComponents;
  bool has_command = false;
  CommandId id = 0;
  CommandPtr spec;
  json.object([&](std::string_view key) {
    if (key == "t_start_ns") {
      once(t_start, key);
      r.t_start = json.ns();
    } else if (key == "t_end_ns") {
      once(t_end, key);
      r.t_end = json.ns();
    } else if (key == "component") {
      once(component, key);
      component_name = json.string();
    } else if (key == "op_kind") {
      once(kind, key);
      r.kind = enum_of<OpKind>(json, "op_kind", 5, [](OpKind k) { return name_of(k); });
    } else if (key == "op_name") {
      once(name, key);
      r.name = enum_of<OpName>(json, "op_name", static_cast<int>(OpName::launch_done) + 1,
                               [](OpName n) { return name_of(n); });
    } else if (key == "command") {
      once(command, key);
      if (!json.null()) {
        has_command = true;
        id = json.integer<CommandId>();
      }
    } else if (key == "tile") {
      once(tile, key);
      if (!json.null()) {
        json.expect('[');
        r.tile_m = json.integer<std::int32_t>();
        json.expect(',');
        r.tile_n = json.integer<std::int32_t>();
        json.expect(',');
        r.tile_k = json.integer<std::int32_t>();
        json.expect(']');
      }
    } else if (key == "params") {
      once(params, key);
      json.object([&](std::string_view param) {
        if (param == "index")
          index = json.integer<std::uint32_t>();
        else if (param == "number")
          r.number = json.integer<std::uint64_t>();
        else if (param == "pe")
          r.pe = json.integer<std::uint32_t>();
        else if (param == "op")
          r.op = json.integer<std::int16_t>();
        else if (param == "role")
          r.role = read_role(json);
        else if (param == "address")
          r.address = json.integer<std::uint64_t>();
        else if (param == "bytes")
          r.bytes = json.integer<std::uint64_t>();
        else if (param == "m")
          r.m = json.integer<std::int64_t>();
        else if (param == "k")
          r.k = json.integer<std::int64_t>();
        else if (param == "n")
          r.n = json.integer<std::int64_t>();
        else if (param == "elements")
          r.elements = json.integer<std::uint64_t>();
        else if (param == "ready_ns")
          r.t_ready = json.ns();
        else if (param == "path_ns")
          r.path_ps = json.ns();
        else if (param == "message")
          r.message = json.integer<std::uint64_t>();
        else if (param == "peer")
          r.peer = json.integer<std::uint32_t>();
        else if (param == "arrives")
          r.arrives = enum_of<Direction>(json, "arrives", kDirections, [](Direction d) { return name_of(d); });
        else if (param == "block_m")
          r.block_m = json.integer<std::uint32_t>();
        else if (param == "block_n")
          r.block_n = json.integer<std::uint32_t>();
        else if (param == "m_outer")
          r.m_outer = json.boolean();
        else if (param == "plan_bytes")
          r.plan_bytes = json.integer<std::uint64_t>();
        else if (param == "spec")
          spec = read_command(json);
        else
          json.fail("params", "key \"" + std::string(param) + "\"", "the parameters of an op log record");
      });
    } else {
      json.fail("record", "key \"" + std::string(key) + "\"",
                "t_start_ns, t_end_ns, component, op_kind, op_name, command, tile, params");
    }
  });
  json.expect_end();
  if (seen != 255)
    json.fail("record", "missing keys", "t_start_ns, t_end_ns, component, op_kind, op_name, command, tile, params");

  if (index >= kMaxComponents)
    json.fail("index", "none or a number too large", "below " + std::to_string(kMaxComponents));
  r.component = index;
  if (index >= components_.size() || components_.name(index).empty())
    components_.set(index, component_name);
  else if (components_.name(index) != component_name)
    json.fail("component", component_name, components_.name(index) + ", the name of index " + std::to_string(index));

  if (!has_command) {
    if (spec) json.fail("command", "null with a spec", "its number");
    return;
  }
  if (r.pe == kNoPe) json.fail("pe", "none", "the PE of the command");
  if (r.pe >= CommandTracker<CommandPtr>::kMaxPes) json.fail("pe", std::to_string(r.pe), "below 2^24");
  if (id >= CommandTracker<CommandPtr>::kMaxId) json.fail("command", std::to_string(id), "below 2^40");
  if (spec) {
    if (spec->id != id) json.fail("spec", "command " + std::to_string(spec->id), std::to_string(id));
    if (r.name != OpName::command)
      json.fail("spec", std::string("in a record ") + name_of(r.name), "in a record command");
    r.command = spec;
  } else {
    if (r.name == OpName::command) json.fail("spec", "none", "the command");
    const CommandPtr* known = commands_.find(r.pe, id);
    if (known == nullptr)
      json.fail("command", std::to_string(id),
                "a command of PE " + std::to_string(r.pe) + " whose command record came before");
    r.command = *known;
  }
}

}  // namespace kb
