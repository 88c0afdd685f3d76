#include <kb/traces/op_log_writer.h>

#include "text.h"

#include <kb/tlm_if/errors.h>

#include <cstring>

namespace kb {

namespace {

// Longest line without component name and command: all fields at their largest.
constexpr std::size_t kLine = 2048;

void append_handle(std::string& to, const TensorHandle& h) {
  to += "{\"id\":";
  text::append_unsigned(to, h.id);
  to += ",\"shape\":[";
  for (int i = 0; i < h.shape.rank(); ++i) {
    if (i > 0) to += ',';
    text::append_signed(to, h.shape[i]);
  }
  to += ']';
  if (h.strides != dense_strides(h.shape)) {
    to += ",\"strides\":[";
    for (int i = 0; i < h.shape.rank(); ++i) {
      if (i > 0) to += ',';
      text::append_signed(to, h.strides[static_cast<std::size_t>(i)]);
    }
    to += ']';
  }
  to += ",\"dtype\":\"";
  to += name_of(h.dtype);
  to += "\",\"space\":\"";
  to += name_of(h.space);
  to += "\",\"addr\":";
  text::append_unsigned(to, h.addr);
  to += h.pinned ? ",\"pinned\":true}" : ",\"pinned\":false}";
}

void append_op(std::string& to, const OpSpec& op) {
  to += "{\"kind\":";
  to += text::quoted(op.kind);
  to += ",\"scope\":\"";
  to += name_of(op.scope);
  to += '"';
  if (!op.operands.empty()) {
    to += ",\"operands\":{";
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (i > 0) to += ',';
      to += text::quoted(op.operands[i].name);
      to += ':';
      append_handle(to, op.operands[i].handle);
    }
    to += '}';
  }
  if (!op.extra.empty()) {
    to += ",\"extra\":{";
    for (std::size_t i = 0; i < op.extra.size(); ++i) {
      if (i > 0) to += ',';
      to += text::quoted(op.extra[i].name);
      to += ':';
      text::append_double(to, op.extra[i].value);
    }
    to += '}';
  }
  if (op.has_out) {
    to += ",\"out\":";
    append_handle(to, op.out);
  }
  if (op.trans_a) to += ",\"trans_a\":true";
  if (op.trans_b) to += ",\"trans_b\":true";
  to += '}';
}

/// `,"name":` and its value where the value is not the field's default, or where the operation needs it.
struct Params {
  char* p;

  void number(const char* name, std::uint64_t v, bool always) {
    if (v == 0 && !always) return;
    key(name);
    p = text::put_unsigned(p, v);
  }
  void number(const char* name, std::int64_t v, bool always) {
    if (v == 0 && !always) return;
    key(name);
    p = text::put_signed(p, v);
  }
  void word(const char* name, const char* v) {
    key(name);
    *p++ = '"';
    p = text::put(p, v);
    *p++ = '"';
  }
  void key(const char* name) { p = text::put(p, name); }
};

const char* role_name(TileRole role) {
  switch (role) {
    case TileRole::a: return "a";
    case TileRole::b: return "b";
    case TileRole::out: return "out";
    case TileRole::none: break;
  }
  return "none";
}

}  // namespace

std::uint64_t op_log_hash(std::uint64_t hash, const char* line, std::size_t size) {
  constexpr std::uint64_t kPrime = 1099511628211ull;
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, line + i, 8);
    hash = (hash ^ word) * kPrime;
  }
  if (i < size) {
    std::uint64_t word = 0;
    std::memcpy(&word, line + i, size - i);
    hash = (hash ^ word) * kPrime;
  }
  return hash;
}

std::string command_json(const Command& c) {
  std::string to = "{\"kind\":\"";
  to += name_of(c.kind);
  to += "\",\"id\":";
  text::append_unsigned(to, c.id);
  to += ",\"ops\":[";
  for (std::size_t i = 0; i < c.ops.size(); ++i) {
    if (i > 0) to += ',';
    append_op(to, c.ops[i]);
  }
  to += ']';
  if (!c.rw_handles.empty()) {
    to += ",\"rw_handles\":[";
    for (std::size_t i = 0; i < c.rw_handles.size(); ++i) {
      if (i > 0) to += ',';
      append_handle(to, c.rw_handles[i]);
    }
    to += ']';
  }
  if (is_queue(c.kind)) {
    to += ",\"direction\":\"";
    to += name_of(c.direction);
    to += c.split ? "\",\"split\":true" : "\",\"split\":false";
    to += c.consume ? ",\"consume\":true" : ",\"consume\":false";
  }
  return to += '}';
}

