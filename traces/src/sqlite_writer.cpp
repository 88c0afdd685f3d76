#include <kb/traces/sqlite_writer.h>

#include "text.h"

#include <kb/tlm_if/errors.h>
#include <kb/traces/command_tracker.h>
#include <kb/traces/op_log_writer.h>

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace kb {

namespace {

constexpr std::uint64_t kBatch = 1u << 16;  // records per transaction
constexpr std::size_t kWorks = 1u << 14;    // rows of works that are remembered

constexpr char kPragmas[] = R"sql(
PRAGMA page_size = 8192;
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA temp_store = FILE;
PRAGMA cache_size = -16000;
)sql";

constexpr char kSchema[] = R"sql(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE config (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE components (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE op_names (id INTEGER PRIMARY KEY, name TEXT, kind TEXT);
CREATE TABLE commands (
  id INTEGER PRIMARY KEY, pe INTEGER, number INTEGER, kind TEXT, ops INTEGER, logical_bytes INTEGER,
  block_m INTEGER, block_n INTEGER, m_outer INTEGER, plan_bytes INTEGER, accepted_ps INTEGER, done_ps INTEGER, spec TEXT);
CREATE TABLE works (
  id INTEGER PRIMARY KEY, component INTEGER, op_name INTEGER, pe INTEGER, op INTEGER, label TEXT, role TEXT, bytes INTEGER,
  m INTEGER, k INTEGER, n INTEGER, elements INTEGER, path_ps INTEGER, peer INTEGER, arrives TEXT);
CREATE TABLE events (
  id INTEGER PRIMARY KEY, t_start_ps INTEGER, t_end_ps INTEGER, work INTEGER, number INTEGER, command INTEGER,
  tile_m INTEGER, tile_n INTEGER, tile_k INTEGER, address INTEGER, ready_ps INTEGER, message INTEGER);

CREATE TABLE paths (id INTEGER PRIMARY KEY, op TEXT, origin TEXT, target TEXT);
CREATE TABLE path_parts (
  path INTEGER, part INTEGER, stage TEXT, component TEXT, link TEXT, gb_per_s REAL, fixed_ps INTEGER,
  PRIMARY KEY (path, part)) WITHOUT ROWID;
CREATE TABLE transfers (
  id INTEGER PRIMARY KEY, path INTEGER, bytes INTEGER, begin_ps INTEGER, end_ps INTEGER, alone_ps INTEGER, parts_ps TEXT);

CREATE VIEW records AS
  SELECT e.id, e.t_start_ps, e.t_end_ps, w.component, e.number, w.op_name, e.command, w.pe, w.op, w.label, w.role,
         e.tile_m, e.tile_n, e.tile_k, e.address, w.bytes, w.m, w.k, w.n, w.elements, e.ready_ps, w.path_ps, e.message,
         w.peer, w.arrives
  FROM events e JOIN works w ON w.id = e.work;

CREATE VIEW log AS
  SELECT r.id, r.t_start_ps / 1000.0 AS t_start_ns, r.t_end_ps / 1000.0 AS t_end_ns, c.name AS component, o.kind AS op_kind,
         o.name AS op_name, coalesce(r.label, o.name) AS label, m.number AS command, r.pe, r.role, r.tile_m, r.tile_n, r.tile_k, r.address, r.bytes,
         r.m, r.k, r.n, r.elements, (r.t_start_ps - r.ready_ps) / 1000.0 AS waited_ns, r.path_ps / 1000.0 AS path_ns,
         r.message, r.peer, r.arrives
  FROM records r JOIN components c ON c.id = r.component JOIN op_names o ON o.id = r.op_name
  LEFT JOIN commands m ON m.id = r.command;

CREATE VIEW engine_use AS
  SELECT c.name AS component, o.name AS op_name, count(*) AS operations, sum(r.t_end_ps - r.t_start_ps) / 1000.0 AS busy_ns,
         1.0 * sum(r.t_end_ps - r.t_start_ps) / (SELECT max(t_end_ps) - min(t_start_ps) FROM records) AS share,
         avg(r.t_start_ps - r.ready_ps) / 1000.0 AS mean_wait_ns, sum(r.bytes) AS bytes
  FROM records r JOIN components c ON c.id = r.component JOIN op_names o ON o.id = r.op_name
  GROUP BY r.component, r.op_name ORDER BY r.component, r.op_name;

CREATE VIEW slowest_commands AS
  SELECT pe, number, kind, accepted_ps / 1000.0 AS accepted_ns, done_ps / 1000.0 AS done_ns,
         (done_ps - accepted_ps) / 1000.0 AS took_ns, plan_bytes
  FROM commands WHERE done_ps IS NOT NULL ORDER BY took_ns DESC, pe, number;

CREATE VIEW command_time AS
  SELECT m.pe, m.number, m.kind, coalesce(r.label, o.name) AS label, count(*) AS operations, sum(r.t_end_ps - r.t_start_ps) / 1000.0 AS time_ns,
         min(r.t_start_ps) / 1000.0 AS first_start_ns, max(r.t_end_ps) / 1000.0 AS last_end_ns
  FROM records r JOIN commands m ON m.id = r.command JOIN op_names o ON o.id = r.op_name
  GROUP BY r.command, r.op_name, r.label ORDER BY r.command, first_start_ns;

CREATE VIEW contention AS
  SELECT c.name AS component, o.name AS op_name, count(*) AS delayed,
         sum(r.t_end_ps - r.t_start_ps - r.path_ps) / 1000.0 AS delay_ns, max(r.t_end_ps - r.t_start_ps - r.path_ps) / 1000.0 AS worst_ns
  FROM records r JOIN components c ON c.id = r.component JOIN op_names o ON o.id = r.op_name
  WHERE r.path_ps IS NOT NULL AND r.t_end_ps - r.t_start_ps > r.path_ps
  GROUP BY r.component, r.op_name ORDER BY delay_ns DESC;

CREATE VIEW transfer_parts AS
  SELECT t.id AS transfer, t.path, p.op, p.origin, p.target, t.bytes, s.part, s.stage, s.component, s.link, j.value AS time_ps,
         s.fixed_ps
  FROM transfers t JOIN json_each(t.parts_ps) j JOIN paths p ON p.id = t.path
  JOIN path_parts s ON s.path = t.path AND s.part = j.key;

CREATE VIEW hop_latency AS
  SELECT op, origin, target, stage, component, link, count(*) AS transfers, avg(time_ps) / 1000 AS mean_ns,
         min(time_ps) / 1000.0 AS least_ns, max(time_ps) / 1000.0 AS most_ns, fixed_ps / 1000.0 AS fixed_ns
  FROM transfer_parts GROUP BY path, part ORDER BY path, part;

CREATE VIEW slowest_transfers AS
  SELECT t.id AS transfer, p.op, p.origin, p.target, t.bytes, t.begin_ps / 1000.0 AS begin_ns,
         (t.end_ps - t.begin_ps) / 1000.0 AS took_ns, t.alone_ps / 1000.0 AS alone_ns,
         (t.end_ps - t.begin_ps - t.alone_ps) / 1000.0 AS delay_ns
  FROM transfers t JOIN paths p ON p.id = t.path ORDER BY delay_ns DESC, t.id;

CREATE VIEW queue_occupancy AS
  SELECT receiver, arrives, t_ps / 1000.0 AS t_ns,
         sum(step) OVER (PARTITION BY receiver, arrives ORDER BY t_ps, step ROWS UNBOUNDED PRECEDING) AS slots
  FROM (SELECT r.peer AS receiver, r.arrives, r.t_end_ps AS t_ps, 1 AS step
        FROM records r JOIN op_names o ON o.id = r.op_name WHERE o.name = 'slot_write'
        UNION ALL
        SELECT r.pe, r.arrives, r.t_start_ps, -1 FROM records r JOIN op_names o ON o.id = r.op_name WHERE o.name = 'credit')
  ORDER BY receiver, arrives, t_ps, step;
)sql";

