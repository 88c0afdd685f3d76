#include <kb/traces/summary.h>

#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kb {

namespace {

void add_bounds(Bounds& to, const Bounds& b) {
  to.compute_ns += b.compute_ns;
  to.memory_ns += b.memory_ns;
  to.tcm_ns += b.tcm_ns;
  to.dispatch_ns += b.dispatch_ns;
  to.serial_ns += b.serial_ns;
}

void finish_bounds(Bounds& b, Ps length) {
  const std::pair<const char*, double> all[] = {
      {"compute", b.compute_ns}, {"memory", b.memory_ns}, {"tcm", b.tcm_ns}, {"dispatch", b.dispatch_ns}};
  const auto* largest = std::max_element(std::begin(all), std::end(all),
                                         [](const auto& x, const auto& y) { return x.second < y.second; });
  if (largest->second <= 0) return;
  b.bound_by = largest->first;
  b.ratio = ns_from_ps(length) / largest->second;
}

// ---- JSON ------------------------------------------------------------------------------------------------------

/// An object or list over several lines, or on one where it is short of depth.
class JsonText {
 public:
  void open(const std::string& key, char bracket = '{', bool flat = false) {
    begin(key);
    text_ += bracket;
    levels_.push_back({bracket == '{' ? '}' : ']', flat || (!levels_.empty() && levels_.back().flat), true});
  }
  void close() {
    const Level level = levels_.back();
    levels_.pop_back();
    if (!level.flat && !level.empty) new_line();
    text_ += level.bracket;
  }
  void raw(const std::string& key, const std::string& value) {
    begin(key);
    text_ += value;
  }
  void string(const std::string& key, const std::string& value) { raw(key, text::quoted(value)); }
  void number(const std::string& key, std::uint64_t value) { raw(key, std::to_string(value)); }
  void boolean(const std::string& key, bool value) { raw(key, value ? "true" : "false"); }
  /// Shortest text that reads back as the same number.
  void real(const std::string& key, double value) {
    begin(key);
    text::append_double(text_, value);
  }
  void ns(const std::string& key, Ps value) {
    begin(key);
    text::append_ns(text_, value);
  }
  void ns(const std::string& key, double value) {
    if (!std::isfinite(value) || std::fabs(value) > 9e15) {
      real(key, value);
    } else {
      ns(key, static_cast<Ps>(std::llround(value * 1000)));
    }
  }
  void fixed(const std::string& key, double value, int decimals) {
    if (std::isfinite(value)) {
      raw(key, fmt::format("{:.{}f}", value, decimals));
    } else {
      real(key, value);
    }
  }
  void value(const std::string& key, const SummaryValue& v) {
    if (const auto* i = std::get_if<std::int64_t>(&v))
      raw(key, std::to_string(*i));
    else if (const auto* d = std::get_if<double>(&v))
      real(key, *d);
    else if (const auto* b = std::get_if<bool>(&v))
      boolean(key, *b);
    else
      string(key, std::get<std::string>(v));
  }

  std::string take() { return std::move(text_) + "\n"; }

 private:
  struct Level {
    char bracket;
    bool flat;
    bool empty;
  };

  void new_line() {
    text_ += '\n';
    text_.append(2 * levels_.size(), ' ');
  }
  void begin(const std::string& key) {
    if (!levels_.empty()) {
      Level& level = levels_.back();
      if (!level.empty) text_ += level.flat ? ", " : ",";
      level.empty = false;
      if (!level.flat) new_line();
      if (level.bracket == '}') text_ += text::quoted(key) + ": ";
    }
  }

