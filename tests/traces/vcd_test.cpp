// The waveform, parsed back: time ascends, and every signal is what the records say.
#include "trace_support.h"

#include <kb/tlm_if/errors.h>
#include <kb/traces/vcd_writer.h>

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>
#include <set>

using namespace kb;
using namespace kb::test;

namespace {

/// A VCD file read by its own rules. Values as text: "0", "1", "b101" as decimal, strings without the s.
struct Waveform {
  std::map<std::string, std::vector<std::pair<Ps, std::string>>> signals;  // by full name, the initial value first
  std::size_t changes = 0;
  Ps last = -1;

  explicit Waveform(const std::string& path) {
    std::ifstream in(path);
    BOOST_REQUIRE(in.good());
    std::map<std::string, std::string> names;
    std::vector<std::string> scope;
    std::string word;
    bool dump = false, definitions = true;
    const auto to_end = [&] {
      while (in >> word && word != "$end") {
      }
    };
    while (in >> word) {
      if (word == "$scope") {
        std::string type, name;
        in >> type >> name;
        BOOST_REQUIRE_EQUAL(type, "module");
        scope.push_back(name);
        to_end();
      } else if (word == "$upscope") {
        BOOST_REQUIRE(!scope.empty());
        scope.pop_back();
        to_end();
      } else if (word == "$var") {
        std::string type, size, code, name, full;
        in >> type >> size >> code >> name;
        for (const auto& s : scope) full += s + ".";
        BOOST_REQUIRE_MESSAGE(names.emplace(code, full + name).second, "code " << code << " twice");
        BOOST_REQUIRE(signals.emplace(full + name, std::vector<std::pair<Ps, std::string>>{}).second);
        to_end();
      } else if (word == "$enddefinitions") {
        BOOST_REQUIRE(scope.empty());
        definitions = false;
        to_end();
      } else if (word == "$timescale") {
        in >> word;
        BOOST_REQUIRE_EQUAL(word, "1ps");
        to_end();
      } else if (word == "$comment") {
        to_end();
      } else if (word == "$dumpvars") {
        dump = true;
      } else if (word == "$end") {
        dump = false;
      } else if (word[0] == '#') {
        BOOST_REQUIRE(!definitions);
        const Ps t = std::stoll(word.substr(1));
        BOOST_REQUIRE_MESSAGE(t > last, "time goes from " << last << " to " << t);
        last = t;
      } else {
        std::string value, code;
        if (word[0] == 'b' || word[0] == 's') {
          value = word[0] == 'b' ? std::to_string(std::stoull(word.substr(1), nullptr, 2)) : word.substr(1);
          in >> code;
        } else {
          value = word.substr(0, 1);
          code = word.substr(1);
        }
        BOOST_REQUIRE_MESSAGE(names.count(code) == 1, "unknown code " << code);
        auto& signal = signals[names[code]];
        BOOST_REQUIRE_EQUAL(signal.empty(), dump);
        if (!dump) BOOST_REQUIRE_NE(signal.back().second, value);
        signal.emplace_back(last, value);
        changes += !dump;
      }
    }
  }

