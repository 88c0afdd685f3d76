// The database: what went in comes out, the views answer, and a full disk leaves whole batches.
#include "trace_support.h"

#include <kb/tlm_if/errors.h>
#include <kb/traces/op_log_writer.h>
#include <kb/traces/sqlite_writer.h>

#include <boost/test/unit_test.hpp>

#include <sqlite3.h>
#include <sys/resource.h>

#include <csignal>

using namespace kb;
using namespace kb::test;

namespace {

/// Rows of a query as text, columns joined by '|', NULL as "-".
std::vector<std::string> query(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  BOOST_REQUIRE_EQUAL(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* s = nullptr;
  BOOST_REQUIRE_MESSAGE(sqlite3_prepare_v2(db, sql.c_str(), -1, &s, nullptr) == SQLITE_OK, sqlite3_errmsg(db));
  std::vector<std::string> rows;
  while (sqlite3_step(s) == SQLITE_ROW) {
    std::string row;
    for (int i = 0; i < sqlite3_column_count(s); ++i) {
      const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(s, i));
      row += (i > 0 ? "|" : "") + std::string(t ? t : "-");
    }
    rows.push_back(row);
  }
  sqlite3_finalize(s);
  sqlite3_close(db);
  return rows;
}

struct Files {
  TempDir dir;
  ComponentTable components = rich_components();
  std::vector<OpRecord> records = rich_records();
};

using Rows = std::vector<std::string>;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite, Files)

BOOST_AUTO_TEST_CASE(records_commands_and_configuration_are_there) {
  const std::string path = dir / "trace.sqlite";
  {
    SqliteWriter writer(path, components);
    writer.set_config({{"pe.clock_ghz", "1"}, {"sip.cubes", "[4, 4]"}});
    for (const auto& r : records) writer.record(r);
    BOOST_CHECK_EQUAL(writer.records(), records.size());
    writer.finish();
  }
  BOOST_CHECK(!exists(path + ".part"));
  BOOST_CHECK((query(path, "SELECT * FROM config ORDER BY key") == Rows{"pe.clock_ghz|1", "sip.cubes|[4, 4]"}));
  BOOST_CHECK((query(path, "SELECT value FROM meta") == Rows{"2"}));
  BOOST_CHECK((query(path, "SELECT count(*) FROM records") == Rows{std::to_string(records.size())}));
  BOOST_CHECK((query(path, "SELECT kind, group_concat(name) FROM op_names GROUP BY kind ORDER BY kind") ==
               Rows{"control|command,command_done,launch,launch_done", "gemm|gemm", "ipcq|send,recv,slot_write,credit",
                    "math|math", "memory|dma_read,dma_write,fetch,store,mem_read,mem_write"}));
  BOOST_CHECK((query(path,
                     "SELECT pe, number, kind, ops, logical_bytes, block_m, block_n, m_outer, accepted_ps, done_ps "
                     "FROM commands") ==
               Rows{"3|1|composite|3|" + std::to_string(records[1].command->logical_bytes()) + "|3|2|0|2002|14014",
                    "3|2|ipcq_send|1|" + std::to_string(records[12].command->logical_bytes()) + "|-|-|-|13013|15015"}));
  BOOST_CHECK((query(path, "SELECT spec FROM commands WHERE id = 1") == Rows{command_json(*records[1].command)}));
  BOOST_CHECK((query(path,
                     "SELECT t_start_ps, t_end_ps, component, number, command, pe, op, label, role, tile_m, tile_n, "
                     "tile_k, address, "
                     "bytes, m, ready_ps, path_ps, message FROM records WHERE id = 3") ==
               Rows{"2002|3003|0|2|1|3|1|-|a|2|-|2147483647|-1|4096|-|0|75001|-"}));
  BOOST_CHECK(
      (query(path, "SELECT component, op_kind, op_name, label, command, role, m FROM log WHERE id IN (7, 8)") ==
       Rows{"tray.sip0.cube0.pe0.gemm|gemm|gemm|gemm|1|-|4", "tray.sip0.cube0.pe0.math|math|math|scale|1|-|-"}));
  BOOST_CHECK((query(path, "SELECT name FROM components ORDER BY id") ==
               Rows{"tray.sip0.cube0.pe0.dma", "tray.sip0.cube0.pe0.gemm", "tray.sip0.cube0.pe0.math",
                    "tray.sip0.cube0.pe0.ipcq", "tray.host"}));
  BOOST_CHECK((
      query(
          path,
          "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE '%\\_by\\_%' ESCAPE '\\' ORDER BY name") ==
      Rows{"commands_by_pe", "events_by_command"}));
  BOOST_CHECK((query(path, "PRAGMA integrity_check") == Rows{"ok"}));
}