OpLogWriter::OpLogWriter(const std::string& path, const ComponentTable& components)
    : file_(path), components_(components) {}

const std::string& OpLogWriter::component(std::uint32_t index) {
  if (index >= names_.size()) {
    if (index >= components_.size())
      throw ModelError("op log: found component " + std::to_string(index) + "; allowed: below " +
                       std::to_string(components_.size()));
    for (auto i = static_cast<std::uint32_t>(names_.size()); i < components_.size(); ++i)
      names_.push_back(",\"component\":" + text::quoted(components_.name(i)) + ",\"op_kind\":\"");
  }
  return names_[index];
}

void OpLogWriter::record(const OpRecord& r) {
  const std::string& component_text = component(r.component);
  std::string spec;
  if (r.name == OpName::command && r.command) spec = command_json(*r.command);

  char* const line = file_.room(kLine + component_text.size() + spec.size());
  char* p = text::put(line, "{\"t_start_ns\":");
  p = text::put_ns(p, r.t_start);
  p = text::put(p, ",\"t_end_ns\":");
  p = text::put_ns(p, r.t_end);
  p = text::put(p, component_text);
  p = text::put(p, name_of(r.kind));
  p = text::put(p, "\",\"op_name\":\"");
  p = text::put(p, name_of(r.name));
  if (r.command) {
    p = text::put(p, "\",\"command\":");
    p = text::put_unsigned(p, r.command->id);
  } else {
    p = text::put(p, "\",\"command\":null");
  }
  if (r.tile_m >= 0 || r.tile_n >= 0 || r.tile_k >= 0) {
    p = text::put(p, ",\"tile\":[");
    p = text::put_signed(p, r.tile_m);
    *p++ = ',';
    p = text::put_signed(p, r.tile_n);
    *p++ = ',';
    p = text::put_signed(p, r.tile_k);
    *p++ = ']';
  } else {
    p = text::put(p, ",\"tile\":null");
  }
  p = text::put(p, ",\"params\":{\"index\":");
  p = text::put_unsigned(p, r.component);
  p = text::put(p, ",\"number\":");
  p = text::put_unsigned(p, r.number);

  const bool memory = r.kind == OpKind::memory;
  const bool queue = r.kind == OpKind::ipcq;
  const bool planned = r.name == OpName::command && r.command && r.command->gemm_index() >= 0;
  Params params{p};
  if (r.pe != kNoPe) params.number(",\"pe\":", std::uint64_t{r.pe}, true);
  if (r.op >= 0) params.number(",\"op\":", std::int64_t{r.op}, true);
  if (r.role != TileRole::none) params.word(",\"role\":", role_name(r.role));
  params.number(",\"address\":", r.address, memory && r.name != OpName::fetch && r.name != OpName::store);
  params.number(",\"bytes\":", r.bytes, memory || queue);
  params.number(",\"m\":", r.m, r.name == OpName::gemm);
  params.number(",\"k\":", r.k, r.name == OpName::gemm);
  params.number(",\"n\":", r.n, r.name == OpName::gemm);
  params.number(",\"elements\":", r.elements, r.name == OpName::math);
  if (r.t_ready != -1) {
    params.key(",\"ready_ns\":");
    params.p = text::put_ns(params.p, r.t_ready);
  }
  if (r.path_ps != 0) {
    params.key(",\"path_ns\":");
    params.p = text::put_ns(params.p, r.path_ps);
  }
  params.number(",\"message\":", r.message, r.has_message());
  if (r.peer != kNoPe) params.number(",\"peer\":", std::uint64_t{r.peer}, true);
  if (queue || r.arrives != Direction::N) params.word(",\"arrives\":", name_of(r.arrives));
  params.number(",\"block_m\":", std::uint64_t{r.block_m}, planned);
  params.number(",\"block_n\":", std::uint64_t{r.block_n}, planned);
  if (planned || !r.m_outer) {
    params.key(",\"m_outer\":");
    params.p = text::put(params.p, r.m_outer ? "true" : "false");
  }
  params.number(",\"plan_bytes\":", r.plan_bytes, planned);
  p = params.p;
  if (!spec.empty()) {
    p = text::put(p, ",\"spec\":");
    p = text::put(p, spec);
  }
  p = text::put(p, "}}\n");

  hash_ = op_log_hash(hash_, line, static_cast<std::size_t>(p - line));
  file_.commit(p);
  ++records_;
}

}  // namespace kb