  std::string at(const std::string& name, Ps t) const {
    const auto found = signals.find(name);
    BOOST_REQUIRE_MESSAGE(found != signals.end(), "no signal " << name);
    std::string value;
    for (const auto& [time, v] : found->second)
      if (time <= t) value = v;
    return value;
  }
};

OpRecord op(OpName name, OpKind kind, std::uint32_t component, Ps start, Ps end, CommandPtr command = nullptr) {
  OpRecord r;
  r.name = name;
  r.kind = kind;
  r.component = component;
  r.t_start = start;
  r.t_end = end;
  r.command = std::move(command);
  if (r.command) r.pe = 0;
  return r;
}

ComponentTable machine() {
  ComponentTable t;
  for (const char* name : {"tray.sip0.cube0.pe0.scheduler", "tray.sip0.cube0.pe0.dma", "tray.sip0.cube0.pe0.gemm",
                           "tray.sip0.cube0.pe0.math", "tray.sip0.cube0.pe0.ipcq", "tray.sip0.cube0.pe1.scheduler",
                           "tray.sip0.cube0.pe1.ipcq", "tray.sip0.cube0.hbm0"})
    t.add(name);
  return t;
}

struct Files {
  TempDir dir;
  ComponentTable components = machine();
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(vcd, Files)

BOOST_AUTO_TEST_CASE(operations_show_what_they_are_and_when) {
  VcdWriter writer(dir / "trace.vcd", components, {});
  const CommandPtr c = rich_command(7);
  OpRecord accept = op(OpName::command, OpKind::control, 0, 1000, 2000, c);
  OpRecord read = op(OpName::dma_read, OpKind::memory, 1, 3000, 9000, c);
  read.role = TileRole::b;
  read.tile_n = 4;
  read.tile_k = 2;
  OpRecord gemm = op(OpName::gemm, OpKind::gemm, 2, 10000, 26000, c);
  gemm.t_ready = 9500;
  gemm.tile_m = gemm.tile_n = gemm.tile_k = 0;
  OpRecord next = gemm;
  next.t_start = 26000;
  next.t_end = 42000;
  next.t_ready = 12000;
  next.tile_k = 1;
  OpRecord math = op(OpName::math, OpKind::math, 3, 100, 50000, c);  // began before everything else, known last
  math.op = 2;
  for (const auto& r : {accept, read, gemm, next, math}) writer.record(r);
  writer.record(op(OpName::command_done, OpKind::control, 0, 51000, 51000, c));
  writer.finish();

  const Waveform w(dir / "trace.vcd");
  BOOST_CHECK_EQUAL(w.changes, writer.changes());
  const std::string pe = "tray.sip0.cube0.pe0.";
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.busy", 9999), "0");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.busy", 10000), "1");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.busy", 41999), "1");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.busy", 42000), "0");
  BOOST_CHECK_EQUAL(w.signals.at(pe + "gemm.busy").size(), 3u);  // no blink between the two steps
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.tile", 25999), "0.0.0");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.tile", 26000), "0.0.1");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.op", 30000), "gemm");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.op", 42000), "-");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.command", 30000), "7");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.waiting", 9700), "1");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.waiting", 12000), "1");
  BOOST_CHECK_EQUAL(w.at(pe + "gemm.waiting", 26000), "0");
  BOOST_CHECK_EQUAL(w.at(pe + "dma.dma_read.op", 5000), "dma_read_b");
  BOOST_CHECK_EQUAL(w.at(pe + "dma.dma_read.tile", 5000), "-.4.2");
  BOOST_CHECK_EQUAL(w.at(pe + "math.op", 100), "scale");
  BOOST_CHECK_EQUAL(w.at(pe + "scheduler.in_flight", 1999), "0");
  BOOST_CHECK_EQUAL(w.at(pe + "scheduler.in_flight", 2000), "1");
  BOOST_CHECK_EQUAL(w.at(pe + "scheduler.in_flight", 51000), "0");
  BOOST_CHECK_EQUAL(w.last, 51001);
  BOOST_CHECK(!exists(dir / "trace.vcd.part") && !exists(dir / "trace.vcd.runs"));
}

