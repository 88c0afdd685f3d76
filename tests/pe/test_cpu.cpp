// Launches, errors, deadlocks, abandoned kernels, direct transfers, the TCM's port, replaced implementations.
#include "pe_bench.h"

#include <kb/modules/pe/gemm.h>
#include <kb/modules/pe/registry.h>

#include <boost/test/unit_test.hpp>
#include <sc_fixture.h>

#include <cstring>

using namespace kb;
using namespace kb::test;

namespace {

Command small_math(std::uint64_t addr = 0) {
  return math_command({{"src", tcm_tensor(addr, {256})}}, tcm_tensor(addr, {256}));
}

template <typename F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

void contains(const std::string& text, const std::string& part) {
  BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, "found '" << text << "', expected '" << part << "' in it");
}

int& live_locals() {
  static int n = 0;
  return n;
}
struct Local {
  Local() { ++live_locals(); }
  ~Local() { --live_locals(); }
};

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kFrame = 8192;
#else
constexpr std::uint64_t kFrame = 2048;
#endif
// NOLINTNEXTLINE(misc-no-recursion): meant to use up the stack
std::uint64_t deep(PePort& pe, int levels) {
  volatile char frame[kFrame];
  frame[0] = static_cast<char>(levels);
  pe.spend_cycles(0);
  return levels == 0 ? 0 : deep(pe, levels - 1) + static_cast<std::uint64_t>(frame[0]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu)

// A launch that arrives at 0 with 2 ns of overhead and a common start at 50 ns begins at 50 ns, and the completion
// goes back when the last command has completed.
BOOST_FIXTURE_TEST_CASE(starts_at_the_common_start, FreshContext) {
  OnePe bench{PeParams{}};
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  Ps begun = -1;
  const LambdaProgram program([&](PePort& pe) {
    begun = pe.now();
    pe.issue(small_math());
  });
  bench.launch(program, 50000);
  sc_core::sc_start();
  BOOST_CHECK_EQUAL(begun, 50000);
  BOOST_CHECK_EQUAL(bench.completed_at, 50000 + 8000 + 1000 + 1000);
  BOOST_CHECK_EQUAL(bench.pe->finish_time(), bench.completed_at);
  bench.pe->stats(50000, 70000);  // another PE may take longer: the rest is idle
  BOOST_CHECK(!bench.activity.any());
}

BOOST_FIXTURE_TEST_CASE(several_launches, FreshContext) {
  OnePe bench{PeParams{}};
  for (int i = 0; i < 3; ++i) {
    std::vector<CommandId> ids;
    bench.run([&](PePort& pe) {
      ids.push_back(pe.issue(small_math(0)));
      ids.push_back(pe.issue(small_math(4096)));
    });
    BOOST_CHECK_EQUAL(ids[0], 1u);
    BOOST_CHECK_EQUAL(ids[1], 2u);
    BOOST_CHECK_EQUAL(bench.pe->stats(bench.start + 2000, bench.pe->finish_time()).math_elements, 512u);
  }
}

BOOST_FIXTURE_TEST_CASE(wait_and_done, FreshContext) {
  OnePe bench(free_params());
  bench.run([](PePort& pe) {
    const CommandId id = pe.issue(small_math());
    BOOST_CHECK(!pe.done(id));
    pe.wait(id, "test");
    BOOST_CHECK(pe.done(id));
    BOOST_CHECK_EQUAL(pe.now(), 1000);
    pe.wait(id, "test");
    BOOST_CHECK_EQUAL(pe.now(), 1000);
  });
}

BOOST_FIXTURE_TEST_CASE(kernel_errors_reach_the_host, FreshContext) {
  OnePe bench(free_params());
  contains(message_of([&] { bench.run([](PePort&) { throw ModelError("shape [3] against [4]"); }); }),
           "shape [3] against [4]");
}

BOOST_FIXTURE_TEST_CASE(oversized_commands_are_refused, FreshContext) {
  PeParams p;
  p.cost_model.max_command_bytes = 20;
  OnePe bench(p);
  contains(message_of([&] { bench.run([](PePort& pe) { pe.issue(small_math()); }); }), "20");
}

BOOST_FIXTURE_TEST_CASE(plan_errors_reach_the_host, FreshContext) {
  OnePe bench(free_params());
  contains(message_of([&] {
             bench.run([](PePort& pe) {
               pe.issue(math_command({{"src", hbm_tensor(0, {4})}}, tcm_tensor(0, {4})));
             });
           }),
           "operand 'src' in hbm");
}

BOOST_FIXTURE_TEST_CASE(a_deep_kernel_gets_a_message, FreshContext) {
  OnePe bench(free_params());
  contains(message_of([&] { bench.run([](PePort& pe) { deep(pe, 100000); }); }), "pe.cpu.stack_bytes");
}

BOOST_FIXTURE_TEST_CASE(unmapped_addresses, FreshContext) {
  PageTable pages;
  pages.map(0x200000, 0x40000000, 0x200000, "weights");
  OnePe::Options o;
  o.pages = &pages;
  OnePe bench(free_params(), o);
  const std::string m = message_of([&] {
    bench.run([](PePort& pe) { pe.issue(read_command(hbm_tensor(0x800000, {16}), tcm_tensor(0, {16}))); });
  });
  contains(m, "bench.pe.dma");
  contains(m, std::to_string(0x800000));
  contains(m, "weights");
}

BOOST_FIXTURE_TEST_CASE(address_errors_of_the_target, FreshContext) {
  AddressMap map{AddressMap::Geometry{}};
  OnePe::Options o;
  o.addresses = &map;
  OnePe bench(free_params(), o);
  bench.memory->fail_at = 0x1010;
  const std::string m = message_of([&] {
    bench.run([](PePort& pe) { pe.issue(read_command(hbm_tensor(0x1000, {64}), tcm_tensor(0, {64}))); });
  });
  contains(m, "bench.pe.dma: read of 128 bytes at address 4096");
  contains(m, "TLM_ADDRESS_ERROR_RESPONSE");
}

// A transfer over pages that lie apart is one transfer of several transactions; the overhead is paid once.
BOOST_FIXTURE_TEST_CASE(transfers_are_cut_at_pages, FreshContext) {
  PageTable pages;
  pages.map(0, 0x10000000, 4096, "one");
  pages.map(4096, 0x20000000, 4096, "two");
  pages.map(8192, 0x20001000, 4096, "two, on");
  OnePe::Options o;
  o.pages = &pages;
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe bench(p, o);
  bench.run([](PePort& pe) {
    pe.issue(read_command(hbm_tensor(2048, {5120}), tcm_tensor(0, {5120}, DType::f16)));  // 2048 + 8192 B
  });
  BOOST_CHECK_EQUAL(bench.memory->transactions, 2u);
  BOOST_CHECK_EQUAL(bench.memory->read_bytes, 10240u);
  const auto reads = bench.recorder.of(OpName::dma_read);
  BOOST_REQUIRE_EQUAL(reads.size(), 1u);
  BOOST_CHECK_EQUAL(reads[0].t_end, 2000 + 40000);
  BOOST_CHECK_EQUAL(bench.stats().dma_reads, 1u);
}

// Nothing to move: done after the overhead.
BOOST_FIXTURE_TEST_CASE(empty_transfers, FreshContext) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe bench(p);
  bench.run([](PePort& pe) { pe.issue(read_command(hbm_tensor(0, {0}), tcm_tensor(0, {0}))); });
  BOOST_CHECK_EQUAL(bench.pe->finish_time(), 2000);
  BOOST_CHECK_EQUAL(bench.memory->transactions, 0u);
}

