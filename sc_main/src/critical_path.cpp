#include "critical_path.h"

#include <kb/traces/op_log_reader.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

namespace kb::cli {

namespace {

constexpr std::size_t kMaxOps = 5'000'000;

struct Op {
  Ps start = 0, end = 0, path = 0;
  std::int64_t command = -1;
  std::int64_t send = -1;  // of a slot write: place of the send of its message
  std::uint32_t component = 0, pe = kNoPe;
  std::int32_t m = -1, n = -1, k = -1;
  OpName name = OpName::command;
  CommandKind kind = CommandKind::math;
};

/// The kernel time of a launch.
struct Span {
  Ps start = 0, end = 0;
};

/// What an engine of a PE did. Memories answer inside the transfers of the DMA; completions cover whole commands.
bool followed(const OpRecord& r) {
  switch (r.name) {
    case OpName::mem_read:
    case OpName::mem_write:
    case OpName::command_done:
    case OpName::launch:
    case OpName::launch_done: return false;
    default: return r.pe != kNoPe;
  }
}

/// Sends of one queue whose slot writes are still to come.
struct Sends {
  struct Send {
    std::int64_t place = 0;
    std::uint64_t bytes = 0;
  };
  std::deque<Send> waiting;

  /// The send that a slot write belongs to: slots are written in the order of the sends, a send may take several.
  std::int64_t write(std::uint64_t bytes) {
    if (waiting.empty()) return -1;
    Send& s = waiting.front();
    const std::int64_t place = s.place;
    s.bytes -= std::min(bytes, s.bytes);
    if (s.bytes == 0) waiting.pop_front();
    return place;
  }
};

class Walk {
 public:
  explicit Walk(const std::string& path) : reader_(path) { load(); }

  CriticalPath path() {
    CriticalPath path;
    path.too_long = too_long_;
    if (too_long_ || ops_.empty()) return path;
    for (auto span = spans_.rbegin(); span != spans_.rend(); ++span) walk(*span, path.steps);
    std::reverse(path.steps.begin(), path.steps.end());
    return path;
  }

 private:
  /// The chain of one launch, backwards.
  void walk(const Span& span, std::vector<PathStep>& path) const {
    const auto after =
        std::upper_bound(ops_.begin(), ops_.end(), span.end, [](Ps t, const Op& op) { return t < op.end; });
    if (after == ops_.begin()) return;
    std::size_t at = static_cast<std::size_t>(after - ops_.begin()) - 1;
    Ps until = span.end;
    if (ops_[at].end <= span.start) return;
    if (ops_[at].end < until) gap(path, "wait", ops_[at], ops_[at].end, until);
    until = ops_[at].end;
    while (true) {
      const Op& op = ops_[at];
      const Ps start = std::max(span.start, std::min(op.start, until));
      add(path, op, start, until);
      until = start;
      std::size_t before = 0;
      if (until <= span.start) return;
      const bool found = predecessor(at, before) && ops_[before].end > span.start;
      const Ps from = found ? std::min(until, ops_[before].end) : span.start;
      if (from < until) gap(path, reason(op), op, from, until);
      if (!found) return;
      until = from;
      at = before;
    }
  }

  void load() {
    std::map<std::pair<std::uint32_t, Direction>, Sends> sends;  // by receiver and its direction
    OpRecord r;
    Span all{-1, 0};
    bool done = true;
    while (reader_.next(r)) {
      if (r.name == OpName::launch) {
        // The launches of a run follow one another.
        if (done) spans_.push_back({r.t_end, r.t_end});
        done = false;
      }
      if (r.name == OpName::launch_done && !spans_.empty()) {
        spans_.back().end = std::max(spans_.back().end, r.t_end);
        done = true;
      }
      if (!followed(r)) continue;
      if (ops_.size() == kMaxOps) {
        too_long_ = true;
        return;
      }
      Op op;
      op.start = r.t_start;
      op.end = r.t_end;
      op.path = r.path_ps;
      op.component = r.component;
      op.pe = r.pe;
      op.name = r.name;
      if (r.command) {
        op.command = static_cast<std::int64_t>(r.command->id);
        op.kind = r.command->kind;
      }
      op.m = r.tile_m;
      op.n = r.tile_n;
      op.k = r.tile_k;
      const auto index = static_cast<std::int64_t>(ops_.size());
      if (r.name == OpName::send) sends[{r.peer, r.arrives}].waiting.push_back({index, r.bytes});
      if (r.name == OpName::slot_write) op.send = sends[{r.peer, r.arrives}].write(r.bytes);
      if (all.start < 0 || r.t_start < all.start) all.start = r.t_start;
      all.end = std::max(all.end, r.t_end);
      by_pe_[r.pe].push_back(static_cast<std::size_t>(index));
      by_component_[r.component].push_back(static_cast<std::size_t>(index));
      ops_.push_back(op);
    }
    // Transfers that were started at the engines directly have no launch; a run that was cut short has no end.
    if (spans_.empty()) spans_.push_back(all);
    if (!done) spans_.back().end = std::max(spans_.back().start, all.end);
  }

