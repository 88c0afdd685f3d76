#include <kb/traces/sqlite_writer.h>

#include <kb/tlm_if/errors.h>
#include <kb/traces/command_tracker.h>
#include <kb/traces/op_log_writer.h>

#include <sqlite3.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace kb {

namespace {

constexpr std::uint64_t kBatch = 1u << 16;  // records per transaction
constexpr std::size_t kColumns = 25;        // of the table records
constexpr std::size_t kRows = 8;            // records per statement: a fifth cheaper than one by one

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
CREATE TABLE records (
  id INTEGER PRIMARY KEY, t_start_ps INTEGER, t_end_ps INTEGER, component INTEGER, number INTEGER, op_name INTEGER,
  command INTEGER, pe INTEGER, op INTEGER, label TEXT, role TEXT, tile_m INTEGER, tile_n INTEGER, tile_k INTEGER,
  address INTEGER, bytes INTEGER, m INTEGER, k INTEGER, n INTEGER, elements INTEGER, ready_ps INTEGER, path_ps INTEGER,
  message INTEGER, peer INTEGER, arrives TEXT);

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
CREATE INDEX records_by_command ON records (command);
CREATE INDEX commands_by_pe ON commands (pe, number);
)sql";

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
      insert_ = prepare(insert_sql(1).c_str());
      insert_rows_ = prepare(insert_sql(kRows).c_str());
      command_ = prepare("INSERT INTO commands VALUES (?,?,?,?,?,?,?,?,?,?,?,NULL,?)");
      done_ = prepare("UPDATE commands SET done_ps = ? WHERE id = ?");
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

    Row& row = waiting_rows_[waiting_];
    row.command = r.command;
    std::size_t i = 0;
    const auto value = [&](bool present, std::int64_t v) {
      row.cells[i++] = {present ? Cell::number : Cell::null, v, nullptr};
    };
    const auto word = [&](const char* w) { row.cells[i++] = {w != nullptr ? Cell::word : Cell::null, 0, w}; };
    const bool op = r.command && r.op >= 0 && static_cast<std::size_t>(r.op) < r.command->ops.size();
    const bool queue = r.kind == OpKind::ipcq, memory = r.kind == OpKind::memory;
    value(true, static_cast<std::int64_t>(++records_));
    value(true, r.t_start);
    value(true, r.t_end);
    value(true, r.component);
    value(true, static_cast<std::int64_t>(r.number));
    value(true, static_cast<std::int64_t>(r.name) + 1);
    value(command != 0, command);
    value(r.pe != kNoPe, r.pe);
    value(r.op >= 0, r.op);
    word(r.name == OpName::math && op ? r.command->ops[static_cast<std::size_t>(r.op)].kind.c_str() : nullptr);
    word(r.role == TileRole::a ? "a" : r.role == TileRole::b ? "b" : r.role == TileRole::out ? "out" : nullptr);
    value(r.tile_m >= 0, r.tile_m);
    value(r.tile_n >= 0, r.tile_n);
    value(r.tile_k >= 0, r.tile_k);
    value(memory && r.name != OpName::fetch && r.name != OpName::store, static_cast<std::int64_t>(r.address));
    value(memory || queue, static_cast<std::int64_t>(r.bytes));
    value(r.m != 0, r.m);
    value(r.k != 0, r.k);
    value(r.n != 0, r.n);
    value(r.elements != 0, static_cast<std::int64_t>(r.elements));
    value(r.t_ready >= 0, r.t_ready);
    value(r.path_ps != 0, r.path_ps);
    value(queue, static_cast<std::int64_t>(r.message));
    value(r.peer != kNoPe, r.peer);
    word(queue ? name_of(r.arrives) : nullptr);
    if (++waiting_ == kRows) insert(insert_rows_, 0, kRows);
    if (records_ % kBatch == 0) run("COMMIT; BEGIN");
  }

  void finish() {
    if (!db_) return;
    insert_rest();
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
      insert_rest();
    } catch (const IoError&) {
      // What was committed before stays.
    }
    sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr);  // there may be nothing to commit after an error
    close();
  }

  std::uint64_t records() const { return records_; }

 private:
  struct Cell {
    enum Kind : std::uint8_t { null, number, word } kind = null;
    std::int64_t value = 0;
    const char* text = nullptr;
  };
  struct Row {
    std::array<Cell, kColumns> cells;
    CommandPtr command;  // owns the label
  };

  static std::string insert_sql(std::size_t rows) {
    std::string row = "(?";
    for (std::size_t i = 1; i < kColumns; ++i) row += ",?";
    std::string sql = "INSERT INTO records VALUES " + row + ")";
    for (std::size_t i = 1; i < rows; ++i) sql += "," + row + ")";
    return sql;
  }

  /// `count` of the rows that wait, from `first` on, by one step of a statement that has room for so many.
  void insert(sqlite3_stmt* s, std::size_t first, std::size_t count) {
    int i = 0;
    for (std::size_t r = first; r < first + count; ++r)
      for (const Cell& c : waiting_rows_[r].cells) {
        ++i;
        switch (c.kind) {
          case Cell::null: sqlite3_bind_null(s, i); break;
          case Cell::number: sqlite3_bind_int64(s, i, c.value); break;
          case Cell::word: sqlite3_bind_text(s, i, c.text, -1, SQLITE_STATIC); break;
        }
      }
    if (first + count == waiting_) waiting_ = 0;
    step(s);
  }
  void insert_rest() {
    for (std::size_t i = 0, n = waiting_; i < n; ++i) insert(insert_, i, 1);
  }

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

  void write_names() {
    run("INSERT INTO meta VALUES ('schema_version', '1')");
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

  /// Row of the record's command; written at its `command` record, completed at its `command_done`.
  std::int64_t command_row(const OpRecord& r) {
    const Command& c = *r.command;
    if (r.name == OpName::command) {
      const std::int64_t row = ++commands_;
      rows_.add(r.pe, r.command, row);
      sqlite3_stmt* s = command_;
      const bool planned = c.gemm_index() >= 0;
      sqlite3_bind_int64(s, 1, row);
      sqlite3_bind_int64(s, 2, r.pe);
      sqlite3_bind_int64(s, 3, static_cast<std::int64_t>(c.id));
      sqlite3_bind_text(s, 4, name_of(c.kind), -1, SQLITE_STATIC);
      sqlite3_bind_int64(s, 5, static_cast<std::int64_t>(c.ops.size()));
      sqlite3_bind_int64(s, 6, c.logical_bytes());
      const std::int64_t plan[] = {r.block_m, r.block_n, r.m_outer, static_cast<std::int64_t>(r.plan_bytes)};
      for (int i = 0; i < 4; ++i) {
        if (planned)
          sqlite3_bind_int64(s, 7 + i, plan[i]);
        else
          sqlite3_bind_null(s, 7 + i);
      }
      sqlite3_bind_int64(s, 11, r.t_end);
      text(s, 12, command_json(c));
      step(s);
      return row;
    }
    const std::int64_t* found = rows_.find(r.pe, c.id);
    if (found == nullptr) return 0;
    const std::int64_t row = *found;
    if (r.name == OpName::command_done) {
      sqlite3_bind_int64(done_, 1, r.t_end);
      sqlite3_bind_int64(done_, 2, row);
      step(done_);
    }
    rows_.track(r);
    return row;
  }

  void finalize() {
    for (sqlite3_stmt** s : {&insert_, &insert_rows_, &command_, &done_, &component_}) {
      sqlite3_finalize(*s);
      *s = nullptr;
    }
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
  sqlite3_stmt* insert_ = nullptr;
  sqlite3_stmt* insert_rows_ = nullptr;
  sqlite3_stmt* command_ = nullptr;
  sqlite3_stmt* done_ = nullptr;
  sqlite3_stmt* component_ = nullptr;
  std::array<Row, kRows> waiting_rows_;
  std::size_t waiting_ = 0;
  std::vector<char> covered_;  // by component: 0 no, 1 yes, 2 not yet seen
  CommandTracker<std::int64_t> rows_;
  std::int64_t commands_ = 0;
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
