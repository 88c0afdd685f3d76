// The op log: written, read back, and found out when somebody changed it.
#include "trace_support.h"

#include <kb/tlm_if/errors.h>
#include <kb/traces/op_log_reader.h>
#include <kb/traces/op_log_writer.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <csignal>

using namespace kb;
using namespace kb::test;

namespace {

void check_equal(const TensorHandle& x, const TensorHandle& y) {
  BOOST_CHECK_EQUAL(x.id, y.id);
  BOOST_CHECK(x.shape == y.shape);
  BOOST_CHECK(x.strides == y.strides);
  BOOST_CHECK(x.dtype == y.dtype && x.space == y.space && x.pinned == y.pinned && x.addr == y.addr);
}

void check_equal(const Command& x, const Command& y) {
  BOOST_CHECK(x.kind == y.kind && x.id == y.id && x.direction == y.direction && x.split == y.split &&
              x.consume == y.consume);
  BOOST_REQUIRE_EQUAL(x.ops.size(), y.ops.size());
  for (std::size_t i = 0; i < x.ops.size(); ++i) {
    const OpSpec &p = x.ops[i], &q = y.ops[i];
    BOOST_CHECK_EQUAL(p.kind, q.kind);
    BOOST_CHECK(p.scope == q.scope && p.has_out == q.has_out && p.trans_a == q.trans_a && p.trans_b == q.trans_b);
    if (p.has_out) check_equal(p.out, q.out);
    BOOST_REQUIRE_EQUAL(p.operands.size(), q.operands.size());
    for (std::size_t j = 0; j < p.operands.size(); ++j) {
      BOOST_CHECK_EQUAL(p.operands[j].name, q.operands[j].name);
      check_equal(p.operands[j].handle, q.operands[j].handle);
    }
    BOOST_REQUIRE_EQUAL(p.extra.size(), q.extra.size());
    for (std::size_t j = 0; j < p.extra.size(); ++j) {
      BOOST_CHECK_EQUAL(p.extra[j].name, q.extra[j].name);
      BOOST_CHECK_EQUAL(std::memcmp(&p.extra[j].value, &q.extra[j].value, sizeof(double)), 0);
    }
    BOOST_CHECK_EQUAL(p.logical_bytes(), q.logical_bytes());
  }
  BOOST_REQUIRE_EQUAL(x.rw_handles.size(), y.rw_handles.size());
  for (std::size_t i = 0; i < x.rw_handles.size(); ++i) check_equal(x.rw_handles[i], y.rw_handles[i]);
}

void check_equal(const OpRecord& x, const OpRecord& y) {
  BOOST_TEST_CONTEXT("record " << name_of(x.name) << " #" << x.number) {
    BOOST_CHECK(x.t_start == y.t_start && x.t_end == y.t_end && x.t_ready == y.t_ready && x.path_ps == y.path_ps);
    BOOST_CHECK(x.component == y.component && x.number == y.number && x.kind == y.kind && x.name == y.name);
    BOOST_CHECK(x.role == y.role && x.op == y.op && x.pe == y.pe);
    BOOST_CHECK(x.tile_m == y.tile_m && x.tile_n == y.tile_n && x.tile_k == y.tile_k);
    BOOST_CHECK(x.address == y.address && x.bytes == y.bytes && x.m == y.m && x.k == y.k && x.n == y.n);
    BOOST_CHECK(x.elements == y.elements && x.message == y.message && x.peer == y.peer && x.arrives == y.arrives);
    BOOST_CHECK(x.block_m == y.block_m && x.block_n == y.block_n && x.m_outer == y.m_outer &&
                x.plan_bytes == y.plan_bytes);
    BOOST_REQUIRE_EQUAL(x.command == nullptr, y.command == nullptr);
    if (x.command) check_equal(*x.command, *y.command);
  }
}

struct Files {
  TempDir dir;
  ComponentTable components = rich_components();
  std::vector<OpRecord> records = rich_records();

