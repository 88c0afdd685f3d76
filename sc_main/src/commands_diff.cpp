#include "commands.h"
#include "critical_path.h"
#include "files.h"
#include "run_files.h"

#include <kb/traces/op_log_reader.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <set>

namespace kb::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kContext = 3;     // records before the first divergence
constexpr std::size_t kLongValue = 60;  // of a record's field in a message

// ---- first divergence ------------------------------------------------------------------------------------------

/// What one op log holds, by kind of operation and by kind of command.
struct LogTotals {
  struct Sum {
    std::uint64_t count = 0, bytes = 0;
    Ps time = 0;
    void add(const OpRecord& r) {
      ++count;
      bytes += r.bytes;
      time += r.t_end - r.t_start;
    }
  };
  std::uint64_t records = 0;
  std::map<OpName, Sum> operations;
  std::map<CommandKind, Sum> commands;  // time: from acceptance by the scheduler to completion

  void add(const OpRecord& r) {
    ++records;
    if (r.name == OpName::command_done && r.command)
      commands[r.command->kind].add(r);
    else if (r.kind != OpKind::control)
      operations[r.name].add(r);
  }
};

/// Reads a log, remembering the last few lines.
class Side {
 public:
  explicit Side(const std::string& path) : reader_(path) {}

  bool next() {
    if (!line_.empty()) {
      before_.push_back(line_);
      if (before_.size() > kContext) before_.pop_front();
    }
    there_ = reader_.next(record_);
    line_ = there_ ? std::string(reader_.line()) : std::string();
    if (there_) totals.add(record_);
    return there_;
  }
  void rest() {
    while (reader_.next(record_)) totals.add(record_);
  }
  bool there() const { return there_; }
  const std::string& line() const { return line_; }
  const std::string& where() const { return reader_.where(); }
  const std::deque<std::string>& before() const { return before_; }

  LogTotals totals;

 private:
  OpLogReader reader_;
  OpRecord record_;
  std::string line_;
  std::deque<std::string> before_;
  bool there_ = false;
};

std::string shortened(const std::string& text) {
  return text.size() <= kLongValue ? text : text.substr(0, kLongValue) + "...";
}

/// "   120.000 ..    136.000 ns  tray.sip0.cube0.pe0.gemm  gemm  command 3 tile [0,0,1]"
std::string readable(const std::string& line) {
  const Json r = Json::parse(line, nullptr, false);
  if (!r.is_object()) return shortened(line);
  std::string text = fmt::format("{:>14.3f} .. {:>14.3f} ns  {}  {}", r.value("t_start_ns", 0.0),
                                 r.value("t_end_ns", 0.0), r.value("component", ""), r.value("op_name", ""));
  if (r.contains("command") && !r["command"].is_null()) text += fmt::format("  command {}", r["command"].dump());
  if (r.contains("tile") && !r["tile"].is_null()) text += fmt::format("  tile {}", r["tile"].dump());
  return text;
}

/// The fields in which two records differ, as dotted names with both values.
void field_differences(const std::string& prefix, const Json& a, const Json& b,
                       std::vector<std::array<std::string, 3>>& out) {
  if (a == b) return;
  if (a.is_object() && b.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : a.items()) keys.push_back(key);
    for (const auto& [key, value] : b.items())
      if (!a.contains(key)) keys.push_back(key);
    for (const auto& key : keys)
      field_differences(prefix.empty() ? key : prefix + "." + key, a.contains(key) ? a[key] : Json(),
                        b.contains(key) ? b[key] : Json(), out);
    return;
  }
  out.push_back({prefix, a.is_null() ? "-" : shortened(a.dump()), b.is_null() ? "-" : shortened(b.dump())});
}

/// Prints where two logs part; true when they are the same.
bool compare_logs(Side& a, Side& b) {
  while (true) {
    const bool more_a = a.next(), more_b = b.next();
    if (!more_a && !more_b) {
      fmt::print("op logs: the same {} records\n", a.totals.records);
      return true;
    }
    if (more_a && more_b && a.line() == b.line()) continue;
    break;
  }
  fmt::print("first divergence, after {} equal records\n",
             std::min(a.totals.records, b.totals.records) - (a.there() && b.there()));
  for (const auto& line : a.before()) fmt::print("  both  {}\n", readable(line));
  fmt::print("  A     {}\n", a.there() ? readable(a.line()) : "ends here");
  fmt::print("  B     {}\n", b.there() ? readable(b.line()) : "ends here");
  if (a.there() && b.there()) {
    fmt::print("  at    {}, {}\n", a.where(), b.where());
    std::vector<std::array<std::string, 3>> fields;
    field_differences("", Json::parse(a.line(), nullptr, false), Json::parse(b.line(), nullptr, false), fields);
    for (const auto& f : fields) fmt::print("        {}: {} in A, {} in B\n", f[0], f[1], f[2]);
  }
  a.rest();
  b.rest();
  return false;
}