  std::string text_;
  std::vector<Level> levels_;
};

void engine_json(JsonText& json, EngineKind kind, const LaunchTotals& t) {
  const EngineTime& time = t.engines[static_cast<std::size_t>(kind)];
  json.open(name_of(kind), '{', true);
  json.ns("busy_ns", time.busy);
  json.open("stall_ns");
  for (std::size_t i = 0; i < kCauses; ++i)
    if (time.stall[i] != 0) json.ns(name_of(static_cast<Cause>(i)), time.stall[i]);
  json.close();
  json.ns("idle_ns", time.idle);
  json.fixed("utilization", utilization_of(time), 6);
  if (kind == EngineKind::gemm) {
    json.number("macs_useful", t.macs_useful);
    json.number("macs_padded", t.macs_padded);
  }
  if (kind == EngineKind::math) json.number("elements", t.math_elements);
  json.close();
}

// ---- terminal --------------------------------------------------------------------------------------------------

constexpr std::size_t kWidth = 100;

/// 1234567.25 as "1,234,567.250" with three decimals.
std::string grouped(double value, int decimals) {
  std::string s = fmt::format("{:.{}f}", value, decimals);
  auto end = static_cast<std::ptrdiff_t>(std::min(s.find('.'), s.size()));
  const std::ptrdiff_t begin = !s.empty() && s[0] == '-' ? 1 : 0;
  if (!std::isfinite(value)) return s;
  for (end -= 3; end > begin; end -= 3) s.insert(static_cast<std::size_t>(end), 1, ',');
  return s;
}
std::string grouped(std::uint64_t value) {
  std::string s = std::to_string(value);
  for (auto end = static_cast<std::ptrdiff_t>(s.size()) - 3; end > 0; end -= 3)
    s.insert(static_cast<std::size_t>(end), 1, ',');
  return s;
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string value_text(const SummaryValue& v) {
  if (const auto* i = std::get_if<std::int64_t>(&v)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&v)) return fmt::format("{:.6g}", *d);
  if (const auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  return std::get<std::string>(v);
}

/// `label` and then `parts` separated by commas, continued under the first part when a line is full.
void wrapped(std::string& to, const std::string& label, std::size_t indent, const std::vector<std::string>& parts) {
  std::string line = label;
  line.resize(std::max(line.size(), indent), ' ');
  bool first = true;
  for (const auto& part : parts) {
    if (!first && line.size() + 2 + part.size() > kWidth) {
      to += line + ",\n";
      line.assign(indent, ' ');
      first = true;
    }
    line += (first ? "" : ", ") + part;
    first = false;
  }
  to += line + "\n";
}

void engines_text(std::string& to, const LaunchTotals& t) {
  std::vector<std::string> unused;
  bool header = false;
  for (std::size_t e = 0; e < kEngineKinds; ++e) {
    const EngineTime& time = t.engines[e];
    const auto total = static_cast<double>(time.total());
    const char* name = name_of(static_cast<EngineKind>(e));
    const bool used = time.busy != 0 || std::any_of(time.stall.begin(), time.stall.end(), [](Ps s) { return s != 0; });
    if (!used || total <= 0) {
      unused.emplace_back(name);
      continue;
    }
    if (!header) to += "\nengine       busy %   idle %   stalled %, by what it waited for\n";
    header = true;
    const auto percent = [&](Ps ps) { return 100.0 * static_cast<double>(ps) / total; };
    std::vector<std::string> stalls;
    for (std::size_t c = 0; c < kCauses; ++c)
      if (time.stall[c] != 0)
        stalls.push_back(fmt::format("{} {:.1f}", name_of(static_cast<Cause>(c)), percent(time.stall[c])));
    if (stalls.empty()) stalls.emplace_back("-");
    wrapped(to, fmt::format("{:<10} {:>8.1f} {:>8.1f}   ", name, percent(time.busy), percent(time.idle)), 31, stalls);
  }
  if (header && !unused.empty()) wrapped(to, "unused", 31, unused);
}

void table_text(std::string& to, const SummaryTable& table) {
  std::vector<std::size_t> widths;
  for (const auto& c : table.columns) widths.push_back(c.size());
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : table.rows) {
    cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.back().push_back(value_text(row[i]));
      if (i < widths.size()) widths[i] = std::max(widths[i], cells.back().back().size());
    }
  }
  const auto line = [&](const std::vector<std::string>& row, const std::vector<SummaryValue>* values) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t width = i < widths.size() ? widths[i] : row[i].size();
      const bool left = values == nullptr || std::holds_alternative<std::string>((*values)[i]);
      text += left ? fmt::format("{:<{}}  ", row[i], width) : fmt::format("{:>{}}  ", row[i], width);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    to += text + "\n";
  };
  to += "\n" + table.name + "\n";
  line(table.columns, nullptr);
  for (std::size_t i = 0; i < cells.size(); ++i) line(cells[i], &table.rows[i]);
}

}  // namespace

double utilization_of(const EngineTime& time) {
  const Ps total = time.total();
  return total > 0 ? static_cast<double>(time.busy) / static_cast<double>(total) : 0.0;
}