BOOST_AUTO_TEST_CASE(the_views_answer_their_questions) {
  const std::string path = dir / "trace.sqlite";
  SqliteWriter writer(path, components);
  std::uint64_t number = 0;
  const auto add = [&](OpName name, OpKind kind, std::uint32_t component, Ps start, Ps end, const CommandPtr& c) {
    OpRecord r;
    r.name = name;
    r.kind = kind;
    r.component = component;
    r.t_start = start;
    r.t_end = end;
    r.number = number++;
    r.command = c;
    r.pe = 0;
    r.path_ps = 1000;
    if (name == OpName::gemm) r.t_ready = start - 500;
    if (kind == OpKind::ipcq) {
      r.peer = 1;
      r.arrives = Direction::W;
      r.pe = name == OpName::credit ? 1 : 0;
    }
    writer.record(r);
  };
  const CommandPtr a = rich_command(1), b = rich_command(2),
                   send = queue_command(3, CommandKind::ipcq_send, Direction::E);
  add(OpName::command, OpKind::control, 8, 0, 0, a);
  add(OpName::command, OpKind::control, 8, 0, 1000, b);
  add(OpName::gemm, OpKind::gemm, 2, 1000, 3000, a);
  add(OpName::gemm, OpKind::gemm, 2, 3000, 4000, b);
  add(OpName::command_done, OpKind::control, 8, 4500, 4500, b);
  add(OpName::slot_write, OpKind::ipcq, 6, 4000, 5000, send);
  add(OpName::slot_write, OpKind::ipcq, 6, 5000, 6000, send);
  add(OpName::credit, OpKind::ipcq, 6, 6000, 7000, send);
  add(OpName::command_done, OpKind::control, 8, 10000, 10000, a);
  writer.finish();
  BOOST_CHECK((query(path, "SELECT * FROM engine_use WHERE op_name = 'gemm'") ==
               Rows{"tray.sip0.cube0.pe0.gemm|gemm|2|3.0|0.3|0.5|-"}));
  BOOST_CHECK((query(path, "SELECT number, took_ns FROM slowest_commands") == Rows{"1|10.0", "2|3.5"}));
  BOOST_CHECK((query(path, "SELECT time_ns FROM command_time WHERE number = 1 AND label = 'gemm'") == Rows{"2.0"}));
  BOOST_CHECK(
      (query(path, "SELECT delayed, delay_ns, worst_ns FROM contention WHERE op_name = 'gemm'") == Rows{"1|1.0|1.0"}));
  BOOST_CHECK((query(path, "SELECT * FROM queue_occupancy") == Rows{"1|W|5.0|1", "1|W|6.0|1", "1|W|6.0|0"} ||
               query(path, "SELECT * FROM queue_occupancy") == Rows{"1|W|5.0|1", "1|W|6.0|0", "1|W|6.0|1"}));
}