void print_log_totals(const LogTotals& a, const LogTotals& b) {
  fmt::print("\noperations in the op logs (times added up over all components)\n");
  fmt::print("  {:<14}{:>12}{:>12}{:>18}{:>18}{:>18}{:>18}\n", "", "count A", "count B", "time A ns", "time B ns",
             "difference ns", "bytes B - A");
  const auto row = [](const char* name, const LogTotals::Sum& x, const LogTotals::Sum& y) {
    fmt::print("  {:<14}{:>12}{:>12}{:>18}{:>18}{:>18}{:>18}\n", name, x.count, y.count, grouped(ns_from_ps(x.time)),
               grouped(ns_from_ps(y.time)), grouped(ns_from_ps(y.time - x.time)),
               static_cast<std::int64_t>(y.bytes) - static_cast<std::int64_t>(x.bytes));
  };
  const auto both = [&](const auto& x, const auto& y) {
    auto keys = x;
    keys.insert(y.begin(), y.end());
    for (const auto& [key, unused] : keys) {
      const auto ix = x.find(key), iy = y.find(key);
      row(name_of(key), ix == x.end() ? LogTotals::Sum{} : ix->second, iy == y.end() ? LogTotals::Sum{} : iy->second);
    }
  };
  both(a.operations, b.operations);
  fmt::print("commands, from acceptance by the scheduler to completion\n");
  both(a.commands, b.commands);
}

// ---- summaries -------------------------------------------------------------------------------------------------

/// What a summary says of the run's result, without what may change from run to run.
Json comparable(Json summary) {
  for (const char* key : {"wall_s", "sim", "version", "topology", "op_log"}) summary.erase(key);
  return summary;
}

void print_setup(const RunFiles& a, const RunFiles& b) {
  for (const auto* side : {&a, &b}) {
    fmt::print("{}: {}", side == &a ? "A" : "B", side->path);
    if (side->summary.is_object()) {
      fmt::print(", {} on {}, {}", side->summary.value("bench", "?"), side->summary.value("topology", "?"),
                 side->summary.value("mode", "?"));
      if (side->summary.value("status", "done") != "done") fmt::print(" ({})", side->summary.value("status", ""));
    }
    fmt::print("\n");
  }
  std::vector<std::array<std::string, 3>> fields;
  if (a.summary.is_object() && b.summary.is_object())
    for (const char* key : {"bench", "mode", "seed", "params"})
      field_differences(key, a.summary.value(key, Json()), b.summary.value(key, Json()), fields);
  if (!a.config.empty() && !b.config.empty()) {
    // Both are dumps of the same program: a key per line, groups by indentation.
    const auto keys = [](const std::string& text) {
      std::map<std::string, std::string> values;
      std::vector<std::string> path;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string line = text.substr(at, end - at);
        at = end + 1;
        line = line.substr(0, line.find("  # "));
        const std::size_t indent = line.find_first_not_of(' '), colon = line.find(':');
        if (indent == std::string::npos || colon == std::string::npos) continue;
        path.resize(std::min(path.size(), indent / 2));
        path.push_back(line.substr(indent, colon - indent));
        if (colon + 1 >= line.size()) continue;
        std::string name;
        for (const auto& p : path) name += (name.empty() ? "" : ".") + p;
        values[name] = line.substr(colon + 2);
      }
      return values;
    };
    const auto x = keys(read_file(a.config)), y = keys(read_file(b.config));
    for (const auto& [key, value] : x)
      if (const auto other = y.find(key); other != y.end() && other->second != value)
        fields.push_back({key, value, other->second});
  }
  for (const auto& f : fields) fmt::print("  {}: {} in A, {} in B\n", f[0], f[1], f[2]);
}

void print_latencies(const Json& a, const Json& b) {
  const double latency_a = latency_of(a), latency_b = latency_of(b);
  fmt::print("\nlatency  A {} ns, B {} ns, difference {}{} ns", grouped(latency_a), grouped(latency_b),
             latency_b > latency_a ? "+" : "", grouped(latency_b - latency_a));
  if (latency_a > 0) fmt::print(" ({:+.2f} %)", 100 * (latency_b / latency_a - 1));
  fmt::print("\n");
}

