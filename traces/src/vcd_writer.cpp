#include <kb/traces/vcd_writer.h>

#include "text.h"

#include <kb/tlm_if/errors.h>
#include <kb/traces/output_file.h>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace kb {

namespace {

/// What a change does to the state of its group. At one time, ends come before starts.
enum class Act : std::uint8_t {
  end,    // an operation of the lane ends
  start,  // ... and one starts: label, command, tile
  wait_less,
  wait_more,
  in_flight_less,
  in_flight_more,
  head,
  tail,
  credit_less,
  credit_more,
  link_off,
  link_on,
};

struct Change {
  Ps t = 0;
  std::uint32_t group = 0;
  std::uint32_t sequence = 0;  // order of the records, for ties; wraps
  std::uint32_t command = 0;
  std::int32_t tile_m = -1, tile_n = -1, tile_k = -1;
  std::uint16_t label = 0;
  Act act = Act::end;

  friend bool operator<(const Change& a, const Change& b) {
    return std::tie(a.t, a.group, a.act, a.sequence) < std::tie(b.t, b.group, b.act, b.sequence);
  }
};

enum class GroupKind : std::uint8_t { lane, commands, queue, link };

/// Signals that change together. Which of them exist is known when the header is written, after all records.
struct Group {
  GroupKind kind = GroupKind::lane;
  std::string parent;  // scope, dotted
  std::string lane;    // sub-scope; empty: none
  bool tiles = false, waits = false, overlaps = false, commands = false;
  Ps last_end = 0;

  // state while merging
  std::int64_t active = 0, waiting = 0, in_flight = 0, head = 0, tail = 0, credits = 0;
  std::uint32_t command = 0;
  std::int32_t tile_m = -1, tile_n = -1, tile_k = -1;
  std::uint16_t label = 0;
  std::vector<std::uint32_t> vars;
};

enum class VarKind : std::uint8_t { busy, op, command, tile, active, waiting, in_flight, head, tail, credits };
constexpr const char* kVarNames[] = {"busy",    "op",        "command", "tile", "active",
                                     "waiting", "in_flight", "head",    "tail", "credits"};

/// What a var shows, comparable without making text of it.
struct Value {
  std::int64_t a = 0;
  std::int32_t b = 0, c = 0;
  friend bool operator==(const Value& x, const Value& y) { return x.a == y.a && x.b == y.b && x.c == y.c; }
};

struct Var {
  VarKind kind = VarKind::busy;
  std::string code;
  Value last;
};

bool is_bit(VarKind k) {
  return k == VarKind::busy;
}
bool is_string(VarKind k) {
  return k == VarKind::op || k == VarKind::tile;
}

/// Identifier number `n`, in the printable characters that VCD allows.
std::string code_of(std::size_t n) {
  std::string s;
  do {
    s += static_cast<char>('!' + n % 94);
    n /= 94;
  } while (n != 0);
  return s;
}

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1)
    parts.push_back(name.substr(begin, dot - begin));
  parts.push_back(name.substr(begin));
  return parts;
}

std::string parent_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}
std::string leaf_of(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

/// Parts of a name, numbers filled up with zeros, for an order in which pe2 comes before pe10.
std::vector<std::string> sort_key(const std::string& name) {
  std::vector<std::string> parts = split(name);
  for (std::string& part : parts) {
    std::string filled;
    for (std::size_t i = 0; i < part.size();) {
      std::size_t end = i;
      while (end < part.size() && part[end] >= '0' && part[end] <= '9') ++end;
      if (end > i) {
        filled.append(end - i < 10 ? 10 - (end - i) : 0, '0');
        filled.append(part, i, end - i);
        i = end;
      } else {
        filled += part[i++];
      }
    }
    part = filled;
  }
  return parts;
}

/// VCD identifiers hold no blanks; anything odd becomes an underscore.
std::string clean(std::string name) {
  for (char& c : name)
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 127) c = '_';
  return name;
}

