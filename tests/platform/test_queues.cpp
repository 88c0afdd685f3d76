// PE-to-PE queues under kernels of one's own, on the whole machine: order, snapshots, slots that fill, stalls,
// independence of other traffic, waits that never end.
#include "collective_runs.h"
#include "sc_fixture.h"

#include <kb/kernels/collectives/run.h>
#include <kb/kernels/launch.h>
#include <kb/platform/path_times.h>
#include <kb/platform/platform.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace kb;
using namespace kb::test;
namespace bdata = boost::unit_test::data;

namespace {

/// A bench without parameters.
class OwnBench : public Bench {
 public:
  using Body = std::function<BenchResult(BenchContext&)>;
  explicit OwnBench(Body body) : body_(std::move(body)) {}
  std::string name() const override { return "own"; }
  std::string doc() const override { return "a test's own"; }
  std::vector<ParamSpec> params() const override { return {}; }
  BenchResult run(BenchContext& ctx) const override { return body_(ctx); }

 private:
  Body body_;
};

RunOutcome run_own(const Setup& setup, OwnBench::Body body) {
  BenchRegistry registry;
  registry.add(std::make_unique<OwnBench>(std::move(body)));
  return run_session(spec_of("own", setup, {}), registry);
}

BenchResult launch(BenchContext& ctx, const KernelProgram& kernel, const LaunchOptions& options) {
  BenchResult result;
  result.launches.push_back({"own", ctx.host().launch(kernel, options)});
  result.latency_ns = ns_from_ps(result.launches.back().result.latency());
  return result;
}

/// A queue each way between ranks `a` and `b`, E and W.
LaunchOptions pair(const MachineInfo& machine, std::uint32_t a, std::uint32_t b) {
  collectives::QueueSet queues(machine);
  queues.connect(a, Direction::E, b, Direction::W);
  queues.connect(b, Direction::W, a, Direction::E);
  return {{std::min(a, b), std::max(a, b)}, queues.routes()};
}

/// Rank 0 has 0, 1, 2, ... in x, rank 1 writes what it is sent to y, which is compared with `expected`.
using PairKernel = void (*)(tl::Context&, const Tensor& x, const Tensor& y, std::int64_t n);
RunOutcome run_pair(PairKernel kernel, std::int64_t x_elements, std::int64_t y_elements,
                    const std::function<std::int32_t(std::int64_t)>& expected, const std::vector<Override>& keys) {
  return run_own({"one_cube", keys}, [&](BenchContext& ctx) {
    Host& host = ctx.host();
    const Tensor x = host.allocate("x", DType::i32, Space::tcm, {{0, Shape{x_elements}}});
    const Tensor y = host.allocate("y", DType::i32, Space::tcm, {{1, Shape{y_elements}}});
    std::vector<std::int32_t> values(static_cast<std::size_t>(x_elements));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
    host.write(x, 0, values.data(), values.size() * 4);
    BenchResult result = launch(ctx, tl::bind_kernel("pair", kernel, x, y, x_elements), pair(host.machine(), 0, 1));
    values.assign(static_cast<std::size_t>(y_elements), -1);
    host.read(y, 0, values.data(), values.size() * 4);
    result.numerics.checked = true;
    for (std::int64_t i = 0; i < y_elements; ++i)
      if (values[static_cast<std::size_t>(i)] != expected(i)) {
        result.numerics.pass = false;
        ++result.numerics.elements;
      }
    return result;
  });
}

tl::Handle part(tl::Context& tl, const Tensor& t, std::int64_t begin, std::int64_t count) {
  return tl.resident(tl.shard_of(t).addr + static_cast<std::uint64_t>(begin) * 4, Shape{count}, DType::i32);
}

void check_done(const RunOutcome& r) {
  BOOST_TEST(r.message == "");
  BOOST_TEST((r.code == ExitCode::done));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(queues_on_the_machine)

// ---- order and values --------------------------------------------------------------------------------------------

namespace {

/// Messages of 1 to 5 elements, sent in bursts of 11 and received in bursts of 7, both with pauses.
void stream(tl::Context& tl, const Tensor& x, const Tensor& y, std::int64_t n) {
  const bool sender = tl.rank() == 0;
  std::int64_t at = 0;
  std::vector<tl::Handle> expected;
  for (std::int64_t i = 0; at < n; ++i) {
    const std::int64_t count = std::min(n - at, 1 + i * 7 % 5);
    if (sender) {
      tl.send(Direction::E, part(tl, x, at, count));
      if (i % 11 == 10) tl.cpu_overhead(97);
    } else {
      expected.push_back(tl.recv_async(Direction::W, Shape{count}, DType::i32, tl::into(part(tl, y, at, count))));
      if (i % 7 == 6) {
        for (const tl::Handle& h : expected) tl.wait(h);
        expected.clear();
        if (i % 3 == 0) tl.cpu_overhead(61);
      }
    }
    at += count;
  }
  for (const tl::Handle& h : expected) tl.wait(h);
}

constexpr std::int64_t kRounds = 24, kRoundElements = 5000;

/// Sends a vector of 20,000 B, then at once writes the next value over it. The receiver comes late.
void overwrite_after_send(tl::Context& tl, const Tensor& x, const Tensor& y, std::int64_t) {
  if (tl.rank() == 0) {
    const tl::Handle h = part(tl, x, 0, kRoundElements);
    for (std::int64_t r = 0; r < kRounds; ++r) {
      tl.fill(h, static_cast<double>(r));
      tl.send(Direction::E, h, true);
    }
  } else {
    tl.cpu_overhead(20000);
    for (std::int64_t r = 0; r < kRounds; ++r)
      tl.recv(Direction::W, Shape{kRoundElements}, DType::i32,
              tl::into(part(tl, y, r * kRoundElements, kRoundElements)));
  }
}

}  // namespace

/// 70,000 messages of 3 elements on average.
BOOST_DATA_TEST_CASE(seventy_thousand_messages_keep_their_order, bdata::make({"1", "2", "3", "4"}), slots) {
  constexpr std::int64_t kElements = 210000;
  const auto r = run_pair(stream, kElements, kElements, [](std::int64_t i) { return static_cast<std::int32_t>(i); },
                          {{"pe.ipcq.slots", slots}, {"pe.cost_model.fixed_per_single_op_cycles", "1"}});
  check_done(r);
  BOOST_TEST(r.result.numerics.elements == 0u);
  BOOST_TEST(r.result.launches.at(0).result.pes.at(0).ipcq_sends == 70000u);
  BOOST_TEST(r.result.launches.at(0).result.pes.at(1).ipcq_recvs == 70000u);
}

/// Fails where the value is taken when the DMA comes to it: by then it is that of a later round.
BOOST_DATA_TEST_CASE(the_value_sent_is_that_at_the_send, bdata::make({"1", "4"}), slots) {
  const auto r = run_pair(overwrite_after_send, kRoundElements, kRounds * kRoundElements,
                          [](std::int64_t i) { return static_cast<std::int32_t>(i / kRoundElements); },
                          {{"pe.ipcq.slots", slots}});
  check_done(r);
  BOOST_TEST(r.result.numerics.elements == 0u);
}

namespace {

/// Long, short and empty messages in turn, as many under way as there are slots.
void lengths(tl::Context& tl, std::uint32_t from) {
  static constexpr std::int64_t kBytes[] = {4096, 0, 32, 4000, 1, 0, 0, 300, 4096, 0, 257, 96};
  for (int round = 0; round < 4; ++round)
    for (const std::int64_t bytes : kBytes)
      if (tl.rank() == from)
        tl.send(Direction::E, tl.empty(Shape{bytes}, DType::i8));
      else
        tl.recv(Direction::W, Shape{bytes}, DType::i8);
}

double latency_of_lengths(std::uint32_t from, std::uint32_t to, const std::vector<Override>& keys) {
  const Setup setup =
      two_sips_of_two_cubes(Mode::timing).with({{"pe.ipcq.slots", "8"}, {"pe.dma.overhead_ns", "0"}}).with(keys);
  const RunOutcome r = run_own(setup, [&](BenchContext& ctx) {
    return launch(ctx, tl::bind_kernel("lengths", lengths, from), pair(ctx.machine(), from, to));
  });
  check_done(r);
  return r.result.latency_ns;
}

}  // namespace

/// Short and empty messages do not overtake long ones that still trickle out of a slow link into a fast one (a recv
/// refuses another size than its own), over mesh, UCIe and inter-SIP links. A single flow is the same by flit and
/// packet.
BOOST_DATA_TEST_CASE(messages_do_not_overtake, bdata::make({1u, 8u, 16u, 31u}) * bdata::make({"1", "4"}), to,
                     outstanding) {
  for (const char* slow : {"128", "16"}) {
    const std::vector<Override> keys{{"pe.dma.outstanding", outstanding},
                                     {"cube.ucie.bw_gbs", slow},
                                     {"system.fabric.link_bw_gbs", slow},
                                     {"pe.cost_model.fixed_per_single_op_cycles", "1"}};
    const double packet = latency_of_lengths(0, to, keys);
    std::vector<Override> by_flit = keys;
    by_flit.emplace_back("fabric.granularity", "flit");
    BOOST_TEST(packet == latency_of_lengths(0, to, by_flit), boost::test_tools::tolerance(1e-12));
  }
}

namespace {
void one_message(tl::Context& tl, std::int64_t bytes) {
  if (tl.rank() == 0)
    tl.send(Direction::E, tl.empty(Shape{bytes}, DType::i8));
  else
    tl.recv(Direction::W, Shape{bytes}, DType::i8);
}
double latency_of_one(std::int64_t bytes, const std::vector<Override>& keys) {
  const RunOutcome r = run_own(two_sips_of_two_cubes(Mode::timing).with(keys), [&](BenchContext& ctx) {
    return launch(ctx, tl::bind_kernel("one", one_message, bytes), pair(ctx.machine(), 0, 8));
  });
  check_done(r);
  return r.result.latency_ns;
}
}  // namespace

/// An empty message is a control message but for its place (spec 1.4): overhead and propagation only. Dispatch 8 + 1,
/// DMA 2, UCIe 2 x 8; propagation 0.01 ns/mm each way: from PE 0 on r0c0 five links of 3 mm to r0c5 and cube 1's r0c0,
/// and the credit back over them.
BOOST_AUTO_TEST_CASE(an_empty_message_pays_overhead_and_propagation) {
  const double wires = 5 * 3 * 0.01;
  BOOST_TEST(latency_of_one(0, {{"pe.ipcq.credit_bytes", "0"}}) == 8 + 1 + 2 + 16 + wires + 16 + wires,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(latency_of_one(0, {}) < latency_of_one(1, {}));
}

// ---- stalls ------------------------------------------------------------------------------------------------------

namespace {

/// Makes a kernel's PE pause at random before its receives, and at one time in 16 for long.
class Stalling : public KernelProgram {
 public:
  Stalling(const KernelProgram& kernel, std::uint32_t seed) : kernel_(kernel), seed_(seed) {}
  const char* name() const override { return "stalling"; }
  void run(PePort& pe) const override {
    Port port(pe, seed_);
    kernel_.run(port);
  }

 private:
  class Port : public PePort {
   public:
    Port(PePort& pe, std::uint32_t seed) : pe_(pe), random_(seed * 4099 + pe.machine().rank_of(pe.id())) {}
    const MachineInfo& machine() const override { return pe_.machine(); }
    PeId id() const override { return pe_.id(); }
    Mode mode() const override { return pe_.mode(); }
    const std::string& name() const override { return pe_.name(); }
    CommandId issue(Command command) override {
      if (command.kind == CommandKind::ipcq_recv)
        pe_.spend_cycles(static_cast<double>(random_() % (random_() % 16 == 0 ? 3000 : 60)));
      return pe_.issue(std::move(command));
    }
    void wait(CommandId id, const char* why) override { pe_.wait(id, why); }
    bool done(CommandId id) const override { return pe_.done(id); }
    void spend_cycles(double cycles) override { pe_.spend_cycles(cycles); }
    Ps now() const override { return pe_.now(); }
    bool has_peer(Direction direction) const override { return pe_.has_peer(direction); }

   private:
    PePort& pe_;
    std::mt19937 random_;
  };
  const KernelProgram& kernel_;
  std::uint32_t seed_;
};

}  // namespace

/// All-reduce of r * 1000 + i over ranks r whose receivers stall at random: exact in f32.
BOOST_DATA_TEST_CASE(random_stalls_keep_data_right,
                     bdata::make({"ring_1d", "mesh", "tree"}) * bdata::make({"1", "3"}) * bdata::make({1u, 2u}), algo,
                     slots, seed) {
  const Setup setup = two_sips_of_two_cubes().with({{"pe.ipcq.slots", slots}});
  const RunOutcome r = run_own(setup, [&](BenchContext& ctx) {
    constexpr std::int64_t kElements = 150, kRanks = 32;
    collectives::Spec spec;
    spec.algo = collectives::algo_from_name(algo);
    spec.n_elem = kElements;
    spec.dtype = DType::f32;
    spec.chunk_bytes = 64;
    const auto plan = collectives::Plan::make(ctx.machine(), spec);
    std::vector<std::pair<std::uint32_t, Shape>> shards;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) shards.emplace_back(rank, Shape{kElements});
    Host& host = ctx.host();
    const Tensor x = host.allocate("x", DType::f32, Space::tcm, shards);
    std::vector<float> values(kElements);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(rank * 1000 + i);
      host.write(x, rank, values.data(), values.size() * 4);
    }
    const auto kernel = tl::bind_kernel("allreduce", collectives::collective, plan, x);
    BenchResult result = launch(ctx, Stalling(kernel, seed), plan.launch_options());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      host.read(x, rank, values.data(), values.size() * 4);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != static_cast<float>(1000 * (kRanks * (kRanks - 1) / 2) + kRanks * static_cast<int>(i)))
          ++result.numerics.elements;
    }
    return result;
  });
  check_done(r);
  BOOST_TEST(r.result.numerics.elements == 0u);
}