/// Every engine's account as parts of the latency: shares of its time over all PEs, times the latency. They add up to
/// the latency of each run, so their differences add up to the difference of the latencies.
void print_accounts(const Json& a, const Json& b) {
  const double latency_a = latency_of(a), latency_b = latency_of(b);
  const auto accounts_a = engine_accounts(a), accounts_b = engine_accounts(b);
  std::vector<std::string> engines;
  for (const auto* list : {&accounts_a, &accounts_b})
    for (const auto& e : *list)
      if (std::find(engines.begin(), engines.end(), e.engine) == engines.end()) engines.push_back(e.engine);

  struct Change {
    std::string what;
    double ns;
  };
  std::vector<Change> changes;
  fmt::print("\nwhere the time of the average PE went; each engine's lines add up to the latency\n");
  fmt::print("  {:<12}{:<18}{:>18}{:>18}{:>18}\n", "engine", "", "A ns", "B ns", "difference ns");
  for (const auto& engine : engines) {
    const auto find = [&](const std::vector<EngineAccount>& list) {
      const auto at =
          std::find_if(list.begin(), list.end(), [&](const EngineAccount& e) { return e.engine == engine; });
      return at == list.end() ? EngineAccount{} : *at;
    };
    const EngineAccount x = find(accounts_a), y = find(accounts_b);
    const double scale_a = x.total() > 0 ? latency_a / x.total() : 0,
                 scale_b = y.total() > 0 ? latency_b / y.total() : 0;
    std::vector<std::string> names;
    for (const auto* account : {&x, &y})
      for (const auto& p : account->parts)
        if (std::find(names.begin(), names.end(), p.first) == names.end()) names.push_back(p.first);
    // Idle closes the account and comes last.
    std::stable_partition(names.begin(), names.end(), [](const std::string& n) { return n != "idle"; });
    if (x.part("busy") + y.part("busy") == 0 && names.size() == 2) continue;  // an engine that neither run used
    std::string label = engine;
    double sum_a = 0, sum_b = 0;
    for (const auto& name : names) {
      const double va = x.part(name) * scale_a, vb = y.part(name) * scale_b;
      sum_a += va;
      sum_b += vb;
      if (va == 0 && vb == 0) continue;
      fmt::print("  {:<12}{:<18}{:>18}{:>18}{:>18}\n", label, name, grouped(va), grouped(vb), grouped(vb - va));
      label.clear();
      if (name != "idle") changes.push_back({engine + " " + name, vb - va});
    }
    fmt::print("  {:<12}{:<18}{:>18}{:>18}{:>18}\n", "", "= latency", grouped(sum_a), grouped(sum_b),
               grouped(sum_b - sum_a));
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& p, const Change& q) { return std::abs(p.ns) > std::abs(q.ns); });
  if (!changes.empty() && changes.front().ns != 0) {
    fmt::print("\nlargest changes:");
    for (std::size_t i = 0; i < std::min<std::size_t>(4, changes.size()) && changes[i].ns != 0; ++i)
      fmt::print("{} {} {}{} ns", i == 0 ? "" : ",", changes[i].what, changes[i].ns > 0 ? "+" : "",
                 grouped(changes[i].ns));
    fmt::print("\n");
  }
}

/// What the critical path of each run is made of. Its parts add up to the latency of the run, so their differences add
/// up to the difference of the latencies.
void print_paths(const RunFiles& a, const RunFiles& b) {
  const CriticalPath path_a = critical_path(a.op_log), path_b = critical_path(b.op_log);
  if (path_a.too_long || path_b.too_long) {
    fmt::print("\nno critical paths: an op log has too many operations\n");
    return;
  }
  if (path_a.steps.empty() && path_b.steps.empty()) return;
  struct Line {
    std::string name;
    Ps a = 0, b = 0;
    std::vector<Line> kinds;  // of commands; empty for operations of one kind
    Ps change() const { return std::abs(b - a); }
  };
  const auto line_of = [](std::vector<Line>& lines, const std::string& name) -> Line& {
    const auto at = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.name == name; });
    return at != lines.end() ? *at : lines.emplace_back(Line{name, 0, 0, {}});
  };
  std::vector<Line> lines;
  Line latency{"= latency", std::llround(latency_of(a.summary) * 1000), std::llround(latency_of(b.summary) * 1000), {}};
  // What a bench counts in its latency beside its launches.
  Line rest{"outside the launches", latency.a, latency.b, {}};
  const auto collect = [&](const CriticalPath& path, Ps Line::*side) {
    for (const auto& p : parts_of(path)) {
      Line& operation = line_of(lines, p.what);
      operation.*side += p.time;
      rest.*side -= p.time;
      line_of(operation.kinds, p.command_kind).*side += p.time;
    }
  };
  collect(path_a, &Line::a);
  collect(path_b, &Line::b);
  const auto by_change = [](const Line& p, const Line& q) { return p.change() > q.change(); };
  std::stable_sort(lines.begin(), lines.end(), by_change);
  if (rest.a != 0 || rest.b != 0) lines.push_back(rest);
  lines.push_back(latency);
  fmt::print(
      "\nwhat the latency was made of: the chain of operations that ended last, by operation and kind of command\n");
  fmt::print("  {:<30}{:>18}{:>18}{:>18}\n", "operation", "A ns", "B ns", "difference ns");
  const auto row = [](const std::string& name, const Line& l) {
    fmt::print("  {:<30}{:>18}{:>18}{:>18}\n", name, grouped(ns_from_ps(l.a)), grouped(ns_from_ps(l.b)),
               grouped(ns_from_ps(l.b - l.a)));
  };
  for (auto& l : lines) {
    const bool one = l.kinds.size() == 1 && (l.kinds[0].name.empty() || l.kinds[0].name == l.name);
    row(l.kinds.size() == 1 && !one ? fmt::format("{} of {}", l.name, l.kinds[0].name) : l.name, l);
    if (l.kinds.size() < 2) continue;
    std::stable_sort(l.kinds.begin(), l.kinds.end(), by_change);
    for (const auto& k : l.kinds) row("  of " + (k.name.empty() ? "no command" : k.name), k);
  }
}