/// "tray.sip0.cube0.r0c0->sip0.cube0.r0c1" as "tray.sip0.cube0.r0c0.to_r0c1": a scope under its source, the far end
/// named as far as it differs. Other names (memory channels) are scopes already.
std::string link_scope(const std::string& name) {
  const auto arrow = name.find("->");
  if (arrow == std::string::npos) return clean(name);
  const std::string from = name.substr(0, arrow);
  std::vector<std::string> near = split(from), far = split(name.substr(arrow + 2));
  near.erase(near.begin());  // the tray, which the far end does not name
  std::size_t common = 0;
  while (common + 1 < far.size() && common < near.size() && far[common] == near[common]) ++common;
  std::string to;
  for (std::size_t i = common; i < far.size(); ++i) to += "_" + far[i];
  return clean(from + ".to" + to);
}

/// The PE or, for what lies outside of PEs, the cube or else SIP that a scope belongs to: a page of the save file.
std::string page_of(const std::string& scope) {
  std::string page, so_far;
  for (const auto& part : split(scope)) {
    so_far += (so_far.empty() ? "" : ".") + part;
    for (const char* level : {"sip", "cube", "pe"}) {
      const std::size_t n = std::strlen(level);
      if (part.size() > n && part.compare(0, n, level) == 0 &&
          part.find_first_not_of("0123456789", n) == std::string::npos)
        page = so_far;
    }
  }
  return page.empty() ? split(scope)[0] : page;
}

/// Runs that are merged at a time, and the changes that are read ahead from all of them together: the memory of a merge
/// does not depend on how many runs there are.
constexpr std::size_t kFanIn = 512;
constexpr std::size_t kReadAhead = 1u << 16;

/// Sorted runs of changes in a nameless file.
class RunFile {
 public:
  explicit RunFile(std::string path) : path_(std::move(path)) {}
  ~RunFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;

  void begin_run() { runs_.push_back({end_, 0}); }
  /// Adds to the run begun last.
  void append(const std::vector<Change>& sorted) {
    if (fd_ < 0) {
      fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      if (fd_ < 0) fail("create");
      ::unlink(path_.c_str());
    }
    const auto* bytes = reinterpret_cast<const char*>(sorted.data());
    const std::size_t size = sorted.size() * sizeof(Change);
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = ::pwrite(fd_, bytes + done, size - done, static_cast<off_t>(end_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("write");
      done += static_cast<std::size_t>(n);
    }
    runs_.back().second += sorted.size();
    end_ += size;
  }

  /// A run being read, a block of at most `block` changes at a time.
  class Cursor {
   public:
    Cursor(const RunFile& file, std::size_t run, std::size_t block)
        : file_(&file), at_(file.runs_[run].first), left_(file.runs_[run].second), most_(block) {}
    bool next(Change& c) {
      if (pos_ == block_.size()) {
        if (left_ == 0) return false;
        block_.resize(std::min(most_, left_));
        file_->read(at_, block_);
        at_ += block_.size() * sizeof(Change);
        left_ -= block_.size();
        pos_ = 0;
      }
      c = block_[pos_++];
      return true;
    }
    std::size_t held() const { return block_.capacity(); }

   private:
    const RunFile* file_;
    std::uint64_t at_;
    std::size_t left_, most_;
    std::vector<Change> block_;
    std::size_t pos_ = 0;
  };

  std::size_t runs() const { return runs_.size(); }

 private:
  void read(std::uint64_t at, std::vector<Change>& to) const {
    auto* bytes = reinterpret_cast<char*>(to.data());
    const std::size_t size = to.size() * sizeof(Change);
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = ::pread(fd_, bytes + done, size - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("read");
      done += static_cast<std::size_t>(n);
    }
    // What has been read is not read again: its place on the disk is the trace's, which is smaller. On a disk that the
    // runs have filled it is the only one. A file system that cannot do so keeps it to the end.
    (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                      static_cast<off_t>(size));
  }
  [[noreturn]] void fail(const char* what) const {
    throw IoError(path_ + ": cannot " + what + ": " + std::strerror(errno != 0 ? errno : EIO));
  }

  std::string path_;
  int fd_ = -1;
  std::uint64_t end_ = 0;
  std::vector<std::pair<std::uint64_t, std::size_t>> runs_;  // offset, changes
};

}  // namespace