// ---- independence of other traffic -------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kLong = 1 << 20;

/// Rank 0 stores `bytes` to rank 8's slice; while that is under way it sends a small message to rank 8.
void send_beside_a_store(tl::Context& tl, const Tensor& slice, std::int64_t bytes) {
  if (tl.rank() == 0) {
    if (bytes > 0) tl.store(slice.shards.at(0).addr, tl.resident(tl.machine().scratch_bytes, Shape{bytes}, DType::i8));
    tl.cpu_overhead(500);
    tl.send(Direction::E, tl.resident(tl.machine().scratch_bytes, Shape{256}, DType::i8));
  } else {
    tl.recv(Direction::W, Shape{256}, DType::i8);
  }
}

/// Rank 0 sends `bytes` to rank 8; while that is under way it stores 256 B to rank 8's slice.
void store_beside_a_send(tl::Context& tl, const Tensor& slice, std::int64_t bytes) {
  if (tl.rank() == 0) {
    if (bytes > 0) tl.send(Direction::E, tl.resident(tl.machine().scratch_bytes, Shape{bytes}, DType::i8), true);
    tl.cpu_overhead(500);
    tl.store(slice.shards.at(0).addr, tl.resident(tl.machine().scratch_bytes, Shape{256}, DType::i8));
  } else if (bytes > 0) {
    tl.recv(Direction::W, Shape{bytes}, DType::i8);
  }
}