constexpr char kIndexes[] = R"sql(
CREATE INDEX events_by_command ON events (command) WHERE command IS NOT NULL;
CREATE INDEX commands_by_pe ON commands (pe, number);
)sql";

constexpr std::int64_t kNull = std::numeric_limits<std::int64_t>::min();  // a cell that holds nothing

template <typename T>
std::int64_t some(T value, bool present) {
  return present ? static_cast<std::int64_t>(value) : kNull;
}

/// What the record of an operation has in common with those of others: a row of the table works.
struct Work {
  std::uint32_t component = 0, pe = 0, peer = 0;
  OpName name = OpName::command;
  TileRole role = TileRole::none;
  Direction arrives = Direction::N;
  std::int16_t op = 0;
  std::uint32_t label = 0;  // 0: none
  std::uint64_t bytes = 0, elements = 0;
  std::int64_t m = 0, k = 0, n = 0;
  Ps path = 0;

  auto fields() const {
    return std::tie(component, pe, peer, name, role, arrives, op, label, bytes, elements, m, k, n, path);
  }
  friend bool operator==(const Work& a, const Work& b) { return a.fields() == b.fields(); }

  struct Hash {
    std::size_t operator()(const Work& w) const {
      return std::apply(
          [](const auto&... f) {
            std::uint64_t h = 0;
            ((h = (h ^ static_cast<std::uint64_t>(f)) * 0x9e3779b97f4a7c15ull, h ^= h >> 32), ...);
            return static_cast<std::size_t>(h);
          },
          w.fields());
    }
  };
};

}  // namespace