class VcdWriter::Impl {
 public:
  Impl(const std::string& path, const ComponentTable& components, Options options)
      : path_(path),
        components_(components),
        options_(std::move(options)),
        file_(path),
        runs_(std::make_unique<RunFile>(path + ".runs")) {
    labels_.emplace_back("-");
    changes_.reserve(options_.run_length);
  }

  void record(const OpRecord& r) {
    if (!covers(r.component)) return;
    ++sequence_;
    switch (r.name) {
      case OpName::command: count_commands(r, Act::in_flight_more); break;
      case OpName::command_done: count_commands(r, Act::in_flight_less); return;
      case OpName::slot_write:
      case OpName::credit: count_slots(r); break;
      default: break;
    }
    operation(r);
  }

  void set_links(std::vector<std::string> names) { link_names_ = std::move(names); }

  void link_busy(std::uint32_t link, Ps from, Ps to) {
    if (link >= link_groups_.size()) link_groups_.resize(std::max<std::size_t>(link + 1, link_names_.size()), kUnknown);
    std::uint32_t& group = link_groups_[link];
    if (group == kUnknown) {
      const std::string name = link < link_names_.size() ? link_names_[link] : "link" + std::to_string(link);
      group = options_.filter.covers(name) ? new_group(GroupKind::link, link_scope(name), "") : kIgnored;
    }
    if (group == kIgnored || from >= to || !options_.filter.cut(from, to)) return;
    add(from, group, Act::link_on);
    add(to, group, Act::link_off);
  }

  void finish() {
    if (closed_) return;
    closed_ = true;
    write();
    file_.finish();
    write_save_file();
  }

  void abandon() noexcept {
    if (closed_) return;
    closed_ = true;
    try {
      write();
    } catch (const std::exception&) {  // what was written before stays
    }
    file_.abandon();
    try {
      write_save_file();
    } catch (const std::exception&) {
    }
  }

  std::uint64_t changes() const { return written_; }
  std::size_t most_held() const { return std::max(held_, changes_.capacity()); }
  std::string view_command() const { return "gtkwave " + path_ + " " + save_path(); }

 private:
  static constexpr std::uint32_t kUnknown = 0xffffffffu;
  static constexpr std::uint32_t kIgnored = 0xfffffffeu;
  static constexpr std::size_t kNames = static_cast<std::size_t>(OpName::launch_done) + 1;

  // ---- collecting ------------------------------------------------------------------------------------------

  bool covers(std::uint32_t component) {
    if (component >= covered_.size()) {
      lane_groups_.resize((component + 1) * kNames, kUnknown);
      for (auto i = static_cast<std::uint32_t>(covered_.size()); i <= component; ++i)
        covered_.push_back(i < components_.size() && options_.filter.covers(components_.name(i)));
    }
    return covered_[component];
  }

  std::uint32_t new_group(GroupKind kind, const std::string& parent, const std::string& lane) {
    groups_.push_back({});
    groups_.back().kind = kind;
    groups_.back().parent = parent;
    groups_.back().lane = lane;
    groups_.back().credits = options_.queue_slots;
    return static_cast<std::uint32_t>(groups_.size() - 1);
  }

  std::uint32_t lane_group(const OpRecord& r) {
    std::uint32_t& group = lane_groups_[r.component * kNames + static_cast<std::size_t>(r.name)];
    if (group == kUnknown) {
      const std::string name = clean(components_.name(r.component));
      const char* lane = name_of(r.name);
      group = new_group(GroupKind::lane, name, leaf_of(name) == lane ? "" : lane);
    }
    return group;
  }