/// Times of the two PEs from the start of the launch.
std::vector<double> times(void (*kernel)(tl::Context&, const Tensor&, std::int64_t), std::int64_t bytes,
                          const std::vector<Override>& keys) {
  std::vector<double> ns;
  const RunOutcome r = run_own({"eight_cubes", keys, Mode::timing}, [&](BenchContext& ctx) {
    const Tensor slice = ctx.host().allocate("slice", DType::i8, Space::hbm, {{8, Shape{kLong}}});
    BenchResult result = launch(ctx, tl::bind_kernel("beside", kernel, slice, bytes), pair(ctx.machine(), 0, 8));
    for (const PeStats& pe : result.launches.back().result.pes) ns.push_back(ns_from_ps(pe.done - pe.start));
    return result;
  });
  check_done(r);
  ns.resize(2);
  return ns;
}

/// A packet of the other channel at each link from PE 0 to PE 8.
double one_packet_per_link() {
  const SystemConfig config = load_config(Setup{"eight_cubes", {}}.file());
  const Topology topology(config);
  RouteTable routes(topology);
  const Route* route = routes.route(topology.pe(0), topology.pe(8), 0);
  Ps ps = 0;
  for (const Hop& hop : route->hops) ps += 16 * hop.flit;
  return ns_from_ps(ps);
}

}  // namespace