BOOST_AUTO_TEST_CASE(transfers_are_split_along_their_path) {
  const std::string path = dir / "trace.sqlite";
  SqliteWriter writer(path, components);
  SqliteWriter::Path p{false, "tray.sip0.cube0.pe0", "tray.sip0.cube0.hbm0", {}};
  p.parts = {{"request", "tray.sip0.cube0.pe0", "tray.sip0.cube0.pe0->sip0.cube0.r0c0", 128, 1000},
             {"memory", "tray.sip0.cube0.hbm0", "", 0, 0},
             {"data", "tray.sip0.cube0.hbm0", "tray.sip0.cube0.hbm0->sip0.cube0.pe0", 256, 500}};
  const std::uint32_t read = writer.add_path(p);
  for (Ps i = 0; i < 100; ++i)
    writer.transfer(read, 4096, i * 100000, i * 100000 + 21500 + i, 21500, {1000, 20000, 500 + i});
  writer.finish();
  BOOST_CHECK(
      (query(path, "SELECT stage, component, link, transfers, mean_ns, least_ns, most_ns, fixed_ns FROM hop_latency") ==
       Rows{"request|tray.sip0.cube0.pe0|tray.sip0.cube0.pe0->sip0.cube0.r0c0|100|1.0|1.0|1.0|1.0",
            "memory|tray.sip0.cube0.hbm0|-|100|20.0|20.0|20.0|0.0",
            "data|tray.sip0.cube0.hbm0|tray.sip0.cube0.hbm0->sip0.cube0.pe0|100|0.5495|0.5|0.599|0.5"}));
  BOOST_CHECK(
      (query(path, "SELECT transfer, took_ns, delay_ns FROM slowest_transfers LIMIT 1") == Rows{"100|21.599|0.099"}));
  BOOST_CHECK(
      (query(path, "SELECT group_concat(time_ps) FROM transfer_parts WHERE transfer = 100") == Rows{"1000,20000,599"}));
  BOOST_CHECK((query(path,
                     "SELECT count(*) FROM transfers t WHERE end_ps - begin_ps <> "
                     "(SELECT sum(time_ps) FROM transfer_parts p WHERE p.transfer = t.id)") == Rows{"0"}));

  TraceFilter filter;
  filter.scope = "*.pe1.*";
  SqliteWriter other(dir / "other.sqlite", components, filter);
  BOOST_CHECK_EQUAL(other.add_path(p), 0u);
  other.transfer(0, 4096, 0, 21500, 21500, {1000, 20000, 500});
  other.finish();
  BOOST_CHECK((query(dir / "other.sqlite", "SELECT count(*) FROM transfers") == Rows{"0"}));
}

BOOST_AUTO_TEST_CASE(scope_and_window_choose_records_and_keep_commands) {
  TraceFilter filter;
  filter.scope = "*.gemm";
  SqliteWriter writer(dir / "trace.sqlite", components, filter);
  for (const auto& r : records) writer.record(r);
  writer.finish();
  BOOST_CHECK((query(dir / "trace.sqlite", "SELECT label FROM log") == Rows{"gemm"}));
  BOOST_CHECK((query(dir / "trace.sqlite", "SELECT count(*) FROM commands WHERE done_ps IS NOT NULL") == Rows{"2"}));
}

BOOST_AUTO_TEST_CASE(an_unfinished_database_stays_readable) {
  {
    SqliteWriter writer(dir / "trace.sqlite", components);
    for (const auto& r : records) writer.record(r);
  }
  BOOST_CHECK(!exists(dir / "trace.sqlite"));
  BOOST_CHECK((query(dir / "trace.sqlite.part", "SELECT count(*) FROM log") == Rows{std::to_string(records.size())}));
  BOOST_CHECK_THROW(SqliteWriter(dir / "no/such.sqlite", components), IoError);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_reported_and_leaves_whole_batches) {
  struct rlimit old;
  BOOST_REQUIRE_EQUAL(getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 16000000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  BOOST_REQUIRE_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  {
    SqliteWriter writer(dir / "trace.sqlite", components);
    try {
      for (int i = 0; i < 1000000; ++i) writer.record(records[0]);
      writer.finish();
    } catch (const IoError& e) {
      message = e.what();
    }
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  BOOST_CHECK_MESSAGE(message.find("trace.sqlite.part: cannot write: ") != std::string::npos, message);
  const auto count = query(dir / "trace.sqlite.part", "SELECT count(*) FROM records");
  BOOST_REQUIRE_EQUAL(count.size(), 1u);
  BOOST_CHECK_GE(std::stoll(count[0]), 65536);
  BOOST_CHECK((query(dir / "trace.sqlite.part", "PRAGMA integrity_check") == Rows{"ok"}));
}

BOOST_AUTO_TEST_SUITE_END()