  void operation(const OpRecord& r) {
    Ps start = r.t_start, end = r.t_end;
    if (start >= end && (r.t_ready < 0 || r.t_ready >= start)) return;
    const std::uint32_t index = lane_group(r);
    Group& group = groups_[index];
    if (r.t_ready >= 0 && r.t_ready < r.t_start) {
      Ps from = r.t_ready, to = r.t_start;
      if (options_.filter.cut(from, to) && from < to) {
        group.waits = true;
        add(from, index, Act::wait_more);
        add(to, index, Act::wait_less);
      }
    }
    if (start >= end || !options_.filter.cut(start, end) || start >= end) return;
    Change& c = add(start, index, Act::start);
    c.label = label_of(r);
    if (r.command) {
      group.commands = true;
      c.command = static_cast<std::uint32_t>(r.command->id);
    }
    if (r.tile_m >= 0 || r.tile_n >= 0 || r.tile_k >= 0) {
      group.tiles = true;
      c.tile_m = r.tile_m;
      c.tile_n = r.tile_n;
      c.tile_k = r.tile_k;
    }
    // Ends are delivered in order, so that an operation overlaps the one before when it began before that ended.
    group.overlaps = group.overlaps || start < group.last_end;
    group.last_end = std::max(group.last_end, end);
    add(end, index, Act::end);
  }

  void count_commands(const OpRecord& r, Act act) {
    // A command is accepted and done at different components where those are different boxes: the PE has one count.
    if (r.pe == kNoPe) return;
    if (r.pe >= pe_groups_.size()) pe_groups_.resize(r.pe + 1, kUnknown);
    std::uint32_t& group = pe_groups_[r.pe];
    if (group == kUnknown) group = new_group(GroupKind::commands, clean(components_.name(r.component)), "");
    step(group, r.t_end, act);
  }

  void count_slots(const OpRecord& r) {
    const bool written = r.name == OpName::slot_write;
    const std::uint32_t receiver = written ? r.peer : r.pe;
    const auto key = std::make_pair(receiver, r.arrives);
    const auto [found, added] = queue_groups_.emplace(key, kUnknown);
    if (added) found->second = new_group(GroupKind::queue, pe_name(receiver) + ".ipcq", name_of(r.arrives));
    if (written) {
      step(found->second, r.t_start, Act::credit_less);
      step(found->second, r.t_end, Act::head);
    } else {
      step(found->second, r.t_start, Act::tail);
      step(found->second, r.t_end, Act::credit_more);
    }
  }

  /// A counter's step: before the window it changes the value that the window starts with.
  void step(std::uint32_t group, Ps t, Act act) {
    const auto& window = options_.filter.window;
    if (window && t > window->second) return;
    if (window && t < window->first)
      count(groups_[group], act);
    else
      add(t, group, act);
  }

  static void count(Group& g, Act act) {
    switch (act) {
      case Act::wait_more: ++g.waiting; break;
      case Act::wait_less: --g.waiting; break;
      case Act::in_flight_more: ++g.in_flight; break;
      case Act::in_flight_less: --g.in_flight; break;
      case Act::head: ++g.head; break;
      case Act::tail: ++g.tail; break;
      case Act::credit_less: --g.credits; break;
      case Act::credit_more: ++g.credits; break;
      case Act::start:
      case Act::link_on: ++g.active; break;
      case Act::end:
      case Act::link_off: --g.active; break;
    }
  }

