// Foreign initiators of every kind at once: b_transport, with and without temporal decoupling, beside nb_transport on
// the same sockets, at every open end, while kernels run on the PEs.
#include <boost/test/unit_test.hpp>

#include "foreign_ip.h"
#include "junction.h"
#include "protocol_monitor.h"
#include "random_initiator.h"
#include "sc_fixture.h"
#include "session.h"
#include "temp_dir.h"

#include <kb/kernels/launch.h>
#include <kb/platform/machine.h>
#include <kb/platform/platform.h>
#include <kb/platform/recording.h>

#include <algorithm>
#include <memory>
#include <random>

using namespace kb;
using namespace kb::test;

namespace {

constexpr std::uint32_t kPes = 8;
constexpr char kSlice[] = "tray.sip0.cube0.hbm2";
constexpr char kEdge[] = "tray.sip0.cube0.ucie_e";
constexpr char kPort[] = "tray.sip0.io.ual_ep";
constexpr std::uint64_t kWindows = 16 * MiB;  // beyond the tensors

struct Product {
  Tensor a, b, c;
};
/// Each PE multiplies its own A with the B of the PE after it.
void multiply(tl::Context& tl, const Product& p) {
  const std::uint32_t own = tl.rank();
  const auto ref = [&tl](const Tensor& t, std::uint32_t r) {
    return tl.ref(t.shards[r].addr, t.shards[r].shape, t.dtype);
  };
  tl.wait(tl.composite(tl::gemm(ref(p.a, own), ref(p.b, (own + 1) % kPes)).into(ref(p.c, own))));
}

constexpr std::uint64_t kEach = 1'500;  // transactions of each initiator

enum class Order { first, reversed };

struct Outcome {
  std::vector<Ps> latencies;  // of the launches
  std::vector<float> c;
  std::string op_log;
  Ps end = 0;
};

/// The initiators and memories of a test around one cube with all of its ends open.
class Surroundings {
 public:
  Surroundings(Platform& platform, std::uint64_t count, Order order) : count_(count) {
    const AddressMap map = address_map(platform.config());
    const std::uint64_t edge = std::uint64_t{21} << AddressMap::kOffsetBits;
    const std::uint64_t other_sip = std::uint64_t{1} << 47;
    std::vector<std::uint64_t> inside{map.sram(0, 0, 0)};
    for (const std::uint32_t slice : {0u, 2u, 5u}) inside.push_back(map.hbm(0, 0, slice, kWindows));
    const auto with = [&inside](std::initializer_list<std::uint64_t> more) {
      auto all = inside;
      all.insert(all.end(), more);
      return all;
    };
    const OpenEdge ucie = platform.ucie_edge(kEdge);
    const OpenEdge inter_sip = platform.inter_sip(kPort);
    std::vector<std::function<void()>> build{
        [&] { initiators("host", 0, with({edge}), platform.host_port()); },
        [&] { initiators("die", 1, with({other_sip}), ucie.inward); },
        [&] { initiators("sip", 2, with({edge}), inter_sip.inward); },
        [&] { memory("slice_memory", 1, kWindows + 1 * MiB, platform.hbm(kSlice)); },
        [&] { memory("die_memory", 2, 1 * MiB, ucie.outward); },
        [&] { memory("sip_memory", 3, 1 * MiB, inter_sip.outward); }};
    if (order == Order::reversed) std::reverse(build.begin(), build.end());
    for (const auto& b : build) b();
  }

  void check() {
    for (const auto& m : monitors_) {
      m->finish();
      for (const std::string& r : m->reports) BOOST_ERROR(r);
      BOOST_TEST(m->transactions != 0u);
    }
    std::uint64_t done = 0;
    for (const auto& i : initiators_) {
      done += i->done;
      BOOST_TEST_INFO(i->name());
      BOOST_TEST(i->wrong == 0u);
      BOOST_TEST(i->outstanding() == 0u);
      BOOST_TEST(i->finished_blocking);
      BOOST_TEST(i->misplaced() == 0u);
    }
    BOOST_TEST(done == 9 * count_);
    for (const auto& m : memories_) BOOST_TEST(m->faults.empty());
  }

 private:
  /// One that does not block, one that blocks and one that blocks and is temporally decoupled.
  void initiators(const std::string& name, std::uint64_t number, const std::vector<std::uint64_t>& targets,
                  BaseTargetSocket& to) {
    constexpr std::uint64_t kKinds = 3;
    junctions_.push_back(std::make_unique<Junction>((name + "_junction").c_str(), kKinds));
    Junction& junction = *junctions_.back();
    for (std::uint64_t kind = 0; kind < kKinds; ++kind) {
      RandomInitiator::Options o;
      const std::uint64_t n = number * kKinds + kind;
      o.seed = 100 + n;
      (kind == 0 ? o.count : o.blocking) = count_;
      o.quantum = kind == 2 ? 1'000'000 : 0;
      o.start = static_cast<Ps>(n) * 10'000;
      o.targets = targets;
      for (auto& t : o.targets) t += n * 8 * KiB;
      const std::string own = name + std::to_string(kind);
      initiators_.push_back(std::make_unique<RandomInitiator>(own.c_str(), o));
      monitors_.push_back(std::make_unique<ProtocolMonitor>((own + "_monitor").c_str(), ledger_));
      initiators_.back()->socket.bind(monitors_.back()->in);
      monitors_.back()->out.bind(junction.in(kind));
    }
    monitors_.push_back(std::make_unique<ProtocolMonitor>((name + "_monitor").c_str(), ledger_));
    junction.out.bind(monitors_.back()->in);
    monitors_.back()->out.bind(to);
  }

