#include <kb/traces/perfetto_writer.h>

#include "text.h"

#include <algorithm>
#include <utility>

namespace kb {

namespace {

constexpr std::size_t kEvent = 1024;  // longest event without its name

/// Picoseconds as microseconds with six decimals.
char* put_us(char* p, Ps ps) {
  p = text::put_signed(p, ps / 1000000);
  *p++ = '.';
  auto fraction = static_cast<unsigned>(ps % 1000000);
  for (int i = 5; i >= 0; --i, fraction /= 10) p[i] = static_cast<char>('0' + fraction % 10);
  return p + 6;
}

char* put_key(char* p, const char* key, std::uint64_t value) {
  p = text::put(p, key);
  return text::put_unsigned(p, value);
}

}  // namespace

PerfettoWriter::PerfettoWriter(const std::string& path, const ComponentTable& components, TraceFilter filter)
    : file_(path), components_(components), filter_(std::move(filter)) {
  file_.append("[\n");
}

void PerfettoWriter::begin_event() {
  if (!first_) file_.append(",\n");
  first_ = false;
}

void PerfettoWriter::metadata(const char* what, std::uint32_t pid, std::uint32_t tid, const std::string& name) {
  begin_event();
  file_.append(std::string("{\"ph\":\"M\",\"name\":\"") + what + "\",\"pid\":" + std::to_string(pid) +
               ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"name\":" + text::quoted(name) + "}}");
}

std::uint32_t PerfettoWriter::process(const std::string& name) {
  const auto [found, added] = processes_.emplace(name, static_cast<std::uint32_t>(processes_.size() + 1));
  if (added) {
    metadata("process_name", found->second, 0, name);
    begin_event();
    file_.append("{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":" + std::to_string(found->second) +
                 ",\"tid\":0,\"args\":{\"sort_index\":" + std::to_string(found->second) + "}}");
  }
  return found->second;
}

PerfettoWriter::Track& PerfettoWriter::track(std::uint32_t component) {
  if (component >= tracks_.size()) tracks_.resize(component + 1);
  Track& t = tracks_[component];
  if (!t.known) {
    t.known = true;
    const std::string& name = components_.name(component);
    t.covered = filter_.covers(name);
    if (t.covered) {
      const auto dot = name.rfind('.');
      t.process = process(dot == std::string::npos ? name : name.substr(0, dot));
      t.name = dot == std::string::npos ? name : name.substr(dot + 1);
    }
  }
  return t;
}

/// The first lane of the component whose last event has ended at `start`; ends come in ascending order.
std::uint32_t PerfettoWriter::lane(Track& t, Ps start, Ps end) {
  for (auto& [last, thread] : t.lanes)
    if (last <= start) {
      last = end;
      return thread;
    }
  t.lanes.emplace_back(end, ++threads_);
  metadata("thread_name", t.process, threads_,
           t.lanes.size() == 1 ? t.name : t.name + " #" + std::to_string(t.lanes.size()));
  return threads_;
}

void PerfettoWriter::record(const OpRecord& r) {
  Track& t = track(r.component);
  if (!t.covered) return;
  if ((r.name == OpName::command || r.name == OpName::command_done) && r.pe != kNoPe) {
    if (r.pe >= in_flight_.size()) in_flight_.resize(r.pe + 1);
    in_flight_[r.pe] += r.name == OpName::command ? 1 : -1;
    Ps from = r.t_end, to = r.t_end;
    if (filter_.cut(from, to)) {
      begin_event();
      char* p = file_.room(kEvent);
      p = put_key(p, "{\"ph\":\"C\",\"name\":\"commands in flight\",\"pid\":", t.process);
      p = put_us(text::put(p, ",\"ts\":"), r.t_end);
      p = text::put_signed(text::put(p, ",\"args\":{\"commands\":"), in_flight_[r.pe]);
      file_.commit(text::put(p, "}}"));
      ++events_;
    }
  }
  Ps start = r.t_start, end = r.t_end;
  if (start >= end || !filter_.cut(start, end) || start >= end) return;
  const std::uint32_t thread = lane(t, start, end);

  const bool op = r.command && r.op >= 0 && static_cast<std::size_t>(r.op) < r.command->ops.size();
  const std::string name = r.name == OpName::math && op ? r.command->ops[static_cast<std::size_t>(r.op)].kind
                           : r.name == OpName::command_done && r.command ? name_of(r.command->kind)
                                                                         : name_of(r.name);
  const std::string quoted = text::quoted(name);
  begin_event();
  char* p = file_.room(kEvent + quoted.size());
  p = text::put(p, "{\"ph\":\"X\",\"name\":");
  p = text::put(p, quoted);
  p = text::put(p, ",\"cat\":\"");
  p = text::put(p, name_of(r.kind));
  p = put_key(p, "\",\"pid\":", t.process);
  p = put_key(p, ",\"tid\":", thread);
  p = put_us(text::put(p, ",\"ts\":"), start);
  p = put_us(text::put(p, ",\"dur\":"), end - start);
  p = put_key(p, ",\"args\":{\"number\":", r.number);
  if (r.command) p = put_key(p, ",\"command\":", r.command->id);
  if (r.tile_m >= 0 || r.tile_n >= 0 || r.tile_k >= 0) {
    p = text::put_signed(text::put(p, ",\"tile\":\""), r.tile_m);
    p = text::put_signed(text::put(p, "."), r.tile_n);
    p = text::put_signed(text::put(p, "."), r.tile_k);
    *p++ = '"';
  }
  if (r.role == TileRole::a || r.role == TileRole::b)
    p = text::put(p, r.role == TileRole::a ? ",\"operand\":\"a\"" : ",\"operand\":\"b\"");
  if (r.bytes != 0) p = put_key(p, ",\"bytes\":", r.bytes);
  if (r.elements != 0) p = put_key(p, ",\"elements\":", r.elements);
  if (r.m != 0) p = text::put_signed(text::put(p, ",\"m\":"), r.m);
  if (r.k != 0) p = text::put_signed(text::put(p, ",\"k\":"), r.k);
  if (r.n != 0) p = text::put_signed(text::put(p, ",\"n\":"), r.n);
  if (r.t_ready >= 0 && r.t_ready < r.t_start) p = text::put_ns(text::put(p, ",\"waited_ns\":"), r.t_start - r.t_ready);
  if (r.peer != kNoPe) p = put_key(p, ",\"peer\":", r.peer);
  if (r.has_message()) p = put_key(p, ",\"message\":", r.message);
  file_.commit(text::put(p, "}}"));
  ++events_;
}

void PerfettoWriter::finish() {
  if (closed_) return;
  closed_ = true;
  file_.append("\n]\n");
  file_.finish();
}

void PerfettoWriter::abandon() noexcept {
  if (closed_) return;
  closed_ = true;
  try {
    file_.append("\n]\n");
  } catch (const std::exception&) {
  }
  file_.abandon();
}

}  // namespace kb