  std::uint64_t write(const std::string& path, const std::vector<OpRecord>& list) {
    OpLogWriter writer(path, components);
    for (const auto& r : list) writer.record(r);
    BOOST_CHECK_EQUAL(writer.records(), list.size());
    writer.finish();
    return writer.hash();
  }
  std::vector<OpRecord> read(const std::string& path) {
    OpLogReader reader(path);
    std::vector<OpRecord> list;
    for (OpRecord r; reader.next(r);) list.push_back(r);
    return list;
  }
  void refused(const std::string& text, const std::string& part) {
    const std::string path = dir / "bad.jsonl";
    spit(path, text);
    BOOST_CHECK_EXCEPTION(read(path), InputError, [&](const InputError& e) {
      BOOST_CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos,
                          "expected '" << part << "' in '" << e.what() << "'");
      BOOST_CHECK_EQUAL(std::string(e.what()).rfind(path + ":", 0), 0u);
      return true;
    });
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(op_log, Files)

BOOST_AUTO_TEST_CASE(every_field_survives_the_round_trip) {
  const std::uint64_t hash = write(dir / "op_log.jsonl", records);
  OpLogReader reader(dir / "op_log.jsonl");
  std::vector<OpRecord> back;
  for (OpRecord r; reader.next(r);) back.push_back(r);
  BOOST_REQUIRE_EQUAL(back.size(), records.size());
  for (std::size_t i = 0; i < back.size(); ++i) check_equal(records[i], back[i]);
  BOOST_CHECK_EQUAL(reader.hash(), hash);
  BOOST_CHECK_EQUAL(reader.records(), records.size());
  for (const auto& r : records) BOOST_CHECK_EQUAL(reader.components().name(r.component), components.name(r.component));
  // Records of one command share it.
  BOOST_CHECK(back[1].command == back[2].command);
  BOOST_CHECK(!exists(dir / "op_log.jsonl.part"));
}

BOOST_AUTO_TEST_CASE(lines_are_json_with_the_specified_keys) {
  write(dir / "op_log.jsonl", records);
  std::istringstream lines(slurp(dir / "op_log.jsonl"));
  std::string line;
  std::size_t n = 0;
  const std::vector<std::string> keys{"t_start_ns", "t_end_ns", "component", "op_kind",
                                      "op_name",    "command",  "tile",      "params"};
  while (std::getline(lines, line)) {
    const auto json = nlohmann::ordered_json::parse(line);
    std::vector<std::string> found;
    for (const auto& item : json.items()) found.push_back(item.key());
    BOOST_CHECK(found == keys);
    BOOST_CHECK_EQUAL(json["component"], components.name(records[n].component));
    BOOST_CHECK_EQUAL(json["op_name"], name_of(records[n].name));
    BOOST_CHECK_EQUAL(json["params"].contains("message"), json["op_name"] == "send" || json["op_name"] == "recv");
    BOOST_CHECK_CLOSE(json["t_end_ns"].get<double>(), ns_from_ps(records[n].t_end), 1e-9);
    ++n;
  }
  BOOST_CHECK_EQUAL(n, records.size());
}

BOOST_AUTO_TEST_CASE(the_text_is_fixed) {
  write(dir / "op_log.jsonl", {records[0], records[1], records[2], records[6], records[7]});
  BOOST_CHECK_EQUAL(
      slurp(dir / "op_log.jsonl"),
      R"({"t_start_ns":0.000,"t_end_ns":1.001,"component":"tray.host","op_kind":"control","op_name":"launch","command":null,"tile":null,"params":{"index":8,"number":0}})"
      "\n"
      R"({"t_start_ns":1.001,"t_end_ns":2.002,"component":"tray.host","op_kind":"control","op_name":"command","command":1,"tile":null,"params":{"index":8,"number":1,"pe":3,"block_m":3,"block_n":2,"m_outer":false,"plan_bytes":9223372036854775808,"spec":{"kind":"composite","id":1,"ops":[)"
      R"({"kind":"full","scope":"kernel","extra":{"value":"-inf","third":0.3333333333333333,"minus_zero":-0},"out":{"id":1,"shape":[4,8],"dtype":"f32","space":"tcm","addr":64,"pinned":true}},)"
      R"({"kind":"gemm","scope":"kernel","operands":{"a":{"id":2,"shape":[4,8],"strides":[1,4],"dtype":"f16","space":"tcm","addr":4096,"pinned":true},"b":{"id":3,"shape":[4,8],"dtype":"f16","space":"hbm","addr":1125899906842624,"pinned":false}},"extra":{"m":4,"k":8,"n":4},"out":{"id":4,"shape":[4,4],"dtype":"bf16","space":"hbm","addr":12345678,"pinned":false},"trans_b":true},)"
      R"({"kind":"scale","scope":"output_tile","extra":{"factor":0.08838834764831845}}],"rw_handles":[{"id":5,"shape":[],"dtype":"i32","space":"sram","addr":0,"pinned":false},{"id":6,"shape":[0,3],"dtype":"i8","space":"tcm","addr":7,"pinned":true}]}}})"
      "\n"
      R"({"t_start_ns":2.002,"t_end_ns":3.003,"component":"tray.sip0.cube0.pe0.dma","op_kind":"memory","op_name":"dma_read","command":1,"tile":[2,-1,2147483647],"params":{"index":0,"number":2,"pe":3,"op":1,"role":"a","address":18446744073709551615,"bytes":4096,"ready_ns":0.000,"path_ns":75.001}})"
      "\n"
      R"({"t_start_ns":6.006,"t_end_ns":7.007,"component":"tray.sip0.cube0.pe0.gemm","op_kind":"gemm","op_name":"gemm","command":1,"tile":[0,0,0],"params":{"index":2,"number":6,"pe":3,"op":1,"m":4,"k":8,"n":4}})"
      "\n"
      R"({"t_start_ns":7.007,"t_end_ns":8.008,"component":"tray.sip0.cube0.pe0.math","op_kind":"math","op_name":"math","command":1,"tile":null,"params":{"index":4,"number":7,"pe":3,"op":2,"elements":16}})"
      "\n");
}

BOOST_AUTO_TEST_CASE(the_hash_sees_every_change_of_a_byte) {
  const std::uint64_t hash = write(dir / "op_log.jsonl", records);
  const std::string text = slurp(dir / "op_log.jsonl");
  std::size_t unseen = 0;
  for (std::size_t i = 0; i < text.size(); i += 7) {
    std::uint64_t h = kOpLogHashStart;
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    for (std::size_t begin = 0; begin < changed.size();) {
      const auto stop = std::min(changed.find('\n', begin), changed.size() - 1);
      h = op_log_hash(h, changed.data() + begin, stop + 1 - begin);
      begin = stop + 1;
    }
    unseen += h == hash;
  }
  BOOST_CHECK_EQUAL(unseen, 0u);
}

BOOST_AUTO_TEST_CASE(a_log_in_progress_has_another_name) {
  {
    OpLogWriter writer(dir / "op_log.jsonl", components);
    writer.record(records[0]);
    BOOST_CHECK(!exists(dir / "op_log.jsonl"));
  }
  BOOST_CHECK(!exists(dir / "op_log.jsonl"));
  BOOST_CHECK_EQUAL(read(dir / "op_log.jsonl.part").size(), 1u);
  BOOST_CHECK_THROW(OpLogWriter(dir / "no/such/dir.jsonl", components), IoError);
  BOOST_CHECK_THROW(OpLogReader(dir / "none.jsonl"), IoError);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_reported_and_leaves_whole_lines) {
  // A limit on the size of files stands for the end of the disk.
  struct rlimit old;
  BOOST_REQUIRE_EQUAL(getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 1500000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  BOOST_REQUIRE_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  std::uint64_t written = 0;
  try {
    OpLogWriter writer(dir / "op_log.jsonl", components);
    for (int i = 0; i < 100000; ++i, ++written) writer.record(records[0]);
    writer.finish();
  } catch (const IoError& e) {
    message = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  BOOST_CHECK_MESSAGE(message.find("op_log.jsonl.part: cannot write: ") != std::string::npos, message);
  const auto back = read(dir / "op_log.jsonl.part");
  BOOST_CHECK_GT(back.size(), 9000u);
  BOOST_CHECK_LT(back.size(), written);
}

BOOST_AUTO_TEST_CASE(a_bad_line_is_named) {
  write(dir / "op_log.jsonl", {records[0], records[1], records[6]});
  const std::string good = slurp(dir / "op_log.jsonl");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.rfind(from);
    BOOST_REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  refused(good.substr(0, good.size() - 1), ":3: found a last line without its end");
  refused("{}\n", "missing keys");
  refused("\n", ":1:1: found the end of the line; allowed: '{'");
  refused(with("\"t_end_ns\":7.007", "\"t_end_ns\":7.07"), "a time in ns with three decimals");
  refused(with("\"t_end_ns\":7.007", "\"t_end_ns\":7.0071"), "a time in ns with three decimals");
  refused(with("\"op_name\":\"gemm\"", "\"op_name\":\"gem\""), "op_name: found \"gem\"; allowed: dma_read, dma_write");
  refused(with("\"tile\":[0,0,0]", "\"tile\":[0,0]"), "allowed: ','");
  refused(with("\"m\":4", "\"q\":4"), "key \"q\"");
  refused(with("\"m\":4", "\"m\":4.5"), "a whole number of 64 bits");
  refused(with("\"pe\":3,\"op\"", "\"pe\":4,\"op\""), ":3:");
  refused(with("\"command\":1,\"tile\":[", "\"command\":2,\"tile\":["), "command: found 2; allowed: a command of PE 3");
  refused(with("\"component\":\"tray.sip0.cube0.pe0.gemm\"", "\"component\":\"tray.host\",\"component\":\"x\""),
          "key \"component\" twice");
  refused(with("\"index\":2", "\"index\":8"), "the name of index 8");
  refused(with("}}\n", "}} x\n"), "allowed: the end of the line");
  refused(with("\"dtype\":\"bf16\"", "\"dtype\":\"b16\""), "dtype: found \"b16\"; allowed: f16, bf16");
  refused(with(",\"strides\":[1,4]", ",\"strides\":[1]"), "strides: found 1; allowed: 2");
  refused(with("\"id\":1,\"ops\"", "\"id\":9,\"ops\""), "spec: found command 9; allowed: 1");
}

BOOST_AUTO_TEST_CASE(memory_for_commands_is_bounded_and_late_records_find_theirs) {
  std::vector<OpRecord> list;
  std::uint64_t number = 0;
  const auto add = [&](OpName name, OpKind kind, const CommandPtr& c, std::uint32_t pe) {
    OpRecord r;
    r.name = name;
    r.kind = kind;
    r.command = c;
    r.pe = pe;
    r.number = number++;
    list.push_back(r);
  };
  // A send of PE 1 whose value leaves after a thousand other commands; a response that comes after its command.
  const CommandPtr send = queue_command(1, CommandKind::ipcq_send, Direction::E);
  add(OpName::command, OpKind::control, send, 1);
  add(OpName::command_done, OpKind::control, send, 1);
  for (CommandId id = 2; id < 1000; ++id) {
    const CommandPtr c = rich_command(id);
    add(OpName::command, OpKind::control, c, 1);
    add(OpName::command_done, OpKind::control, c, 1);
    if (id == 500) add(OpName::mem_read, OpKind::memory, list[list.size() - 20].command, 1);
  }
  add(OpName::send, OpKind::ipcq, send, 1);
  add(OpName::credit, OpKind::ipcq, send, 1);
  write(dir / "op_log.jsonl", list);
  const auto back = read(dir / "op_log.jsonl");
  BOOST_REQUIRE_EQUAL(back.size(), list.size());
  BOOST_CHECK(back.back().command == back.front().command);
}

BOOST_AUTO_TEST_SUITE_END()