BOOST_AUTO_TEST_CASE(queues_show_slots_and_credits) {
  VcdWriter::Options options;
  options.queue_slots = 2;
  VcdWriter writer(dir / "trace.vcd", components, options);
  const CommandPtr send = queue_command(1, CommandKind::ipcq_send, Direction::E),
                   recv = queue_command(1, CommandKind::ipcq_recv, Direction::W);
  OpRecord write = op(OpName::slot_write, OpKind::ipcq, 4, 100, 200, send);
  write.pe = 0;
  write.peer = 1;
  write.arrives = Direction::W;
  OpRecord credit = op(OpName::credit, OpKind::ipcq, 6, 300, 350, recv);
  credit.pe = 1;
  credit.peer = 0;
  credit.arrives = Direction::W;
  writer.record(write);
  writer.record(credit);
  writer.finish();
  const Waveform w(dir / "trace.vcd");
  const std::string queue = "tray.sip0.cube0.pe1.ipcq.W.";
  const std::vector<std::tuple<Ps, const char*, const char*, const char*>> expected{
      {0, "0", "0", "2"}, {100, "0", "0", "1"}, {200, "1", "0", "1"}, {300, "1", "1", "1"}, {350, "1", "1", "2"}};
  for (const auto& [t, head, tail, credits] : expected) {
    BOOST_CHECK_EQUAL(w.at(queue + "head", t), head);
    BOOST_CHECK_EQUAL(w.at(queue + "tail", t), tail);
    BOOST_CHECK_EQUAL(w.at(queue + "credits", t), credits);
  }
}

BOOST_AUTO_TEST_CASE(random_operations_equal_their_intervals_whatever_the_run_length) {
  for (const std::size_t run_length : {std::size_t{16}, std::size_t{257}, std::size_t{1} << 20}) {
    std::mt19937 random(5);
    VcdWriter::Options options;
    options.run_length = run_length;
    VcdWriter writer(dir / "trace.vcd", components, options);
    writer.set_links({"tray.sip0.cube0.r0c0.e", "tray.sip0.cube0.hbm0.pc0"});
    std::map<std::string, std::vector<std::pair<Ps, Ps>>> expected;
    Ps end = 0;
    std::set<Ps> times;
    for (int i = 0; i < 3000; ++i) {
      end += static_cast<Ps>(random() % 30);
      const std::uint32_t component = 1 + random() % 3;
      const Ps length = random() % 50 == 0 ? static_cast<Ps>(random() % 20000) : static_cast<Ps>(random() % 40);
      const Ps start = std::max<Ps>(0, end - length);
      static const OpName names[] = {OpName::dma_read, OpName::gemm, OpName::math};
      static const OpKind kinds[] = {OpKind::memory, OpKind::gemm, OpKind::math};
      static const char* const signals[] = {"dma.dma_read.", "gemm.", "math."};
      writer.record(op(names[component - 1], kinds[component - 1], component, start, end));
      if (start < end) expected[std::string("tray.sip0.cube0.pe0.") + signals[component - 1]].emplace_back(start, end);
      if (random() % 4 == 0) {
        const std::uint32_t link = random() % 2;
        const Ps from = end + static_cast<Ps>(random() % 1000), to = from + static_cast<Ps>(random() % 300);
        writer.link_busy(link, from, to);
        if (from < to)
          expected[link == 0 ? "tray.sip0.cube0.r0c0.e." : "tray.sip0.cube0.hbm0.pc0."].emplace_back(from, to);
      }
    }
    writer.finish();
    const Waveform w(dir / "trace.vcd");
    BOOST_CHECK_EQUAL(w.changes, writer.changes());
    BOOST_REQUIRE_EQUAL(expected.size(), 5u);
    for (const auto& [name, intervals] : expected) {
      // Count what is in progress between consecutive end points.
      std::map<Ps, int> steps;
      for (const auto& [from, to] : intervals) {
        ++steps[from];
        --steps[to];
      }
      std::vector<std::pair<Ps, std::string>> busy{{0, "0"}};
      int active = 0;
      for (const auto& [t, step] : steps) {
        active += step;
        const std::string value = active > 0 ? "1" : "0";
        if (value == busy.back().second) continue;
        if (t == 0)
          busy.emplace_back(0, value);
        else
          busy.emplace_back(t, value);
      }
      BOOST_REQUIRE(w.signals.at(name + "busy") == busy);
      if (name.find("link") == std::string::npos && w.signals.count(name + "active") != 0) {
        int sum = 0;
        for (const auto& [t, step] : steps) {
          sum += step;
          BOOST_REQUIRE_EQUAL(w.at(name + "active", t), std::to_string(sum));
          if (t > 3000) break;
        }
      }
    }
  }
}