  /// "tray.sip0.cube0.pe3" of a rank, as far as a component of that PE has been seen in the table.
  std::string pe_name(std::uint32_t rank) {
    if (pe_names_.empty()) {
      // Components come in topology order, so that the PEs do: ranks count the distinct names that end in .pe<N>.
      std::string last;
      for (std::uint32_t i = 0; i < components_.size(); ++i) {
        const std::string parent = parent_of(components_.name(i));
        const std::string leaf = leaf_of(parent);
        const bool pe = leaf.size() > 2 && leaf.compare(0, 2, "pe") == 0 &&
                        std::all_of(leaf.begin() + 2, leaf.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (pe && parent != last) pe_names_.push_back(last = parent);
      }
    }
    return rank < pe_names_.size() ? clean(pe_names_[rank]) : "pe" + std::to_string(rank);
  }

  std::uint16_t label_of(const OpRecord& r) {
    std::string_view text = name_of(r.name);
    if (r.name == OpName::math && r.command && r.op >= 0 && static_cast<std::size_t>(r.op) < r.command->ops.size())
      text = r.command->ops[static_cast<std::size_t>(r.op)].kind;
    if (r.name == OpName::dma_read && r.role == TileRole::a) text = "dma_read_a";
    if (r.name == OpName::dma_read && r.role == TileRole::b) text = "dma_read_b";
    label_text_ = text;
    const auto found = label_index_.find(label_text_);
    if (found != label_index_.end()) return found->second;
    if (labels_.size() > 0xffff) return 0;
    const auto index = static_cast<std::uint16_t>(labels_.size());
    labels_.push_back(clean(label_text_));
    label_index_.emplace(label_text_, index);
    return index;
  }

  Change& add(Ps t, std::uint32_t group, Act act) {
    if (changes_.size() >= options_.run_length) spill();
    changes_.push_back({});
    Change& c = changes_.back();
    c.t = t;
    c.group = group;
    c.sequence = sequence_;
    c.act = act;
    return c;
  }

  void spill() {
    std::sort(changes_.begin(), changes_.end());
    runs_->begin_run();
    runs_->append(changes_);
    changes_.clear();
  }

  /// Hands `take` the changes of `count` runs from `first` on, and of the sorted run `rest`, in their order.
  template <typename Take>
  void merge(std::size_t first, std::size_t count, const std::vector<Change>& rest, Take&& take) {
    std::vector<RunFile::Cursor> cursors;
    cursors.reserve(count);
    for (std::size_t i = 0; i < count; ++i) cursors.emplace_back(*runs_, first + i, kReadAhead / count);
    std::size_t used = 0;
    const auto next = [&](std::size_t source, Change& c) {
      if (source < cursors.size()) return cursors[source].next(c);
      if (used == rest.size()) return false;
      c = rest[used++];
      return true;
    };
    using Entry = std::pair<Change, std::size_t>;
    const auto later = [](const Entry& a, const Entry& b) {
      return b.first < a.first || (!(a.first < b.first) && b.second < a.second);
    };
    std::priority_queue<Entry, std::vector<Entry>, decltype(later)> heads(later);
    for (std::size_t i = 0; i <= cursors.size(); ++i) {
      Change c;
      if (next(i, c)) heads.emplace(c, i);
    }
    std::size_t held = rest.capacity();
    for (const auto& c : cursors) held += c.held();
    held_ = std::max(held_, held);
    while (!heads.empty()) {
      const auto [c, source] = heads.top();
      heads.pop();
      take(c);
      Change following;
      if (next(source, following)) heads.emplace(following, source);
    }
  }

  /// Neighbouring runs become one, until no more are left than can be merged at a time.
  void reduce_runs() {
    while (runs_->runs() > kFanIn) {
      auto longer = std::make_unique<RunFile>(path_ + ".runs");
      std::vector<Change> block;
      block.reserve(kReadAhead);
      for (std::size_t i = 0; i < runs_->runs(); i += kFanIn) {
        longer->begin_run();
        merge(i, std::min(kFanIn, runs_->runs() - i), {}, [&](const Change& c) {
          block.push_back(c);
          if (block.size() < kReadAhead) return;
          longer->append(block);
          block.clear();
        });
        longer->append(block);
        block.clear();
      }
      runs_ = std::move(longer);
    }
  }

  // ---- writing ---------------------------------------------------------------------------------------------

  void write() {
    std::sort(changes_.begin(), changes_.end());
    write_header();
    const Ps begin = options_.filter.window ? options_.filter.window->first : 0;
    put_time(begin);
    file_.append("$dumpvars\n");
    for (Group& g : groups_)
      for (std::uint32_t v : g.vars) {
        vars_[v].last = value_of(g, vars_[v].kind);
        put_value(vars_[v]);
      }
    file_.append("$end\n");

    now_ = begin;
    reduce_runs();
    merge(0, runs_->runs(), changes_, [&](const Change& c) {
      if (c.t != now_) show(c.t);
      apply(c);
    });
    show(now_ + 1);
    put_time(now_);  // a picosecond more, so that the last change can be seen
  }

  void write_header() {
    file_.append("$comment kernbench $end\n$timescale 1ps $end\n");
    // Scopes in the order of the names, which puts what belongs together side by side.
    std::map<std::vector<std::string>, std::vector<std::uint32_t>> scopes;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Group& g = groups_[i];
      const auto add_var = [&](VarKind kind) {
        g.vars.push_back(static_cast<std::uint32_t>(vars_.size()));
        vars_.push_back({kind, code_of(vars_.size()), {}});
      };
      switch (g.kind) {
        case GroupKind::lane:
          add_var(VarKind::busy);
          add_var(VarKind::op);
          if (g.commands) add_var(VarKind::command);
          if (g.tiles) add_var(VarKind::tile);
          if (g.overlaps) add_var(VarKind::active);
          if (g.waits) add_var(VarKind::waiting);
          break;
        case GroupKind::commands: add_var(VarKind::in_flight); break;
        case GroupKind::queue:
          add_var(VarKind::head);
          add_var(VarKind::tail);
          add_var(VarKind::credits);
          break;
        case GroupKind::link: add_var(VarKind::busy); break;
      }
      scopes[sort_key(scope_of(g))].push_back(static_cast<std::uint32_t>(i));
    }
    std::vector<std::string> open;
    for (const auto& entry : scopes) {
      const std::vector<std::uint32_t>& members = entry.second;
      const std::vector<std::string> scope = split(scope_of(groups_[members[0]]));
      std::size_t common = 0;
      while (common < open.size() && common < scope.size() && open[common] == scope[common]) ++common;
      for (; open.size() > common; open.pop_back()) file_.append("$upscope $end\n");
      for (; open.size() < scope.size(); open.push_back(scope[open.size()]))
        file_.append("$scope module " + scope[open.size()] + " $end\n");
      for (std::uint32_t m : members)
        for (std::uint32_t v : groups_[m].vars) {
          const Var& var = vars_[v];
          const std::string name = kVarNames[static_cast<std::size_t>(var.kind)];
          if (is_bit(var.kind))
            file_.append("$var wire 1 " + var.code + " " + name + " $end\n");
          else if (is_string(var.kind))
            file_.append("$var string 1 " + var.code + " " + name + " $end\n");
          else
            file_.append("$var wire 32 " + var.code + " " + name + " [31:0] $end\n");
        }
    }
    for (; !open.empty(); open.pop_back()) file_.append("$upscope $end\n");
    file_.append("$enddefinitions $end\n");
  }