LaunchTotals totals_of(const std::vector<const LaunchResult*>& launches) {
  LaunchTotals t;
  std::map<PeId, double> cycles;
  std::map<std::string, std::size_t> link_index;
  for (const LaunchResult* l : launches) {
    t.length += l->latency();
    t.pes = std::max<std::uint64_t>(t.pes, l->pes.size());
    t.messages += l->messages;
    add_bounds(t.bounds, l->bounds);
    for (const PeStats& p : l->pes) {
      for (std::size_t e = 0; e < kEngineKinds; ++e) t.engines[e] += p.engines[e];
      for (std::size_t k = 0; k < t.dispatch.commands.size(); ++k) t.dispatch.commands[k] += p.dispatch.commands[k];
      t.dispatch.bytes += p.dispatch.bytes;
      t.dispatch.cycles += p.dispatch.cycles;
      cycles[p.id] += p.dispatch.cycles;
      t.dma_reads += p.dma_reads;
      t.dma_read_bytes += p.dma_read_bytes;
      t.dma_writes += p.dma_writes;
      t.dma_write_bytes += p.dma_write_bytes;
      t.ipcq_sends += p.ipcq_sends;
      t.ipcq_recvs += p.ipcq_recvs;
      t.ipcq_bytes += p.ipcq_bytes;
      t.macs_useful += p.macs_useful;
      t.macs_padded += p.macs_padded;
      t.math_elements += p.math_elements;
      t.tile_stages += p.tile_stages;
    }
    for (const LinkStats& link : l->links) {
      const auto [found, added] = link_index.emplace(link.name, t.links.size());
      if (added) {
        t.links.push_back(link);
      } else {
        t.links[found->second].bytes += link.bytes;
        t.links[found->second].busy += link.busy;
      }
    }
  }
  for (const auto& c : cycles) t.cycles_max_pe = std::max(t.cycles_max_pe, c.second);
  finish_bounds(t.bounds, t.length);
  return t;
}

std::string summary_json(const RunSummary& s) {
  const LaunchTotals& t = s.totals;
  JsonText json;
  json.open("");
  json.string("bench", s.bench);
  json.open("params", '{', true);
  for (const auto& [name, value] : s.params) json.value(name, value);
  json.close();
  json.string("topology", s.topology);
  json.string("mode", s.mode);
  json.number("seed", s.seed);
  json.string("version", s.version);
  json.string("status", s.status);
  if (!s.message.empty()) json.string("message", s.message);
  if (s.status == "done" || s.latency_ns > 0)
    json.ns("latency_ns", s.latency_ns);
  else
    json.raw("latency_ns", "null");
  json.fixed("wall_s", s.wall_s, 3);
  json.open("sim", '{', true);
  json.number("activations", s.activations);
  json.number("tile_stages", t.tile_stages);
  json.number("messages", t.messages);
  json.fixed("peak_rss_mb", s.peak_rss_mb, 1);
  json.close();

  json.open("dispatch", '{', true);
  json.real("cycles_total", t.dispatch.cycles);
  json.real("cycles_max_pe", t.cycles_max_pe);
  json.number("bytes_total", t.dispatch.bytes);
  json.open("commands");
  for (int k = 0; k < kCommandKinds; ++k)
    json.number(name_of(static_cast<CommandKind>(k)), t.dispatch.commands[static_cast<std::size_t>(k)]);
  json.close();
  json.close();
  // Where no time is simulated, what only time tells is null, not 0.
  const bool simulated = s.mode != "emit";
  if (simulated) {
    json.open("dma", '{', true);
    json.number("reads", t.dma_reads);
    json.number("read_bytes", t.dma_read_bytes);
    json.number("writes", t.dma_writes);
    json.number("write_bytes", t.dma_write_bytes);
    json.close();
    json.open("ipcq", '{', true);
    json.number("sends", t.ipcq_sends);
    json.number("recvs", t.ipcq_recvs);
    json.number("bytes", t.ipcq_bytes);
    json.close();

    json.open("engines");
    for (std::size_t e = 0; e < kEngineKinds; ++e) engine_json(json, static_cast<EngineKind>(e), t);
    json.close();
  } else {
    for (const char* key : {"dma", "ipcq", "engines"}) json.raw(key, "null");
  }

  json.open("bounds", '{', true);
  const auto bound = [&](const char* key, double ns) { simulated ? json.ns(key, ns) : json.raw(key, "null"); };
  bound("compute_ns", t.bounds.compute_ns);
  bound("memory_ns", t.bounds.memory_ns);
  bound("tcm_ns", t.bounds.tcm_ns);
  json.ns("dispatch_ns", t.bounds.dispatch_ns);
  bound("serial_ns", t.bounds.serial_ns);
  json.string("bound_by", t.bounds.bound_by);
  json.fixed("ratio", t.bounds.ratio, 6);
  json.close();

  if (s.numerics) {
    json.open("numerics", '{', true);
    json.real("max_abs_err", s.numerics->max_abs_err);
    json.real("rel_rmse", s.numerics->rel_rmse);
    json.real("tolerance", s.numerics->tolerance);
    json.boolean("pass", s.numerics->pass);
    json.close();
  } else {
    json.raw("numerics", "null");
  }
  if (s.op_log) {
    json.open("op_log", '{', true);
    json.number("records", s.op_log->records);
    json.string("hash", fmt::format("{:016x}", s.op_log->hash));
    json.close();
  }
  for (const auto& [name, value] : s.extra) json.value(name, value);
  if (!s.tables.empty()) {
    json.open("tables");
    for (const auto& table : s.tables) {
      json.open(table.name, '[');
      for (const auto& row : table.rows) {
        json.open("", '{', true);
        for (std::size_t i = 0; i < std::min(row.size(), table.columns.size()); ++i)
          json.value(table.columns[i], row[i]);
        json.close();
      }
      json.close();
    }
    json.close();
  }
  json.close();
  return json.take();
}