class SqliteWriter::Impl {
 public:
  Impl(const std::string& path, const ComponentTable& components, TraceFilter filter)
      : path_(path), part_(path + ".part"), components_(components), filter_(std::move(filter)) {
    std::remove(part_.c_str());
    // One thread writes: the library's own locking would only cost.
    constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(part_.c_str(), &db_, kFlags, nullptr) != SQLITE_OK) {
      const std::string reason = db_ ? sqlite3_errmsg(db_) : "out of memory";
      sqlite3_close(db_);
      db_ = nullptr;
      throw IoError(part_ + ": cannot create: " + reason);
    }
    try {
      run(kPragmas);
      run("BEGIN");
      run(kSchema);
      write_names();
      run("COMMIT");
      run("BEGIN");
      events_.prepare("events",
                      "t_start_ps,t_end_ps,work,number,command,tile_m,tile_n,tile_k,address,ready_ps,message");
      commands_.prepare("commands",
                        "id,pe,number,ops,logical_bytes,block_m,block_n,m_outer,plan_bytes,accepted_ps,done_ps",
                        {"kind", "spec"});
      transfers_.prepare("transfers", "path,bytes,begin_ps,end_ps,alone_ps", {"parts_ps"});
      work_ = prepare("INSERT INTO works VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
      component_ = prepare("INSERT OR REPLACE INTO components VALUES (?,?)");
    } catch (...) {
      close();
      throw;
    }
  }

  ~Impl() { abandon(); }

  void set_config(const std::vector<std::pair<std::string, std::string>>& items) {
    sqlite3_stmt* s = prepare("INSERT OR REPLACE INTO config VALUES (?,?)");
    for (const auto& [key, value] : items) {
      text(s, 1, key);
      text(s, 2, value);
      step(s);
    }
    sqlite3_finalize(s);
  }

  void record(const OpRecord& r) {
    std::int64_t command = 0;
    if (r.command) command = command_row(r);
    if (!covered(r.component)) return;
    Ps start = r.t_start, end = r.t_end;
    if (!filter_.cut(start, end)) return;

    const bool placed = r.kind == OpKind::memory && r.name != OpName::fetch && r.name != OpName::store;
    ++records_;
    events_.add({r.t_start, r.t_end, work_row(r), static_cast<std::int64_t>(r.number), some(command, command != 0),
                 some(r.tile_m, r.tile_m >= 0), some(r.tile_n, r.tile_n >= 0), some(r.tile_k, r.tile_k >= 0),
                 some(r.address, placed), some(r.t_ready, r.t_ready >= 0), some(r.message, r.has_message())});
    if (records_ % kBatch == 0) run("COMMIT; BEGIN");
  }

  std::uint32_t add_path(const Path& path) {
    const auto covers = [this](const std::string& name) { return filter_.covers(name); };
    // A PE's end point is no component of its own: its DMA stands for it.
    if (!covers(path.origin) && !covers(path.origin + ".dma") && !covers(path.target)) return 0;
    const std::uint32_t row = ++paths_;
    sqlite3_stmt* s = prepare("INSERT INTO paths VALUES (?,?,?,?)");
    bind(s, 1, row);
    bind(s, 2, path.write ? "write" : "read");
    text(s, 3, path.origin);
    text(s, 4, path.target);
    step(s);
    sqlite3_finalize(s);
    s = prepare("INSERT INTO path_parts VALUES (?,?,?,?,?,?,?)");
    std::int64_t number = 0;
    for (const PathPart& p : path.parts) {
      bind(s, 1, row);
      bind(s, 2, number++);
      text(s, 3, p.stage);
      text(s, 4, p.component);
      bind(s, 5, kNull);
      bind(s, 6, kNull);
      if (!p.link.empty()) {
        text(s, 5, p.link);
        sqlite3_bind_double(s, 6, p.gb_per_s);
      }
      bind(s, 7, p.fixed);
      step(s);
    }
    sqlite3_finalize(s);
    return row;
  }