  static std::string scope_of(const Group& g) { return g.lane.empty() ? g.parent : g.parent + "." + g.lane; }

  void apply(const Change& c) {
    Group& g = groups_[c.group];
    if (dirty_.empty() || dirty_.back() != c.group) dirty_.push_back(c.group);
    count(g, c.act);
    if (c.act != Act::start) return;
    g.label = c.label;
    g.command = c.command;
    g.tile_m = c.tile_m;
    g.tile_n = c.tile_n;
    g.tile_k = c.tile_k;
  }

  /// Writes what is different now from what was last shown, under the time that has been applied; moves on to `t`.
  void show(Ps t) {
    bool timed = now_ == shown_;
    for (std::uint32_t index : dirty_) {
      Group& g = groups_[index];
      for (std::uint32_t v : g.vars) {
        const Value value = value_of(g, vars_[v].kind);
        if (value == vars_[v].last) continue;
        if (!timed) put_time(now_);
        timed = true;
        vars_[v].last = value;
        put_value(vars_[v]);
        ++written_;
      }
    }
    dirty_.clear();
    now_ = t;
  }

  static Value value_of(const Group& g, VarKind kind) {
    const bool on = g.active > 0;
    switch (kind) {
      case VarKind::busy: return {on ? 1 : 0, 0, 0};
      case VarKind::op: return {on ? g.label : 0, 0, 0};
      case VarKind::command: return {on ? g.command : 0, 0, 0};
      case VarKind::tile: return on ? Value{g.tile_m, g.tile_n, g.tile_k} : Value{-1, -1, -1};
      case VarKind::active: return {g.active, 0, 0};
      case VarKind::waiting: return {g.waiting, 0, 0};
      case VarKind::in_flight: return {g.in_flight, 0, 0};
      case VarKind::head: return {g.head, 0, 0};
      case VarKind::tail: return {g.tail, 0, 0};
      case VarKind::credits: return {g.credits, 0, 0};
    }
    return {};
  }