// A kernel that waits for ever is unwound when it is abandoned, and the activity count shows that nothing comes.
BOOST_FIXTURE_TEST_CASE(abandoned_kernels_unwind, FreshContext) {
  live_locals() = 0;
  {
    OnePe bench(free_params());
    QueueEnd from_1;
    from_1.peer = 1;
    bench.queues = {from_1};
    const std::string m = message_of([&] {
      bench.run([](PePort& pe) {
        Local local;
        Command recv;
        recv.kind = CommandKind::ipcq_recv;
        recv.ops = {math_op("recv", {}, tcm_tensor(0, {4}))};
        pe.wait(pe.issue(std::move(recv)), "recv");
      });
    });
    contains(m, "waits in recv for ipcq_recv command 1 since 0");
    BOOST_CHECK_EQUAL(live_locals(), 1);
    BOOST_CHECK(!bench.activity.any());
    bench.pe->abandon();
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
    BOOST_CHECK_EQUAL(live_locals(), 0);
    BOOST_CHECK(!bench.pe->finished());
    BOOST_CHECK_EQUAL(bench.pe->blocked_state(), "");
  }
}

// Sixteen reads of 1 MiB, one outstanding: 2 + 4096 + latency each; started together at 10 ns.
BOOST_FIXTURE_TEST_CASE(direct_transfers, FreshContext) {
  OnePe::Options o;
  o.latency_ns = 9;
  OnePe bench(PeParams{}, o);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  std::vector<Host::DirectTransfer> list;
  for (std::uint64_t i = 0; i < 16; ++i) list.push_back({0, false, i << 20, 1 << 20});
  list.push_back({1, false, 0, 64});  // another PE's
  bench.pe->start_transfers(list, 10000);
  BOOST_CHECK(!bench.pe->transfers_done());
  sc_core::sc_start();
  BOOST_CHECK(bench.pe->transfers_done());
  BOOST_CHECK_EQUAL(bench.pe->first_transfer_issue(), 10000);
  BOOST_CHECK_EQUAL(bench.pe->last_transfer_end(), 10000 + 16 * (2000 + 9000 + 4096000));
  const PeStats s = bench.pe->stats(10000, bench.pe->last_transfer_end());
  BOOST_CHECK_EQUAL(s.dma_reads, 16u);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::dma_read)].busy, s.engines[0].idle);
}