  void transfer(std::uint32_t path, std::uint64_t bytes, Ps begin, Ps end, Ps alone, const std::vector<Ps>& parts) {
    Ps from = begin, to = end;
    if (path == 0 || !filter_.cut(from, to)) return;
    std::string list = "[";
    for (const Ps part : parts) {
      if (list.size() > 1) list += ',';
      text::append_signed(list, part);
    }
    list += ']';
    transfers_.add({path, static_cast<std::int64_t>(bytes), begin, end, alone}, std::move(list));
  }

  void finish() {
    if (!db_) return;
    flush();
    run("COMMIT");
    run(kIndexes);
    finalize();
    if (sqlite3_close(db_) != SQLITE_OK) fail("close");
    db_ = nullptr;
    if (std::rename(part_.c_str(), path_.c_str()) != 0)
      throw IoError(part_ + ": cannot rename: " + std::strerror(errno));
  }

  void abandon() noexcept {
    if (!db_) return;
    try {
      flush();
    } catch (const IoError&) {
      // What was committed before stays.
    }
    sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr);  // there may be nothing to commit after an error
    close();
  }

  std::uint64_t records() const { return records_; }

 private:
  /// Rows of integers, and up to two texts, for one table, many per statement: what a statement costs by itself is
  /// then little.
  class RowBatch {
   public:
    explicit RowBatch(Impl& db) : db_(db) {}

    /// `columns` of integers are separated by commas.
    void prepare(const std::string& table, std::string columns, std::initializer_list<const char*> text_columns = {}) {
      width_ = static_cast<std::size_t>(std::count(columns.begin(), columns.end(), ',')) + 1;
      cells_.resize(kRows * width_);
      std::string row = "(?";
      for (std::size_t i = 1; i < width_; ++i) row += ",?";
      for (const char* text : text_columns) {
        columns = columns + "," + text;
        row += ",?";
      }
      text_width_ = text_columns.size();
      texts_.resize(kRows);
      row += ")";
      const std::string insert = "INSERT INTO " + table + " (" + columns + ") VALUES ";
      std::string rows = row;
      for (std::size_t i = 1; i < kRows; ++i) rows += "," + row;
      one_ = db_.prepare((insert + row).c_str());
      many_ = db_.prepare((insert + rows).c_str());
    }
    void add(std::initializer_list<std::int64_t> row, std::string first_text = {}, std::string second_text = {}) {
      std::copy(row.begin(), row.end(), cells_.begin() + static_cast<std::ptrdiff_t>(rows_ * width_));
      texts_[rows_] = {std::move(first_text), std::move(second_text)};
      if (++rows_ < kRows) return;
      rows_ = 0;  // rows that cannot be written are not tried again
      insert(many_, 0, kRows);
    }
    /// Inserts the rows that wait.
    void flush() {
      const std::size_t rows = std::exchange(rows_, 0);
      for (std::size_t i = 0; i < rows; ++i) insert(one_, i, 1);
    }
    void finalize() {
      sqlite3_finalize(std::exchange(one_, nullptr));
      sqlite3_finalize(std::exchange(many_, nullptr));
    }

   private:
    static constexpr std::size_t kRows = 32;

    void insert(sqlite3_stmt* s, std::size_t first, std::size_t count) {
      int i = 0;
      for (std::size_t row = first; row < first + count; ++row) {
        for (std::size_t c = 0; c < width_; ++c) bind(s, ++i, cells_[row * width_ + c]);
        for (std::size_t t = 0; t < text_width_; ++t) bind(s, ++i, texts_[row][t].c_str());
      }
      db_.step(s);
    }

    Impl& db_;
    sqlite3_stmt* one_ = nullptr;
    sqlite3_stmt* many_ = nullptr;
    std::size_t width_ = 0;
    std::vector<std::int64_t> cells_;
    std::vector<std::array<std::string, 2>> texts_;
    std::size_t text_width_ = 0;
    std::size_t rows_ = 0;
  };

  /// A command of which the row is known, to be written when it is done.
  struct Accepted {
    std::int64_t row = 0;
    Ps at = 0;
    std::int64_t block_m = kNull, block_n = kNull, m_outer = kNull, plan_bytes = kNull;
    bool written = false;
  };

  [[noreturn]] void fail(const char* what) const {
    throw IoError(part_ + ": cannot " + what + ": " + sqlite3_errmsg(db_));
  }

  void run(const char* sql) {
    if (!db_) throw IoError(part_ + ": cannot write: the file is closed");
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("write");
  }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* s = nullptr;
    if (!db_ || sqlite3_prepare_v2(db_, sql, -1, &s, nullptr) != SQLITE_OK) fail("write");
    return s;
  }
  void step(sqlite3_stmt* s) {
    if (!db_) throw IoError(part_ + ": cannot write: the file is closed");
    const int rc = sqlite3_step(s);
    sqlite3_reset(s);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW) fail("write");
  }
  static void text(sqlite3_stmt* s, int i, const std::string& t) {
    sqlite3_bind_text(s, i, t.data(), static_cast<int>(t.size()), SQLITE_TRANSIENT);
  }
  static void bind(sqlite3_stmt* s, int i, std::int64_t cell) {
    if (cell == kNull)
      sqlite3_bind_null(s, i);
    else
      sqlite3_bind_int64(s, i, cell);
  }
  static void bind(sqlite3_stmt* s, int i, const char* word) { sqlite3_bind_text(s, i, word, -1, SQLITE_STATIC); }

  void write_names() {
    run("INSERT INTO meta VALUES ('schema_version', '2')");
    static constexpr OpKind kKinds[] = {OpKind::memory,  OpKind::memory,  OpKind::memory,  OpKind::memory,
                                        OpKind::memory,  OpKind::memory,  OpKind::gemm,    OpKind::math,
                                        OpKind::ipcq,    OpKind::ipcq,    OpKind::ipcq,    OpKind::ipcq,
                                        OpKind::control, OpKind::control, OpKind::control, OpKind::control};
    for (std::size_t i = 0; i < std::size(kKinds); ++i)
      run(("INSERT INTO op_names VALUES (" + std::to_string(i + 1) + ", '" + name_of(static_cast<OpName>(i)) + "', '" +
           name_of(kKinds[i]) + "')")
              .c_str());
  }

  bool covered(std::uint32_t component) {
    if (component >= covered_.size()) covered_.resize(component + 1, 2);
    char& c = covered_[component];
    if (c == 2) {
      const std::string& name = components_.name(component);
      c = filter_.covers(name) ? 1 : 0;
      sqlite3_bind_int64(component_, 1, component);
      text(component_, 2, name);
      step(component_);
    }
    return c == 1;
  }

  /// Row of what the record did. So many are remembered; after them, one may be there twice.
  std::int64_t work_row(const OpRecord& r) {
    const bool op = r.command && r.op >= 0 && static_cast<std::size_t>(r.op) < r.command->ops.size();
    Work w;
    w.component = r.component;
    w.pe = r.pe;
    w.peer = r.peer;
    w.name = r.name;
    w.role = r.role;
    w.arrives = r.arrives;
    w.op = r.op;
    if (r.name == OpName::math && op) w.label = label(r.command->ops[static_cast<std::size_t>(r.op)].kind);
    w.bytes = r.bytes;
    w.elements = r.elements;
    w.m = r.m;
    w.k = r.k;
    w.n = r.n;
    w.path = r.path_ps;
    const auto [known, added] = works_.try_emplace(w, work_rows_ + 1);
    if (!added) return known->second;
    const std::int64_t row = ++work_rows_;
    if (works_.size() == kWorks) works_.clear();

    const bool queue = r.kind == OpKind::ipcq;
    int i = 0;
    const auto number = [&](std::int64_t cell) { bind(work_, ++i, cell); };
    const auto word = [&](const char* t) { bind(work_, ++i, t); };
    number(row);
    number(r.component);
    number(static_cast<std::int64_t>(r.name) + 1);
    number(some(r.pe, r.pe != kNoPe));
    number(some(r.op, r.op >= 0));
    word(w.label != 0 ? labels_[w.label - 1].c_str() : nullptr);
    word(r.role == TileRole::a ? "a" : r.role == TileRole::b ? "b" : r.role == TileRole::out ? "out" : nullptr);
    number(some(r.bytes, r.kind == OpKind::memory || queue));
    number(some(r.m, r.m != 0));
    number(some(r.k, r.k != 0));
    number(some(r.n, r.n != 0));
    number(some(r.elements, r.elements != 0));
    number(some(r.path_ps, r.path_ps != 0));
    number(some(r.peer, r.peer != kNoPe));
    word(queue ? name_of(r.arrives) : nullptr);
    step(work_);
    return row;
  }

  /// Counts the names of math operations from 1.
  std::uint32_t label(const std::string& kind) {
    const auto found = std::find(labels_.begin(), labels_.end(), kind);
    if (found != labels_.end()) return static_cast<std::uint32_t>(found - labels_.begin()) + 1;
    labels_.push_back(kind);
    return static_cast<std::uint32_t>(labels_.size());
  }

  /// Row of the record's command, which is written when the command is done.
  std::int64_t command_row(const OpRecord& r) {
    const Command& c = *r.command;
    if (r.name == OpName::command) {
      const bool planned = c.gemm_index() >= 0;
      Accepted a;
      a.row = ++command_rows_;
      a.at = r.t_end;
      a.block_m = some(r.block_m, planned);
      a.block_n = some(r.block_n, planned);
      a.m_outer = some(r.m_outer, planned);
      a.plan_bytes = some(r.plan_bytes, planned);
      rows_.add(r.pe, r.command, a);
      return a.row;
    }
    Accepted* const found = rows_.find(r.pe, c.id);
    if (found == nullptr) return 0;
    const std::int64_t row = found->row;
    if (r.name == OpName::command_done && !found->written) {
      found->written = true;
      write_command(r.pe, c, *found, r.t_end);
    }
    rows_.track(r);
    return row;
  }
  void write_command(std::uint32_t pe, const Command& c, const Accepted& a, std::int64_t done) {
    commands_.add(
        {a.row, pe, static_cast<std::int64_t>(c.id), static_cast<std::int64_t>(c.ops.size()),
         static_cast<std::int64_t>(c.logical_bytes()), a.block_m, a.block_n, a.m_outer, a.plan_bytes, a.at, done},
        name_of(c.kind), command_json(c));
  }
  /// All rows that wait, and the commands that are not done.
  void flush() {
    events_.flush();
    transfers_.flush();
    std::map<std::int64_t, std::pair<std::uint32_t, CommandPtr>> open;
    rows_.for_each([&](std::uint32_t pe, const CommandPtr& command, Accepted& a) {
      if (!a.written) open.emplace(a.row, std::make_pair(pe, command));
    });
    for (const auto& [row, command] : open) {
      Accepted& a = *rows_.find(command.first, command.second->id);
      a.written = true;
      write_command(command.first, *command.second, a, kNull);
    }
    commands_.flush();
  }

  void finalize() {
    events_.finalize();
    commands_.finalize();
    transfers_.finalize();
    for (sqlite3_stmt** s : {&work_, &component_}) sqlite3_finalize(std::exchange(*s, nullptr));
  }
  void close() {
    finalize();
    sqlite3_close(db_);
    db_ = nullptr;
  }

  std::string path_, part_;
  const ComponentTable& components_;
  TraceFilter filter_;
  sqlite3* db_ = nullptr;
  RowBatch events_{*this};
  RowBatch commands_{*this};
  RowBatch transfers_{*this};
  sqlite3_stmt* work_ = nullptr;
  sqlite3_stmt* component_ = nullptr;
  std::unordered_map<Work, std::int64_t, Work::Hash> works_;  // the latest, with their rows
  std::int64_t work_rows_ = 0;
  std::uint32_t paths_ = 0;
  std::vector<std::string> labels_;
  std::vector<char> covered_;  // by component: 0 no, 1 yes, 2 not yet seen
  CommandTracker<Accepted> rows_;
  std::int64_t command_rows_ = 0;
  std::uint64_t records_ = 0;
};

SqliteWriter::SqliteWriter(const std::string& path, const ComponentTable& components, TraceFilter filter)
    : impl_(std::make_unique<Impl>(path, components, std::move(filter))) {}
SqliteWriter::~SqliteWriter() = default;
void SqliteWriter::set_config(const std::vector<std::pair<std::string, std::string>>& items) {
  impl_->set_config(items);
}
void SqliteWriter::record(const OpRecord& r) {
  impl_->record(r);
}
std::uint32_t SqliteWriter::add_path(const Path& path) {
  return impl_->add_path(path);
}
void SqliteWriter::transfer(std::uint32_t path, std::uint64_t bytes, Ps begin, Ps end, Ps alone,
                            const std::vector<Ps>& parts) {
  impl_->transfer(path, bytes, begin, end, alone, parts);
}
void SqliteWriter::finish() {
  impl_->finish();
}
void SqliteWriter::abandon() noexcept {
  impl_->abandon();
}
std::uint64_t SqliteWriter::records() const {
  return impl_->records();
}

}  // namespace kb