/// A message of 256 B behind a store of 1 MiB (8.2 us on the UCIe connection): on a channel of its own it waits for a
/// packet of the store at each link of its way and no longer.
BOOST_AUTO_TEST_CASE(queue_messages_pass_compute_traffic) {
  const double alone = times(send_beside_a_store, 0, {}).at(1);
  const auto both = times(send_beside_a_store, kLong, {});
  BOOST_TEST(both.at(0) > 8000.0);
  BOOST_TEST(both.at(1) >= alone);
  BOOST_TEST(both.at(1) <= alone + one_packet_per_link(), "alone " << alone << " ns, beside the store " << both.at(1));
}

/// The other way round. The DMA's queue engine has a write engine of its own.
BOOST_AUTO_TEST_CASE(compute_traffic_passes_queue_messages) {
  const double alone = times(store_beside_a_send, 0, {}).at(0);
  const auto both = times(store_beside_a_send, kLong, {{"pe.dma.outstanding", "4"}, {"pe.ipcq.slots", "8"}});
  BOOST_TEST(both.at(1) > 8000.0);
  // Besides, its PE accepts the long send before it: 8 cycles of dispatch.
  BOOST_TEST(both.at(0) <= alone + 8 + one_packet_per_link(),
             "alone " << alone << " ns, beside the send " << both.at(0));
}