// A run of 64 changes at a time makes thousands of runs, more than are merged at once: memory does not grow with them,
// and the waveform is that of a writer that has everything in memory.
BOOST_AUTO_TEST_CASE(memory_is_bounded_however_many_runs_there_are) {
  std::size_t most = 0;
  const auto write = [&](const char* name, std::size_t run_length) {
    VcdWriter::Options options;
    options.run_length = run_length;
    VcdWriter writer(dir / name, components, options);
    std::mt19937 random(7);
    Ps end = 0;
    for (int i = 0; i < 50000; ++i) {
      end += static_cast<Ps>(random() % 30);
      OpRecord r = op(OpName::gemm, OpKind::gemm, 2, std::max<Ps>(0, end - static_cast<Ps>(random() % 20000)), end);
      r.t_ready = std::max<Ps>(0, r.t_start - static_cast<Ps>(random() % 100));
      writer.record(r);
    }
    writer.finish();
    most = writer.most_held();
    return slurp(dir / name);
  };
  const std::string whole = write("whole.vcd", 1u << 18);
  const std::string pieces = write("pieces.vcd", 64);
  BOOST_TEST(most <= (1u << 16) + 64);
  BOOST_CHECK(pieces == whole);
}

BOOST_AUTO_TEST_CASE(scope_and_window_cut_the_trace) {
  VcdWriter::Options options;
  options.filter.scope = "*.pe0.*";
  options.filter.window = {{1000, 2000}};
  VcdWriter writer(dir / "trace.vcd", components, options);
  writer.set_links({"tray.sip0.cube0.pe0.dma.out", "tray.sip0.cube0.r0c0.e"});
  writer.record(op(OpName::command, OpKind::control, 0, 0, 10, rich_command(1)));
  writer.record(op(OpName::command, OpKind::control, 0, 0, 20, rich_command(2)));
  writer.record(op(OpName::gemm, OpKind::gemm, 2, 100, 900));
  writer.record(op(OpName::gemm, OpKind::gemm, 2, 950, 1100));
  writer.record(op(OpName::mem_read, OpKind::memory, 7, 1100, 1200));
  writer.record(op(OpName::command_done, OpKind::control, 0, 1500, 1500, rich_command(1)));
  writer.record(op(OpName::gemm, OpKind::gemm, 2, 1900, 2500));
  writer.record(op(OpName::gemm, OpKind::gemm, 2, 2500, 2600));
  writer.record(op(OpName::command_done, OpKind::control, 0, 3000, 3000, rich_command(2)));
  writer.link_busy(0, 500, 1300);
  writer.link_busy(1, 500, 1300);
  writer.finish();
  const Waveform w(dir / "trace.vcd");
  using Steps = std::vector<std::pair<Ps, std::string>>;
  BOOST_CHECK((w.signals.at("tray.sip0.cube0.pe0.gemm.busy") ==
               Steps{{1000, "0"}, {1000, "1"}, {1100, "0"}, {1900, "1"}, {2000, "0"}}));
  BOOST_CHECK((w.signals.at("tray.sip0.cube0.pe0.scheduler.in_flight") == Steps{{1000, "2"}, {1500, "1"}}));
  BOOST_CHECK((w.signals.at("tray.sip0.cube0.pe0.dma.out.busy") == Steps{{1000, "0"}, {1000, "1"}, {1300, "0"}}));
  for (const auto& signal : w.signals) BOOST_CHECK_NE(signal.first.find(".pe0."), std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_save_file_names_signals_that_exist) {
  VcdWriter writer(dir / "trace.vcd", components, {});
  writer.set_links({"tray.sip0.cube0.r0c0->sip0.cube0.r0c1", "tray.sip0.cube0.ucie_e.c0->sip0.cube1.ucie_w.c0"});
  writer.link_busy(0, 1, 2);
  writer.link_busy(1, 1, 2);
  writer.record(op(OpName::command, OpKind::control, 0, 0, 10, rich_command(1)));
  writer.record(op(OpName::gemm, OpKind::gemm, 2, 100, 900, rich_command(1)));
  writer.record(op(OpName::mem_read, OpKind::memory, 7, 1100, 1200));
  writer.finish();
  BOOST_CHECK_EQUAL(writer.view_command(), "gtkwave " + (dir / "trace.vcd") + " " + (dir / "trace.gtkw"));
  const Waveform w(dir / "trace.vcd");
  std::istringstream lines(slurp(dir / "trace.gtkw"));
  std::set<std::string> named;
  int depth = 0;
  for (std::string line, flags; std::getline(lines, line);) {
    if (line[0] == '@') {
      flags = line;
    } else if (line[0] == '-') {
      depth += flags == "@800200" || flags == "@c00200" ? 1 : -1;
      BOOST_CHECK(depth == 0 || depth == 1);
    } else if (line[0] == '+') {
      const auto brace = line.find("} ");
      const std::string name = line.substr(brace + 2, line.find('[') - brace - 2);
      const std::string alias = line.substr(2, brace - 2);
      std::string below = name.substr(name.size() - alias.size());
      std::replace(below.begin(), below.end(), '.', ' ');
      BOOST_CHECK_EQUAL(below, alias);
      BOOST_CHECK_MESSAGE(w.signals.count(name) == 1, "no signal " << name);
      named.insert(name);
    }
  }
  BOOST_CHECK_EQUAL(named.count("tray.sip0.cube0.r0c0.to_r0c1.busy"), 1u);
  BOOST_CHECK_EQUAL(named.count("tray.sip0.cube0.ucie_e.c0.to_cube1_ucie_w_c0.busy"), 1u);
  BOOST_CHECK_EQUAL(depth, 0);
  BOOST_CHECK_EQUAL(named.size(), w.signals.size());
}

BOOST_AUTO_TEST_CASE(an_unfinished_trace_stays_readable) {
  {
    VcdWriter writer(dir / "trace.vcd", components, {});
    writer.record(op(OpName::gemm, OpKind::gemm, 2, 100, 900));
  }
  BOOST_CHECK(!exists(dir / "trace.vcd"));
  BOOST_CHECK_EQUAL(Waveform(dir / "trace.vcd.part").at("tray.sip0.cube0.pe0.gemm.busy", 500), "1");
  {
    VcdWriter writer(dir / "empty.vcd", components, {});
    writer.finish();
  }
  BOOST_CHECK_EQUAL(Waveform(dir / "empty.vcd").changes, 0u);
  BOOST_CHECK_THROW(VcdWriter(dir / "no/such.vcd", components, {}), IoError);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_reported) {
  struct rlimit old;
  BOOST_REQUIRE_EQUAL(getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 2000000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  BOOST_REQUIRE_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool reported = false;
  {
    VcdWriter::Options options;
    options.run_length = 1000;
    VcdWriter writer(dir / "trace.vcd", components, options);
    try {
      for (Ps t = 0; t < 200000; ++t) writer.record(op(OpName::gemm, OpKind::gemm, 2, 2 * t, 2 * t + 1));
    } catch (const IoError& e) {
      reported = std::string(e.what()).find("trace.vcd.runs: cannot write: ") != std::string::npos;
    }
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  BOOST_CHECK(reported);
  BOOST_CHECK_GT(Waveform(dir / "trace.vcd.part").changes, 40000u);
}

BOOST_AUTO_TEST_SUITE_END()