  void memory(const std::string& name, std::uint64_t seed, std::size_t size, BaseInitiatorSocket& from) {
    memories_.push_back(std::make_unique<ForeignMemory>(name.c_str(), size));
    ForeignMemory* m = memories_.back().get();
    m->each_request = [m, random = std::mt19937_64(seed)]() mutable {
      m->style = static_cast<AnswerStyle>(random() % 5);
      m->accept_ps = static_cast<Ps>(random() % 4'000);
      m->latency_ps = m->accept_ps + static_cast<Ps>(random() % 20'000);
    };
    monitors_.push_back(std::make_unique<ProtocolMonitor>((name + "_monitor").c_str(), ledger_));
    from.bind(monitors_.back()->in);
    monitors_.back()->out.bind(m->socket);
  }

  std::uint64_t count_;
  std::shared_ptr<PayloadLedger> ledger_ = std::make_shared<PayloadLedger>();
  std::vector<std::unique_ptr<Junction>> junctions_;
  std::vector<std::unique_ptr<RandomInitiator>> initiators_;
  std::vector<std::unique_ptr<ForeignMemory>> memories_;
  std::vector<std::unique_ptr<ProtocolMonitor>> monitors_;
};

/// Launches of `multiply` while `count` transactions come from each of the nine initiators.
Outcome run_mixed(std::uint64_t count, Order order = Order::first) {
  FreshContext fresh;
  SystemConfig config = load_config(topology("one_cube"));
  config.open.host_port = true;
  config.open.hbm = {kSlice};
  config.open.ucie_edge = {kEdge};
  config.open.inter_sip = {kPort};
  const TempDir dir;
  Recording recording(dir.path().string(), true, TraceOptions{});
  PlatformOptions options;
  options.mode = Mode::data;
  recording.observe(options);
  options.build_shuffle = order == Order::reversed ? 7 : 0;
  Platform platform("tray", config, options);
  recording.open(platform);
  Surroundings around(platform, count, order);

  Outcome o;
  ForeignInitiator launcher("launcher");
  ForeignMemory unused("unused", 16);
  launcher.socket.bind(unused.socket);
  launcher.body = [&](ForeignInitiator&) {
    Host& host = platform.host();
    const auto tensor = [&host](const char* name, const Shape& shape, float step) {
      std::vector<std::pair<std::uint32_t, Shape>> shards;
      for (std::uint32_t pe = 0; pe < kPes; ++pe) shards.emplace_back(pe, shape);
      Tensor t = host.allocate(name, DType::f32, Space::hbm, shards);
      std::vector<float> values(static_cast<std::size_t>(shape.numel()));
      for (std::uint32_t pe = 0; pe < kPes; ++pe) {
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = step * static_cast<float>((i + pe) % 13) - 2.0f;
        host.write(t, pe, values.data(), values.size() * sizeof(float));
      }
      return t;
    };
    const Product p{tensor("a", {32, 512}, 0.5f), tensor("b", {512, 64}, 0.25f), tensor("c", {32, 64}, 0)};
    for (int i = 0; i < 8; ++i) {
      o.latencies.push_back(host.launch(tl::bind_kernel("multiply", multiply, p)).latency());
      for (std::uint32_t pe = 0; pe < kPes; ++pe) {
        std::vector<float> c(32 * 64);
        host.read(p.c, pe, c.data(), c.size() * sizeof(float));
        o.c.insert(o.c.end(), c.begin(), c.end());
        const std::vector<float> nothing(c.size());
        host.write(p.c, pe, nothing.data(), c.size() * sizeof(float));
      }
    }
  };
  sc_core::sc_start();
  BOOST_TEST(launcher.finished);
  o.end = now_ps();
  platform.deliver_records();
  recording.finish();
  o.op_log = read_text(dir / "op_log.jsonl");
  if (count != 0) around.check();
  platform.check_conservation();
  return o;
}

void check_equal(const Outcome& x, const Outcome& y) {
  BOOST_TEST(x.latencies == y.latencies, boost::test_tools::per_element());
  BOOST_TEST(x.c == y.c);
  BOOST_TEST(x.end == y.end);
  BOOST_TEST(x.op_log.size() > 100'000u);
  BOOST_TEST((x.op_log == y.op_log));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mixed)

BOOST_AUTO_TEST_CASE(blocking_and_non_blocking_initiators_beside_kernels) {
  const Outcome alone = run_mixed(0);
  const Outcome mixed = run_mixed(kEach);
  // The values are those of the kernels alone, in each launch; the times are not.
  BOOST_TEST(mixed.c == alone.c);
  BOOST_TEST(std::any_of(alone.c.begin(), alone.c.end(), [](float v) { return v != 0; }));
  BOOST_TEST(mixed.latencies != alone.latencies);
  check_equal(mixed, run_mixed(kEach));
  // Neither does it matter in which order anything is built.
  check_equal(mixed, run_mixed(kEach, Order::reversed));
}

BOOST_AUTO_TEST_SUITE_END()