/// Full slots hold the message back at its sender: nothing of it stands in the fabric, where a store goes by as if it
/// were alone.
BOOST_AUTO_TEST_CASE(full_slots_leave_the_fabric_free) {
  const auto kernel = [](tl::Context& tl, const Tensor& slice, std::int64_t bytes) {
    if (tl.rank() == 0) {
      if (bytes > 0)
        tl.send(Direction::E, tl.resident(tl.machine().scratch_bytes, Shape{bytes}, DType::i8), true);
      else
        tl.cpu_overhead(8);
      tl.cpu_overhead(500);
      tl.store(slice.shards.at(0).addr, tl.resident(tl.machine().scratch_bytes, Shape{65536}, DType::i8));
    } else if (bytes > 0) {
      tl.cpu_overhead(20000);
      tl.recv(Direction::W, Shape{bytes}, DType::i8);
    }
  };
  const double alone = times(kernel, 0, {}).at(0);
  const auto both = times(kernel, 65536, {});
  BOOST_TEST(both.at(1) > 20000.0);
  BOOST_TEST(both.at(0) - alone == 0.0, boost::test_tools::tolerance(1e-9));
}

// ---- waits that never end ----------------------------------------------------------------------------------------

namespace {

/// Each waits for the other's message first.
void wait_for_each_other(tl::Context& tl) {
  const Direction d = tl.rank() == 0 ? Direction::E : Direction::W;
  const tl::Handle h = tl.recv(d, Shape{4}, DType::i32);
  tl.send(d, h);
}

/// Rank 77 expects one message more than rank 76 sends; the others finish.
void one_waits(tl::Context& tl) {
  tl.cpu_overhead(100);
  if (tl.rank() == 76) tl.send(Direction::E, tl.empty(Shape{8}, DType::i32));
  if (tl.rank() == 77)
    for (int i = 0; i < 2; ++i) tl.recv(Direction::W, Shape{8}, DType::i32);
}

void check_names(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    BOOST_TEST((message.find(part) != std::string::npos), "found '" << message << "', expected '" << part << "'");
}

/// Ticks for ever beside the machine.
class ForeignClock : public sc_core::sc_module {
 public:
  explicit ForeignClock(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    SC_HAS_PROCESS(ForeignClock);
    SC_METHOD(count);
    sensitive << clock.posedge_event();
    dont_initialize();
  }
  sc_core::sc_clock clock{"clock", sc_core::sc_time(7, sc_core::SC_NS)};
  std::uint64_t edges = 0;

