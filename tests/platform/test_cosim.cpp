// The platform as a part of a larger simulation: its open ends, foreign IP in place of its own, what is recorded of it,
// and what a surrounding program may choose: time resolution, global quantum, when it calls.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "foreign_ip.h"
#include "sc_fixture.h"
#include "session.h"
#include "temp_dir.h"

#include <kb/kernels/launch.h>
#include <kb/platform/machine.h>
#include <kb/platform/platform.h>
#include <kb/platform/recording.h>
#include <kb/traces/op_log_reader.h>

#include <tlm_utils/tlm_quantumkeeper.h>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

using namespace kb;
using namespace kb::test;

namespace {

constexpr char kSlice[] = "tray.sip0.cube0.hbm0";

/// Keeps the records.
struct Kept : OpSink {
  std::vector<OpRecord> records;
  void record(const OpRecord& r) override { records.push_back(r); }
};

struct Product {
  Tensor a, b, c;
};
/// C = A B of one output tile, all operands streamed: reads one after the other, and one write at the end.
void multiply(tl::Context& tl, const Product& p) {
  const auto ref = [&tl](const Tensor& t) { return tl.ref(t.shards[0].addr, t.shards[0].shape, t.dtype); };
  tl.wait(tl.composite(tl::gemm(ref(p.a), ref(p.b)).into(ref(p.c))));
}

struct Outcome {
  Ps latency = 0;
  std::vector<OpRecord> records;
  std::vector<float> c;
};

/// The product above, its operands in a foreign memory of that latency, or in the built-in slice.
Outcome run_multiply(std::optional<Ps> latency, AnswerStyle style = AnswerStyle::four_phase) {
  FreshContext fresh;
  SystemConfig config = load_config(topology("one_pe"));
  if (latency) config.open.hbm = {kSlice};
  Kept kept;
  PlatformOptions options;
  options.mode = Mode::data;
  options.sinks = {&kept};
  Platform platform("tray", config, options);
  std::unique_ptr<ForeignMemory> memory;
  if (latency) {
    memory = std::make_unique<ForeignMemory>("memory", 8 << 20);
    memory->latency_ps = *latency;
    memory->style = style;
    platform.hbm(kSlice).bind(memory->socket);
  }
  Host& host = platform.host();
  const auto tensor = [&host](const char* name, const Shape& shape, float step) {
    Tensor t = host.allocate(name, DType::f32, Space::hbm, {{0, shape}});
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = step * static_cast<float>(i % 13) - 2.0f;
    host.write(t, 0, values.data(), values.size() * sizeof(float));
    return t;
  };
  const Product p{tensor("a", {32, 512}, 0.5f), tensor("b", {512, 32}, 0.25f), tensor("c", {32, 32}, 0)};
  Outcome o;
  o.latency = host.launch(tl::bind_kernel("multiply", multiply, p)).latency();
  o.c.resize(32 * 32);
  host.read(p.c, 0, o.c.data(), o.c.size() * sizeof(float));
  o.records = std::move(kept.records);
  platform.check_conservation();
  if (memory) BOOST_TEST(memory->faults.empty());
  return o;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cosim)

// A burst takes a channel of 32 GB/s 8 ns, and eight channels stream as fast as the link: a memory of 8 ns is as good.
BOOST_DATA_TEST_CASE(external_memory_of_equal_latency_equals_the_built_in_one, boost::unit_test::data::xrange(5),
                     style) {
  const Outcome own = run_multiply(std::nullopt);
  const Outcome foreign = run_multiply(8'000, static_cast<AnswerStyle>(style));
  BOOST_TEST(foreign.latency == own.latency);
  BOOST_TEST(foreign.c == own.c, boost::test_tools::per_element());
  BOOST_REQUIRE(foreign.records.size() == own.records.size());
  for (std::size_t i = 0; i < own.records.size(); ++i) {
    BOOST_TEST(foreign.records[i].t_start == own.records[i].t_start);
    BOOST_TEST(foreign.records[i].t_end == own.records[i].t_end);
    BOOST_TEST(foreign.records[i].component == own.records[i].component);
    BOOST_TEST(foreign.records[i].bytes == own.records[i].bytes);
  }
}

// Eight k tiles of A and B each are read one after the other, and C is written once: 17 accesses in a row.
BOOST_AUTO_TEST_CASE(latency_of_an_external_memory_counts_once_per_access) {
  const Outcome fast = run_multiply(8'000);
  const Outcome slow = run_multiply(1'008'000);
  BOOST_TEST(slow.latency - fast.latency == 17 * 1'000'000);
  BOOST_TEST(slow.c == fast.c, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(open_ends_are_asked_for_by_name, FreshContext) {
  SystemConfig config = load_config(topology("one_cube"));
  config.open.hbm = {"tray.sip0.cube0.hbm3"};
  Platform platform("tray", config);
  const auto refused = [](const std::string& words, auto&& ask) {
    try {
      ask();
    } catch (const InputError& e) {
      return std::string(e.what()).find(words) != std::string::npos;
    }
    return false;
  };
  BOOST_TEST(refused("open.host_port", [&] { platform.host_port(); }));
  BOOST_TEST(refused("nearest: tray.sip0.cube0.hbm3", [&] { platform.hbm("tray.sip0.cube0.hbm4"); }));
  BOOST_TEST(refused("open.ucie_edge", [&] { platform.ucie_edge("tray.sip0.cube0.ucie_w"); }));
  BOOST_TEST(refused("open.inter_sip", [&] { platform.inter_sip("tray.sip0.io.ual_ep"); }));
  platform.hbm("tray.sip0.cube0.hbm3");
}

BOOST_FIXTURE_TEST_CASE(tensors_have_physical_addresses, FreshContext) {
  Platform platform("tray", load_config(topology("one_cube")));
  const AddressMap map = address_map(platform.config());
  Host& host = platform.host();
  const Tensor t = host.allocate("t", DType::f16, Space::hbm, {{0, Shape{64}}, {5, Shape{64}}, {6, Shape{0}}});
  const Tensor u = host.allocate("u", DType::f16, Space::hbm, {{5, Shape{64}}});
  const Tensor v = host.allocate("v", DType::f16, Space::tcm, {{5, Shape{64}}});
  const std::uint64_t page = platform.config().pe.mmu.page_bytes;
  BOOST_TEST(platform.physical_address(t, 0) == map.hbm(0, 0, 0));
  BOOST_TEST(platform.physical_address(t, 1) == map.hbm(0, 0, 5));
  BOOST_TEST(platform.physical_address(u) == map.hbm(0, 0, 5, page));
  BOOST_TEST(platform.physical_address(v) == map.tcm(0, 0, 5, v.shards[0].addr));
  BOOST_CHECK_THROW(platform.physical_address(t, 2), InputError);
  BOOST_CHECK_THROW(platform.physical_address(t, 3), InputError);
}

namespace {

/// Three PEs stream while a host CPU of the user's own reads and writes beside them.
struct Beside {
  std::vector<Ps> host_times;
  std::vector<Ps> pe_times;
};
enum class Caller { waits, runs_ahead };

Beside run_beside(Caller caller, double quantum_ns = 0) {
  FreshContext fresh;
  tlm::tlm_global_quantum::instance().set(sc_core::sc_time(quantum_ns, sc_core::SC_NS));
  SystemConfig config = load_config(topology("one_cube"));
  config.open.host_port = true;
  Platform platform("tray", config);
  ForeignInitiator cpu("cpu");
  cpu.socket.bind(platform.host_port());
  ForeignInitiator launcher("launcher");
  ForeignMemory unused("unused", 16);
  launcher.socket.bind(unused.socket);
  const AddressMap map = address_map(config);
  Beside result;
  launcher.body = [&](ForeignInitiator&) {
    std::vector<Host::DirectTransfer> transfers;
    Host& host = platform.host();
    const Tensor t = host.allocate("t", DType::f32, Space::hbm, {{1, Shape{64 * 1024}}});
    for (const std::uint32_t pe : {1u, 2u, 4u}) transfers.push_back({pe, pe == 2, t.shards[0].addr, 128 * KiB});
    const LaunchResult r = host.run_transfers(transfers);
    for (const PeStats& pe : r.pes) result.pe_times.push_back(pe.done);
  };
  cpu.body = [&](ForeignInitiator& i) {
    std::vector<unsigned char> data(4096);
    tlm_utils::tlm_quantumkeeper keeper;
    keeper.reset();
    for (int k = 0; k < 6; ++k) {
      tlm::tlm_generic_payload trans;
      ForeignInitiator::fill(trans, k % 2 == 0 ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND,
                             map.hbm(0, 0, 1, 8 * MiB), data.data(), 4096);
      keeper.inc(to_sc_time(37'000));  // the CPU's own work
      if (caller == Caller::waits) keeper.sync();
      sc_core::sc_time delay = keeper.get_local_time();
      i.socket->b_transport(trans, delay);
      BOOST_TEST(trans.is_response_ok());
      keeper.set(delay);
      result.host_times.push_back(now_ps() + to_ps(delay));
      if (keeper.need_sync()) keeper.sync();
    }
  };
  sc_core::sc_start();
  BOOST_TEST(cpu.finished);
  BOOST_TEST(launcher.finished);
  platform.check_conservation();
  return result;
}

}  // namespace

// A caller that runs ahead of simulated time within its quantum gets the times of one that waits, and so does everybody
// that it contends with.
BOOST_AUTO_TEST_CASE(a_global_quantum_changes_no_result) {
  const Beside waits = run_beside(Caller::waits);
  BOOST_TEST(waits.host_times.size() == 6u);
  for (const double quantum_ns : {50.0, 1'000.0, 100'000.0}) {
    const Beside ahead = run_beside(Caller::runs_ahead, quantum_ns);
    BOOST_TEST(ahead.host_times == waits.host_times, boost::test_tools::per_element());
    BOOST_TEST(ahead.pe_times == waits.pe_times, boost::test_tools::per_element());
  }
}

// The op log and the waveform show what passes the open ends, by their names.
BOOST_AUTO_TEST_CASE(foreign_transactions_are_recorded_at_the_boundary) {
  const TempDir dir;
  std::uint64_t physical = 0;
  {
    FreshContext fresh;
    SystemConfig config = load_config(topology("one_pe"));
    config.open.host_port = true;
    config.open.hbm = {kSlice};
    TraceOptions traces;
    traces.vcd = true;
    Recording recording(dir.path().string(), true, traces);
    PlatformOptions options;
    recording.observe(options);
    Platform platform("tray", config, options);
    recording.open(platform);
    ForeignMemory memory("memory", 4 << 20);
    platform.hbm(kSlice).bind(memory.socket);
    ForeignInitiator cpu("cpu");
    cpu.socket.bind(platform.host_port());
    physical = address_map(config).hbm(0, 0, 0, 0x1000);
    cpu.body = [&](ForeignInitiator& i) {
      unsigned char data[512] = {};
      i.b(tlm::TLM_WRITE_COMMAND, physical, data, 512);
      i.b(tlm::TLM_READ_COMMAND, physical, data, 256);
    };
    sc_core::sc_start();
    BOOST_TEST(cpu.finished);
    recording.finish();
    BOOST_TEST(recording.files().size() == 2u);
  }
  // Two transactions, each at the host port and at the memory.
  OpLogReader reader(dir / "op_log.jsonl");
  std::multiset<std::string> found;
  OpRecord r;
  while (reader.next(r)) {
    std::ostringstream line;
    line << reader.components().name(r.component) << ' ' << name_of(r.name) << ' ' << r.bytes << ' ' << std::hex
         << r.address;
    found.insert(line.str());
  }
  std::ostringstream at_port;
  at_port << std::hex << physical;
  const std::multiset<std::string> expected{
      "tray.sip0.cube0.hbm0 mem_read 256 1000", "tray.sip0.cube0.hbm0 mem_write 512 1000",
      "tray.sip0.io.pcie_ep mem_read 256 " + at_port.str(), "tray.sip0.io.pcie_ep mem_write 512 " + at_port.str()};
  BOOST_TEST(found == expected, boost::test_tools::per_element());
  const std::string vcd = read_text(dir / "trace.vcd");
  for (const char* scope : {"module hbm0 ", "module pcie_ep "}) BOOST_TEST(vcd.find(scope) != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