std::string summary_table(const RunSummary& s) {
  const LaunchTotals& t = s.totals;
  std::string to;
  std::vector<std::string> params;
  for (const auto& [name, value] : s.params) params.push_back(name + " " + value_text(value));
  if (params.empty()) params.emplace_back("no parameters");
  wrapped(to, s.bench + "  ", std::max<std::size_t>(s.bench.size() + 2, 12), params);
  to += fmt::format("{:<11} {}, mode {}, seed {}, kernbench {}\n", "on", s.topology, s.mode, s.seed, s.version);
  if (s.status != "done") to += fmt::format("{:<11} {}\n", s.status, s.message);
  if (s.status == "done") {
    to += fmt::format("{:<11} {} ns", "latency", grouped(s.latency_ns, 3));
    if (!t.bounds.bound_by.empty()) to += fmt::format(", {:.3f} x the {} bound", t.bounds.ratio, t.bounds.bound_by);
    to += fmt::format("; {} PE{}, simulated in {:.2f} s\n", t.pes, t.pes == 1 ? "" : "s", s.wall_s);
  }
  if (!s.verdict.empty()) to += fmt::format("{:<11} {}\n", "", s.verdict);

  engines_text(to, t);

  to += "\n";
  std::vector<std::string> parts;
  for (int k = 0; k < kCommandKinds; ++k)
    if (const auto n = t.dispatch.commands[static_cast<std::size_t>(k)]; n != 0)
      parts.push_back(fmt::format("{} {}", grouped(n), name_of(static_cast<CommandKind>(k))));
  if (!parts.empty()) {
    parts.push_back(bytes_text(t.dispatch.bytes) + " in all");
    parts.push_back(
        fmt::format("{} cycles ({} on the busiest PE)", grouped(t.dispatch.cycles, 0), grouped(t.cycles_max_pe, 0)));
    wrapped(to, "commands", 12, parts);
  }
  if (t.dma_reads + t.dma_writes != 0)
    wrapped(to, "dma", 12,
            {fmt::format("{} reads of {} in all", grouped(t.dma_reads), bytes_text(t.dma_read_bytes)),
             fmt::format("{} writes of {}", grouped(t.dma_writes), bytes_text(t.dma_write_bytes))});
  if (t.ipcq_sends + t.ipcq_recvs != 0)
    wrapped(to, "queues", 12,
            {grouped(t.ipcq_sends) + " sends", grouped(t.ipcq_recvs) + " receives", bytes_text(t.ipcq_bytes)});
  if (t.macs_padded != 0)
    wrapped(to, "MACs", 12,
            {grouped(t.macs_useful) + " useful",
             fmt::format("{} slots occupied ({:.1f} % useful)", grouped(t.macs_padded),
                         100.0 * static_cast<double>(t.macs_useful) / static_cast<double>(t.macs_padded))});
  if (!t.bounds.bound_by.empty() && s.mode == "emit")
    to +=
        fmt::format("bounds, ns  dispatch {}; --mode emit simulates nothing else\n", grouped(t.bounds.dispatch_ns, 3));
  else if (!t.bounds.bound_by.empty())
    wrapped(to, "bounds, ns", 12,
            {"compute " + grouped(t.bounds.compute_ns, 3), "memory " + grouped(t.bounds.memory_ns, 3),
             "tcm " + grouped(t.bounds.tcm_ns, 3), "dispatch " + grouped(t.bounds.dispatch_ns, 3),
             "serial " + grouped(t.bounds.serial_ns, 3)});
  for (const auto& [name, value] : s.extra) to += fmt::format("{:<11} {}\n", name, value_text(value));
  for (const auto& table : s.tables) table_text(to, table);
  if (s.numerics)
    to += fmt::format("{:<11} {}: relative RMSE {:.3g} (allowed {:.3g}), largest absolute error {:.3g}\n", "numerics",
                      s.numerics->pass ? "PASS" : "FAIL", s.numerics->rel_rmse, s.numerics->tolerance,
                      s.numerics->max_abs_err);
  return to;
}

}  // namespace kb
