#include "sweep_store.h"

#include "files.h"

#include <kb/platform/version.h>
#include <kb/tlm_if/errors.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

namespace kb::cli {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

Json to_json(const std::vector<Setting>& settings) {
  Json map = Json::object();
  for (const auto& [key, value] : settings) map[key] = value;
  return map;
}

std::vector<Setting> settings_of(const Json& map) {
  std::vector<Setting> settings;
  for (const auto& [key, value] : map.items()) settings.emplace_back(key, value.get<std::string>());
  return settings;
}

Json to_json(const SweepSpec& spec) {
  Json points = Json::array();
  for (const auto& p : spec.points) points.push_back(to_json(p));
  return {{"bench", spec.bench},        {"mode", spec.mode}, {"seed", spec.seed}, {"topology", spec.topology},
          {"set", to_json(spec.fixed)}, {"keys", spec.keys}, {"points", points}};
}

SweepSpec spec_of(const Json& json) {
  SweepSpec spec;
  spec.bench = json.at("bench");
  spec.mode = json.at("mode");
  spec.seed = json.at("seed");
  spec.topology = json.at("topology");
  spec.fixed = settings_of(json.at("set"));
  spec.keys = json.at("keys").get<std::vector<std::string>>();
  for (const auto& p : json.at("points")) spec.points.push_back(settings_of(p));
  return spec;
}

/// FNV-1a.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

bool left_out(const std::string& key) {
  static const std::set<std::string> kKeys{"bench",   "params", "topology", "mode",   "seed",
                                           "version", "status", "message",  "wall_s", "sim"};
  return kKeys.count(key) > 0;
}

void flatten(const std::string& prefix, const Json& value, std::vector<std::pair<std::string, Json>>& out) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) flatten(prefix.empty() ? key : prefix + "." + key, child, out);
  } else if (!value.is_array() && !value.is_null()) {
    out.emplace_back(prefix, value);
  }
}

std::string csv_field(const Json& value) {
  const std::string text = value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// A value of a setting as the type that it looks like, so that tables can be sorted and plotted.
Json typed(const std::string& text) {
  const Json number = Json::parse(text, nullptr, false);
  return number.is_number() ? number : Json(text);
}

/// The database of a sweep, made anew.
class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    std::error_code ignored;
    fs::remove(path, ignored);
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) fail();
    execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
  }
  ~Database() {
    sqlite3_finalize(insert_);
    sqlite3_close(db_);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql) {
    if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  void prepare_insert(const std::string& table, std::size_t columns) {
    sqlite3_finalize(insert_);
    std::string sql = "INSERT INTO " + table + " VALUES (";
    for (std::size_t i = 0; i < columns; ++i) sql += i == 0 ? "?" : ",?";
    if (sqlite3_prepare_v2(db_, (sql + ")").c_str(), -1, &insert_, nullptr) != SQLITE_OK) fail();
  }
  void insert(const std::vector<Json>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) bind(static_cast<int>(i + 1), row[i]);
    if (sqlite3_step(insert_) != SQLITE_DONE) fail();
    sqlite3_reset(insert_);
    sqlite3_clear_bindings(insert_);
  }
  void finish() {
    sqlite3_finalize(insert_);
    insert_ = nullptr;
    execute("COMMIT");
    if (sqlite3_close(db_) != SQLITE_OK) fail();
    db_ = nullptr;
  }

 private:
  void bind(int at, const Json& value) {
    if (value.is_null())
      sqlite3_bind_null(insert_, at);
    else if (value.is_boolean() || value.is_number_integer())
      sqlite3_bind_int64(insert_, at, value.is_boolean() ? value.get<bool>() : value.get<std::int64_t>());
    else if (value.is_number())
      sqlite3_bind_double(insert_, at, value.get<double>());
    else
      sqlite3_bind_text(insert_, at, value.get_ref<const std::string&>().c_str(), -1, SQLITE_TRANSIENT);
  }
  [[noreturn]] void fail() { throw IoError(path_ + ": " + (db_ != nullptr ? sqlite3_errmsg(db_) : "out of memory")); }

  std::string path_;
  sqlite3* db_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
};