  /// How closely `op` follows on `before`, for operations that end at the same time.
  static int closeness(const Op& op, const Op& before) {
    const bool tile = op.m == before.m && op.n == before.n && op.k == before.k;
    if (op.command == before.command && op.command >= 0 && tile) return 4;
    if (op.component == before.component) return 3;
    if (op.command == before.command && op.command >= 0) return 2;
    return 1;
  }

  bool predecessor(std::size_t at, std::size_t& found) const {
    const Op& op = ops_[at];
    if (op.send >= 0 && ops_[static_cast<std::size_t>(op.send)].end <= op.start) {
      found = static_cast<std::size_t>(op.send);
      return true;
    }
    bool any = false;
    const auto consider = [&](const std::vector<std::size_t>& list) {
      // The list is in the order of the log, by t_end.
      auto it =
          std::upper_bound(list.begin(), list.end(), op.start, [this](Ps t, std::size_t i) { return t < ops_[i].end; });
      for (Ps last = -1; it != list.begin();) {
        const std::size_t i = *--it;
        if (last >= 0 && ops_[i].end < last) break;
        // An operation without length may end when it starts: only earlier ones of the log can come before it.
        if (i >= at && ops_[i].end >= op.start) continue;
        last = ops_[i].end;
        if (!any || ops_[i].end > ops_[found].end ||
            (ops_[i].end == ops_[found].end && closeness(op, ops_[i]) > closeness(op, ops_[found]))) {
          found = i;
          any = true;
        }
      }
    };
    consider(by_component_.at(op.component));
    consider(by_pe_.at(op.pe));
    return any;
  }

  /// What the time before an operation was that no operation covers.
  static const char* reason(const Op& op) {
    if (op.name == OpName::command) return "dispatch";
    return op.send >= 0 ? "in flight" : "wait";
  }

  PathStep step_of(const char* what, const Op& op, Ps start, Ps end) const {
    PathStep s;
    s.start = start;
    s.end = end;
    s.what = what;
    const std::string component = reader_.components().name(op.component);
    s.pe = component.substr(0, component.rfind('.'));
    if (s.pe.rfind("tray.", 0) == 0) s.pe.erase(0, 5);
    s.command = op.command;
    s.command_kind = op.command >= 0 ? name_of(op.kind) : "";
    return s;
  }
  void add(std::vector<PathStep>& path, const Op& op, Ps start, Ps end) const {
    if (end <= start) return;
    PathStep s = step_of(op.name == OpName::command ? "scheduler" : name_of(op.name), op, start, end);
    if (op.path > 0) s.contention = std::max<Ps>(0, end - start - op.path);
    path.push_back(s);
  }
  void gap(std::vector<PathStep>& path, const char* what, const Op& after, Ps start, Ps end) const {
    path.push_back(step_of(what, after, start, end));
  }

  OpLogReader reader_;
  std::vector<Op> ops_;
  std::vector<Span> spans_;                                                           // one per launch
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> by_pe_, by_component_;  // looked up only
  bool too_long_ = false;
};

}  // namespace

CriticalPath critical_path(const std::string& op_log) {
  return Walk(op_log).path();
}

std::vector<PathPart> parts_of(const CriticalPath& path) {
  std::vector<PathPart> parts;
  const auto count = [&](const std::string& what, const std::string& kind, Ps time) {
    auto at = std::find_if(parts.begin(), parts.end(),
                           [&](const PathPart& p) { return p.what == what && p.command_kind == kind; });
    if (at == parts.end()) at = parts.insert(parts.end(), {what, kind, 0, 0});
    at->time += time;
    ++at->steps;
  };
  for (const auto& s : path.steps) {
    count(s.what, s.command_kind, s.length() - s.contention);
    if (s.contention > 0) count(s.what + " contention", s.command_kind, s.contention);
  }
  return parts;
}

}  // namespace kb::cli
