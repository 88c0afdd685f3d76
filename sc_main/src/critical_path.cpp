#include "critical_path.h"

#include <kb/traces/op_log_reader.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace kb::cli {

namespace {

struct Op {
  Ps start = 0, end = 0, ready = -1;
  std::uint32_t component = 0, pe = kNoPe;
  std::int64_t command = -1;
  std::int32_t m = -1, n = -1, k = -1;
  OpName name = OpName::command;
  CommandKind kind = CommandKind::math;
  std::int64_t send = -1;  // of a receive: place of the send of its message
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

class Walk {
 public:
  explicit Walk(const std::string& path) : reader_(path) { load(); }

  std::vector<PathStep> steps() {
    std::vector<PathStep> path;
    if (ops_.empty()) return path;
    std::size_t at = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops_[i].end >= ops_[at].end) at = i;
    Ps until = ops_[at].end;
    while (true) {
      const Op& op = ops_[at];
      std::size_t before = 0;
      // A receive lasts while its message is on the way: the sender decides when it can end.
      if (op.send >= 0 && ops_[static_cast<std::size_t>(op.send)].end > op.start &&
          ops_[static_cast<std::size_t>(op.send)].end <= until && static_cast<std::size_t>(op.send) != at) {
        before = static_cast<std::size_t>(op.send);
        add(path, op, ops_[before].end, until);
        until = ops_[before].end;
        at = before;
        continue;
      }
      add(path, op, std::min(op.start, until), until);
      until = std::min(op.start, until);
      if (!predecessor(at, before)) break;
      if (ops_[before].end < until) gap(path, op, ops_[before].end, until);
      until = ops_[before].end;
      at = before;
    }
    if (until > begin_) gap(path, ops_[at], begin_, until);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  void load() {
    std::map<std::tuple<std::uint32_t, Direction, std::uint64_t>, std::int64_t>
        sends;  // receiver, its direction, message
    OpRecord r;
    bool any = false;
    while (reader_.next(r)) {
      if (r.name == OpName::launch) launches_.push_back(r.t_end);
      if (!followed(r)) continue;
      Op op;
      op.start = r.t_start;
      op.end = r.t_end;
      op.ready = r.t_ready;
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
      if (r.name == OpName::send) sends[{r.peer, r.arrives, r.message}] = index;
      if (r.name == OpName::recv)
        if (const auto s = sends.find({r.pe, r.arrives, r.message}); s != sends.end()) op.send = s->second;
      if (!any || r.t_start < begin_) begin_ = r.t_start;
      any = true;
      by_pe_[r.pe].push_back(static_cast<std::size_t>(index));
      by_component_[r.component].push_back(static_cast<std::size_t>(index));
      ops_.push_back(op);
    }
    // The common start of the first launch lies before the first operation by the dispatch of its command.
    if (!launches_.empty() && launches_.front() < begin_) begin_ = launches_.front();
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

  PathStep step_of(const Op& op, Ps start, Ps end) const {
    PathStep s;
    s.start = start;
    s.end = end;
    const std::string component = reader_.components().name(op.component);
    const auto dot = component.rfind('.');
    s.pe = component.substr(0, dot);
    if (s.pe.rfind("tray.", 0) == 0) s.pe.erase(0, 5);
    s.engine = dot == std::string::npos ? component : component.substr(dot + 1);
    s.command = op.command;
    s.command_kind = op.command >= 0 ? name_of(op.kind) : "";
    s.tile[0] = op.m;
    s.tile[1] = op.n;
    s.tile[2] = op.k;
    return s;
  }
  void add(std::vector<PathStep>& path, const Op& op, Ps start, Ps end) const {
    if (end > start) path.push_back(step_of(op, start, end));
  }
  void gap(std::vector<PathStep>& path, const Op& after, Ps start, Ps end) const {
    PathStep s = step_of(after, start, end);
    s.engine = after.name == OpName::command ? "dispatch" : "wait";
    path.push_back(s);
  }

  OpLogReader reader_;
  std::vector<Op> ops_;
  std::vector<Ps> launches_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> by_pe_, by_component_;  // looked up only
  Ps begin_ = 0;
};

}  // namespace

std::vector<PathStep> critical_path(const std::string& op_log) {
  return Walk(op_log).steps();
}

}  // namespace kb::cli