/// All numbers below some groups of the summaries that are not the same.
void print_counters(const Json& a, const Json& b) {
  std::vector<std::array<std::string, 3>> fields;
  for (const char* group : {"status", "dispatch", "dma", "ipcq", "bounds", "numerics"})
    field_differences(group, a.value(group, Json()), b.value(group, Json()), fields);
  for (const char* key : {"macs_useful", "macs_padded"})
    if (a.contains("engines") && b.contains("engines") && a["engines"].contains("gemm") &&
        b["engines"].contains("gemm"))
      field_differences(std::string("engines.gemm.") + key, a["engines"]["gemm"].value(key, Json()),
                        b["engines"]["gemm"].value(key, Json()), fields);
  if (fields.empty()) return;
  fmt::print("\ncounters and bounds that differ\n");
  fmt::print("  {:<38}{:>20}{:>20}{:>20}\n", "", "A", "B", "difference");
  for (const auto& f : fields) {
    const Json x = Json::parse(f[1], nullptr, false), y = Json::parse(f[2], nullptr, false);
    const std::string difference =
        x.is_number() && y.is_number() ? fmt::format("{:.10g}", y.get<double>() - x.get<double>()) : "";
    fmt::print("  {:<38}{:>20}{:>20}{:>20}\n", f[0], f[1], f[2], difference);
  }
}

bool diff(const std::string& path_a, const std::string& path_b) {
  const RunFiles a = open_run(path_a), b = open_run(path_b);
  print_setup(a, b);
  fmt::print("\n");
  bool same = true;
  std::unique_ptr<Side> log_a, log_b;
  if (!a.op_log.empty() && !b.op_log.empty()) {
    log_a = std::make_unique<Side>(a.op_log);
    log_b = std::make_unique<Side>(b.op_log);
    same = compare_logs(*log_a, *log_b);
  } else if (a.op_log.empty() != b.op_log.empty()) {
    fmt::print("op logs: only {} has one; compared by their summaries\n", a.op_log.empty() ? "B" : "A");
  }
  const bool summaries = a.summary.is_object() && b.summary.is_object();
  if (!summaries && log_a == nullptr)
    throw InputError(fmt::format("{} and {}: found nothing that both have; allowed: two op logs or two folders of runs",
                                 path_a, path_b));
  if (summaries && comparable(a.summary) != comparable(b.summary)) {
    same = false;
    print_latencies(a.summary, b.summary);
    if (log_a != nullptr) print_paths(a, b);
    print_accounts(a.summary, b.summary);
    print_counters(a.summary, b.summary);
  } else if (summaries) {
    fmt::print("summaries: the same\n");
  }
  if (log_a != nullptr && !same) print_log_totals(log_a->totals, log_b->totals);
  return same;
}

}  // namespace

void add_diff(CLI::App& app, CliContext& ctx) {
  struct Options {
    std::string a, b;
  };
  auto* sub = app.add_subcommand("diff", "Compare two runs: where they part, and what makes their latencies differ");
  auto o = std::make_shared<Options>();
  sub->add_option("A", o->a, "folder of a run (--out), or an op log")->required();
  sub->add_option("B", o->b, "another one")->required();
  sub->footer(
      "Exit code 0: the same; 1: they differ. Wall time, process statistics and versions are not compared.\n"
      "Example: kernbench diff out-primitive out-composite");
  sub->callback([o, &ctx] {
    if (!diff(o->a, o->b)) ctx.exit_code = ExitCode::wrong_result;
  });
}

}  // namespace kb::cli