std::string quoted_name(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace

std::vector<std::pair<std::string, Json>> flat_metrics(const Json& summary) {
  std::vector<std::pair<std::string, Json>> metrics;
  if (!summary.is_object()) return metrics;
  for (const auto& [key, value] : summary.items())
    if (!left_out(key)) flatten(key, value, metrics);
  return metrics;
}

std::string PointRecord::status() const {
  switch (code) {
    case 0: return "done";
    case 1: return "wrong_result";
    case 2: return "bad_input";
    case 3: return "model_error";
    case 4: return "io_error";
    default: return "killed";
  }
}

SweepStore SweepStore::create(const std::string& dir, const SweepSpec& spec, bool resume) {
  const bool there = file_exists(dir + "/sweep.json");
  if (there && !resume)
    throw InputError(
        fmt::format("--out {}: found a sweep there; allowed: --resume to finish it, or another folder", dir));
  const SystemConfig machine = load_config(spec.topology);
  make_directories(dir + "/points");
  SweepStore store(dir, spec);
  store.lock();
  store.machine_ = dump_config(machine);
  write_atomically(dir + "/topology.yaml", store.machine_);
  write_atomically(dir + "/sweep.json", to_json(spec).dump(1) + "\n");
  for (const auto& entry : fs::directory_iterator(dir + "/points"))
    if (entry.path().extension() == ".part") fs::remove(entry.path());
  return store;
}

SweepStore SweepStore::open(const std::string& dir, bool exclusive) {
  const std::string path = dir + "/sweep.json";
  const Json json = Json::parse(read_file(path), nullptr, false);
  if (!json.is_object()) throw IoError(path + ": is not the description of a sweep");
  SweepStore store(dir, [&] {
    try {
      return spec_of(json);
    } catch (const nlohmann::json::exception& e) {
      throw IoError(path + ": is not the description of a sweep: " + e.what());
    }
  }());
  if (exclusive) store.lock();
  store.machine_ = read_file(dir + "/topology.yaml");
  return store;
}

SweepStore::SweepStore(SweepStore&& other) noexcept
    : dir_(std::move(other.dir_)),
      spec_(std::move(other.spec_)),
      machine_(std::move(other.machine_)),
      lock_(other.lock_) {
  other.lock_ = -1;
}

SweepStore::~SweepStore() {
  if (lock_ >= 0) close(lock_);
}

void SweepStore::lock() {
  lock_ = ::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw IoError(fmt::format("{}: cannot be opened: {}", dir_, std::strerror(errno)));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw InputError(fmt::format("{}: found another sweep at work there; allowed: one per folder", dir_));
}

std::vector<std::string> SweepStore::run_arguments(std::size_t index) const {
  std::vector<std::string> args{"run",      "--topology", "topology.yaml",
                                "--bench",  spec_.bench,  "--mode",
                                spec_.mode, "--seed",     std::to_string(spec_.seed),
                                "--log",    "off",        "--json"};
  for (const auto* settings : {&spec_.fixed, &spec_.points.at(index)})
    for (const auto& [key, value] : *settings) args.insert(args.end(), {"--set", key + "=" + value});
  return args;
}

std::string SweepStore::identity(std::size_t index) const {
  std::string text = std::string(version()) + '\0' + machine_;
  for (const auto& a : run_arguments(index)) text += '\0' + a;
  return fmt::format("{:016x}", hash_of(text));
}

std::string SweepStore::record_path(std::size_t index) const {
  return fmt::format("{}/points/{:06}.json", dir_, index);
}

std::optional<PointRecord> SweepStore::load(std::size_t index) const {
  const std::string path = record_path(index);
  if (!file_exists(path)) return std::nullopt;
  Json json = Json::parse(read_file(path), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  PointRecord r;
  r.index = index;
  r.identity = json.value("identity", "");
  if (r.identity != identity(index)) return std::nullopt;
  r.code = json.value("code", 128);
  r.settled = json.value("settled", false);
  r.error = json.value("error", "");
  r.summary = std::move(json["summary"]);
  return r;
}

void SweepStore::save(const PointRecord& r) const {
  const Json json{{"index", r.index},    {"identity", r.identity}, {"settings", to_json(spec_.points.at(r.index))},
                  {"code", r.code},      {"settled", r.settled},   {"error", r.error},
                  {"summary", r.summary}};
  write_atomically(record_path(r.index), json.dump() + "\n");
}

void SweepStore::write_results() const {
  // Once over the records for the columns, once more for the rows: memory does not grow with the sweep.
  std::vector<std::string> columns;
  std::set<std::string> known;
  for (std::size_t i = 0; i < size(); ++i)
    if (const auto r = load(i); r && r->has_result())
      for (const auto& [name, value] : flat_metrics(r->summary))
        if (known.insert(name).second) columns.push_back(name);

  std::vector<std::string> header{"index", "status"};
  header.insert(header.end(), spec_.keys.begin(), spec_.keys.end());
  header.insert(header.end(), columns.begin(), columns.end());
  header.emplace_back("error");

  const std::string csv_path = dir_ + "/results.csv", db_path = dir_ + "/results.sqlite";
  std::ofstream csv(csv_path + ".part", std::ios::binary | std::ios::trunc);
  Database db(db_path + ".part");
  std::string table = "CREATE TABLE points (";
  for (std::size_t c = 0; c < header.size(); ++c) {
    csv << (c == 0 ? "" : ",") << csv_field(header[c]);
    table += (c == 0 ? "" : ", ") + quoted_name(header[c]) + (c == 0 ? " INTEGER PRIMARY KEY" : "");
  }
  csv << '\n';
  db.execute("CREATE TABLE sweep (key TEXT PRIMARY KEY, value TEXT)");
  db.prepare_insert("sweep", 2);
  db.insert({"bench", spec_.bench});
  db.insert({"mode", spec_.mode});
  db.insert({"seed", std::to_string(spec_.seed)});
  for (const auto& [key, value] : spec_.fixed) db.insert({"set " + key, value});
  db.insert({"topology", machine_});
  db.execute(table + ")");
  db.prepare_insert("points", header.size());

  for (std::size_t i = 0; i < size(); ++i) {
    const auto r = load(i);
    std::vector<Json> row{i, r ? r->status() : "missing"};
    for (const auto& key : spec_.keys) {
      const auto& point = spec_.points[i];
      const auto at = std::find_if(point.begin(), point.end(), [&](const Setting& s) { return s.first == key; });
      row.push_back(at == point.end() ? Json() : typed(at->second));
    }
    std::map<std::string, Json> metrics;
    if (r && r->has_result())
      for (auto& [name, value] : flat_metrics(r->summary)) metrics[name] = value;
    for (const auto& name : columns) row.push_back(metrics[name]);
    row.push_back(r ? Json(r->error) : Json("no result was recorded"));
    for (std::size_t c = 0; c < row.size(); ++c) csv << (c == 0 ? "" : ",") << csv_field(row[c]);
    csv << '\n';
    db.insert(row);
  }
  csv.close();
  if (!csv) throw IoError(csv_path + ".part: cannot be written");
  db.finish();
  publish(csv_path);
  publish(db_path);
}

}  // namespace kb::cli