 private:
  void count() { ++edges; }
};

const std::vector<std::string> kPairReport{"deadlock at",
                                           "tray.sip0.cube0.pe0 waits in tl.recv(E) for ipcq_recv command 1",
                                           "tray.sip0.cube0.pe1 waits in tl.recv(W) for ipcq_recv command 1",
                                           "E to PE 1: head 0, tail 0, credits 4 of 4",
                                           "E from PE 1: head 0, tail 0, 1 recvs wait",
                                           "W to PE 0: head 0, tail 0, credits 4 of 4",
                                           "W from PE 0: head 0, tail 0, 1 recvs wait"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_pair_that_waits_for_each_other_is_reported) {
  const RunOutcome r = run_own({"one_cube", {}}, [](BenchContext& ctx) {
    return launch(ctx, tl::bind_kernel("wait", wait_for_each_other), pair(ctx.machine(), 0, 1));
  });
  BOOST_TEST((r.code == ExitCode::model_error));
  check_names(r.message, kPairReport);
}

BOOST_AUTO_TEST_CASE(a_lone_receive_among_255_that_finish_is_reported) {
  const RunOutcome r = run_own({"default", {}, Mode::timing}, [](BenchContext& ctx) {
    LaunchOptions options = pair(ctx.machine(), 76, 77);
    options.pes.clear();  // all
    return launch(ctx, tl::bind_kernel("one_waits", one_waits), options);
  });
  BOOST_TEST((r.code == ExitCode::model_error));
  check_names(r.message, {"tray.sip0.cube9.pe5 waits in tl.recv(W) for ipcq_recv command 2",
                          "W from PE 76: head 1, tail 1, 1 recvs wait"});
  // Nobody else is said to wait.
  BOOST_TEST(r.message.find("waits in") == r.message.rfind("waits in"));
}

BOOST_FIXTURE_TEST_CASE(a_foreign_clock_does_not_hide_a_pair, FreshContext) {
  ForeignClock clock("foreign");
  Platform platform("tray", load_config(Setup{"one_cube", {}}.file()));
  const auto kernel = tl::bind_kernel("wait", wait_for_each_other);
  try {
    platform.host().launch(kernel, pair(platform.host().machine(), 0, 1));
    BOOST_ERROR("no error");
  } catch (const ModelError& e) {
    check_names(e.what(), kPairReport);
  }
  BOOST_TEST(clock.edges > 0u);
  BOOST_TEST(clock.edges < 1000u);  // found when the last thing was over, not after some time limit
}

BOOST_FIXTURE_TEST_CASE(a_foreign_clock_does_not_hide_a_lone_receive, FreshContext) {
  ForeignClock clock("foreign");
  Platform platform("tray", load_config(Setup{"default", {}}.file()));
  LaunchOptions options = pair(platform.host().machine(), 76, 77);
  options.pes.clear();
  const auto kernel = tl::bind_kernel("one_waits", one_waits);
  try {
    platform.host().launch(kernel, options);
    BOOST_ERROR("no error");
  } catch (const ModelError& e) {
    check_names(e.what(), {"tray.sip0.cube9.pe5 waits in tl.recv(W) for ipcq_recv command 2",
                           "W from PE 76: head 1, tail 1, 1 recvs wait"});
  }
  BOOST_TEST(clock.edges > 0u);
  BOOST_TEST(clock.edges < 1000u);
}

// ---- errors amid traffic -----------------------------------------------------------------------------------------

/// A kernel fails while stores and messages are half way: the run ends with its error, and the machine goes down in
/// order with all that was under way. (Payloads whose target had lent them an extension once outlived it.)
BOOST_AUTO_TEST_CASE(an_error_amid_traffic_is_reported) {
  const auto kernel = [](tl::Context& tl, const Tensor& slice) {
    const std::uint64_t tcm = tl.machine().scratch_bytes;
    tl.store(slice.shards.at(1 - tl.rank()).addr, tl.resident(tcm, Shape{kLong}, DType::i8));
    tl.send(tl.rank() == 0 ? Direction::E : Direction::W, tl.resident(tcm, Shape{65536}, DType::i8), true);
    tl.cpu_overhead(300);
    if (tl.rank() == 1) tl.resident(0, Shape{1}, DType::i8);  // where scratch is
    tl.cpu_overhead(3000);
  };
  for (int run = 0; run < 2; ++run) {
    const RunOutcome r = run_own({"one_cube", {}, Mode::timing}, [&](BenchContext& ctx) {
      const Tensor slice = ctx.host().allocate("slice", DType::i8, Space::hbm, {{0, Shape{kLong}}, {1, Shape{kLong}}});
      return launch(ctx, tl::bind_kernel("failing", kernel, slice), pair(ctx.machine(), 0, 1));
    });
    BOOST_TEST((r.code == ExitCode::model_error), "run " << run);
    check_names(r.message, {"tl.resident on tray.sip0.cube0.pe1"});
  }
}

BOOST_AUTO_TEST_SUITE_END()