// The port in front of the TCM: debug in every mode, writes and reads over nb_transport, errors outside.
BOOST_FIXTURE_TEST_CASE(tcm_port, FreshContext) {
  AddressMap map{AddressMap::Geometry{}};
  OnePe::Options o;
  o.addresses = &map;
  o.mode = Mode::data;
  OnePe bench(PeParams{}, o);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  const std::uint64_t base = map.tcm(0, 0, 0);

  std::vector<unsigned char> data(200000, 0x5a), back(200000, 0);
  tlm::tlm_generic_payload debug;
  debug.set_address(base + 1000);
  debug.set_data_length(static_cast<unsigned>(data.size()));
  debug.set_streaming_width(static_cast<unsigned>(data.size()));
  debug.set_read();
  debug.set_data_ptr(back.data());
  BOOST_CHECK_EQUAL(bench.to_tcm->transport_dbg(debug), data.size());
  BOOST_CHECK_EQUAL(back[0], 0xff);  // nobody has written: not a number
  debug.set_write();
  debug.set_data_ptr(data.data());
  BOOST_CHECK_EQUAL(bench.to_tcm->transport_dbg(debug), data.size());

  auto& read = bench.pool.take(tlm::TLM_READ_COMMAND, base + 1000, back.size(), back.data());
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay(3, sc_core::SC_NS);
  BOOST_CHECK_EQUAL(bench.to_tcm->nb_transport_fw(read, phase, delay), tlm::TLM_UPDATED);
  BOOST_CHECK(phase == tlm::END_REQ);
  auto& beyond = bench.pool.take(tlm::TLM_WRITE_COMMAND, map.tcm(0, 0, 0, (16 << 20) - 4), 8);
  phase = tlm::BEGIN_REQ;
  delay = sc_core::sc_time(5, sc_core::SC_NS);
  bench.to_tcm->nb_transport_fw(beyond, phase, delay);
  sc_core::sc_start();
  BOOST_REQUIRE_EQUAL(bench.responses.size(), 2u);
  BOOST_CHECK(bench.responses[0] == &read);
  BOOST_CHECK(read.is_response_ok());
  BOOST_CHECK(back == data);
  BOOST_CHECK_EQUAL(PayloadPool::extension(read).train.tail(), 3000);
  BOOST_CHECK_EQUAL(beyond.get_response_status(), tlm::TLM_ADDRESS_ERROR_RESPONSE);
  read.release();
  beyond.release();
  BOOST_CHECK_EQUAL(bench.pool.out(), 0u);

  tlm::tlm_dmi dmi;
  debug.set_address(base + 1000);
  BOOST_REQUIRE(bench.to_tcm->get_direct_mem_ptr(debug, dmi));
  BOOST_CHECK_EQUAL(dmi.get_start_address(), base);
  BOOST_CHECK_EQUAL(dmi.get_dmi_ptr()[1000], 0x5a);
}

namespace {
/// A MAC array that needs 7 ns for anything.
class SevenNs : public Gemm {
 public:
  using Gemm::Gemm;
  Ps step_ps(std::int64_t, std::int64_t, std::int64_t, DType) const override { return 7000; }
};
}  // namespace

BOOST_FIXTURE_TEST_CASE(replaced_implementations, FreshContext) {
  PeRegistry registry;
  registry.gemm.add("seven", [](const char* name, const BoxContext& context) {
    return std::make_unique<SevenNs>(name, context);
  });
  OnePe::Options o;
  o.registry = &registry;
  PeParams p = free_params();
  p.gemm.impl = "seven";
  OnePe bench(p, o);
  const Ps time = bench.run([](PePort& pe) {
    pe.issue(composite({gemm_op(tcm_tensor(0, {32, 64}, DType::f16), tcm_tensor(0x4000, {64, 32}, DType::f16),
                                tcm_tensor(0x8000, {32, 32}), 32, 64, 32)}));
  });
  BOOST_CHECK_EQUAL(time, 16000 + 7000 + 8000);
}

BOOST_FIXTURE_TEST_CASE(unknown_implementations, FreshContext) {
  PeParams p;
  p.math.impl = "quick";
  contains(message_of([&] { OnePe bench(p); }), "pe.math.impl: found 'quick'; allowed: builtin");
}

BOOST_AUTO_TEST_SUITE_END()