  void put_time(Ps t) {
    char* p = file_.room(32);
    *p++ = '#';
    p = text::put_signed(p, t);
    *p++ = '\n';
    file_.commit(p);
    shown_ = t;
  }

  void put_value(const Var& var) {
    const std::string& label = var.kind == VarKind::op ? labels_[static_cast<std::size_t>(var.last.a)] : labels_[0];
    char* p = file_.room(80 + label.size() + var.code.size());
    if (is_bit(var.kind)) {
      *p++ = var.last.a != 0 ? '1' : '0';
    } else if (var.kind == VarKind::op) {
      *p++ = 's';
      p = text::put(p, label);
      *p++ = ' ';
    } else if (var.kind == VarKind::tile) {
      *p++ = 's';
      const std::int64_t parts[] = {var.last.a, var.last.b, var.last.c};
      const bool none = parts[0] < 0 && parts[1] < 0 && parts[2] < 0;
      for (int i = 0; i < 3 && !none; ++i) {
        if (i > 0) *p++ = '.';
        if (parts[i] < 0)
          *p++ = '-';
        else
          p = text::put_signed(p, parts[i]);
      }
      if (none) *p++ = '-';
      *p++ = ' ';
    } else {
      *p++ = 'b';
      const auto bits = static_cast<std::uint32_t>(var.last.a);
      int top = 31;
      while (top > 0 && (bits >> top & 1u) == 0) --top;
      for (int i = top; i >= 0; --i) *p++ = static_cast<char>('0' + (bits >> i & 1u));
      *p++ = ' ';
    }
    p = text::put(p, var.code);
    *p++ = '\n';
    file_.commit(p);
  }

  // ---- save file -------------------------------------------------------------------------------------------

  std::string save_path() const {
    const auto dot = path_.rfind('.');
    const auto slash = path_.rfind('/');
    const bool extension = dot != std::string::npos && (slash == std::string::npos || dot > slash);
    return (extension ? path_.substr(0, dot) : path_) + ".gtkw";
  }

  /// GTKWave's save file: a page per PE, then per cube and SIP with its links and memories; the first page open, the
  /// others closed, the view as wide as the run. Each signal has an alias, its name below the page.
  void write_save_file() {
    OutputFile save(save_path());
    save.append("[*] kernbench\n");
    // Zoom z shows 2^-z time units on 200 pixels; then the marker and the 26 named ones, unset.
    constexpr double kPixels = 900, kZoomPixels = 200;
    const Ps begin = options_.filter.window ? options_.filter.window->first : 0;
    const double span = static_cast<double>(std::max<Ps>(now_ - begin, 1));
    char zoom[40];
    std::snprintf(zoom, sizeof zoom, "%.6f", -std::log2(span / kPixels * kZoomPixels));
    save.append("[timestart] " + std::to_string(begin) + "\n[size] 1600 900\n[pos] -1 -1\n*" + zoom);
    for (int i = 0; i < 27; ++i) save.append(" -1");
    save.append("\n[sst_width] 230\n[signals_width] 270\n[sst_expanded] 1\n");

    using Key = std::pair<bool, std::vector<std::string>>;  // PEs first
    struct Page {
      std::string title;
      std::vector<std::uint32_t> groups;
    };
    std::map<Key, Page> pages;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const std::string title = page_of(groups_[i].parent);
      Page& page = pages[{leaf_of(title).compare(0, 2, "pe") != 0, sort_key(title)}];
      page.title = title;
      page.groups.push_back(static_cast<std::uint32_t>(i));
    }
    bool first = true;
    for (auto& item : pages) {
      const std::string& title = item.second.title;
      auto& members = item.second.groups;
      std::sort(members.begin(), members.end(), [&](std::uint32_t x, std::uint32_t y) {
        return sort_key(scope_of(groups_[x])) < sort_key(scope_of(groups_[y]));
      });
      // Flags: 0x800000 group begin, 0x400000 closed, 0x1000000 group end, 0x200 a line of text.
      save.append((first ? "@800200\n-" : "@c00200\n-") + title + "\n");
      for (std::uint32_t index : members) {
        const Group& g = groups_[index];
        for (std::uint32_t v : g.vars) {
          const VarKind kind = vars_[v].kind;
          const std::string name = scope_of(g) + "." + kVarNames[static_cast<std::size_t>(kind)];
          std::string below = name.substr(std::min(title.size() + 1, name.size()));
          std::replace(below.begin(), below.end(), '.', ' ');  // what follows a dot would be all that is shown
          const std::string alias = "+{" + below + "} ";
          // 0x28: right aligned, binary; 0x24: decimal.
          if (is_bit(kind) || is_string(kind))
            save.append("@28\n" + alias + name + "\n");
          else
            save.append("@24\n" + alias + name + "[31:0]\n");
        }
      }
      save.append((first ? "@1000200\n-" : "@1401200\n-") + title + "\n");
      first = false;
    }
    save.finish();
  }

  std::string path_;
  const ComponentTable& components_;
  Options options_;
  OutputFile file_;
  std::unique_ptr<RunFile> runs_;
  std::size_t held_ = 0;
  bool closed_ = false;

  std::vector<Change> changes_;
  std::uint32_t sequence_ = 0;
  std::vector<Group> groups_;
  std::vector<Var> vars_;
  std::vector<bool> covered_;               // by component
  std::vector<std::uint32_t> lane_groups_;  // by component and operation
  std::vector<std::uint32_t> pe_groups_;    // by rank: commands in flight
  std::vector<std::uint32_t> link_groups_;
  std::vector<std::string> link_names_;
  std::map<std::pair<std::uint32_t, Direction>, std::uint32_t> queue_groups_;
  std::vector<std::string> pe_names_;  // by rank
  std::vector<std::string> labels_;    // 0: idle
  std::unordered_map<std::string, std::uint16_t> label_index_;
  std::string label_text_;

  Ps now_ = 0;     // time whose changes are being applied
  Ps shown_ = -1;  // time written last
  std::vector<std::uint32_t> dirty_;
  std::uint64_t written_ = 0;
};

VcdWriter::VcdWriter(const std::string& path, const ComponentTable& components, Options options)
    : impl_(std::make_unique<Impl>(path, components, std::move(options))) {}

VcdWriter::~VcdWriter() {
  abandon();
}

void VcdWriter::record(const OpRecord& r) {
  impl_->record(r);
}
void VcdWriter::set_links(std::vector<std::string> names) {
  impl_->set_links(std::move(names));
}
void VcdWriter::link_busy(std::uint32_t link, Ps from, Ps to) {
  impl_->link_busy(link, from, to);
}
void VcdWriter::finish() {
  impl_->finish();
}
void VcdWriter::abandon() noexcept {
  impl_->abandon();
}
std::uint64_t VcdWriter::changes() const {
  return impl_->changes();
}
std::size_t VcdWriter::most_held() const {
  return impl_->most_held();
}
std::string VcdWriter::view_command() const {
  return impl_->view_command();
}

}  // namespace kb
