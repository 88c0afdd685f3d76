// A whole cube under random traffic of foreign IP with random stalls everywhere: a protocol monitor on both sides of
// every base-protocol socket sees more than a million transactions and has nothing to say, and every byte is right.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "fabric_bench.h"
#include "foreign_ip.h"
#include "protocol_monitor.h"
#include "random_initiator.h"
#include "sc_fixture.h"

using namespace kb;
using namespace kb::test;

namespace {

/// The built-in memory controller behind a monitor, as an implementation of the user's own.
class MonitoredMemory : public MemoryModule {
 public:
  MonitoredMemory(const sc_core::sc_module_name& name, FabricContext& context, const MemoryControllerParams& params,
                  std::shared_ptr<PayloadLedger> ledger)
      : MemoryModule(name), monitor("monitor", std::move(ledger)), inner_("controller", context, params) {
    socket.bind(monitor.in);
    monitor.out.bind(inner_.socket);
  }
  bool orders_requests() const override { return inner_.orders_requests(); }
  bool states_idle_times() const override { return inner_.states_idle_times(); }
  void idle_read(std::uint64_t bytes, FlitTrain& out) const override { inner_.idle_read(bytes, out); }
  Ps idle_write(std::uint64_t bytes, const FlitTrain& arrivals) const override {
    return inner_.idle_write(bytes, arrivals);
  }
  void append_stats(std::vector<LinkStats>& stats) const override { inner_.append_stats(stats); }
  bool quiet() const override { return inner_.quiet(); }

  ProtocolMonitor monitor;

 private:
  MemoryController inner_;
};

constexpr std::uint32_t kHost = 8, kEdge = 9;  // initiators behind those of the eight PEs

/// Restless initiators in place of the PEs, at the host port and at an open edge; foreign memories on two slices and
/// beyond the edge; monitors on all of them and on the built-in memories.
class RestlessTray : public sc_core::sc_module {
 public:
  RestlessTray(std::uint64_t seed, std::uint64_t per_initiator, std::uint64_t blocking,
               const sc_core::sc_module_name& name = "tray")
      : sc_core::sc_module(name), random(seed) {
    const auto monitored = [this](const char* memory, FabricContext& context, const MemoryControllerParams& params) {
      auto m = std::make_unique<MonitoredMemory>(memory, context, params, ledger);
      monitors.push_back(&m->monitor);
      return m;
    };
    registry.hbm.add("monitored", monitored);
    registry.sram.add("monitored", monitored);
    const SystemConfig config = machine("one_cube", {{"cube.hbm.impl", "monitored"},
                                                     {"cube.sram.impl", "monitored"},
                                                     {"open.host_port", "true"},
                                                     {"open.hbm", "[tray.sip0.cube0.hbm2, tray.sip0.cube0.hbm5]"},
                                                     {"open.ucie_edge", "[tray.sip0.cube0.ucie_e]"}});
    FabricOptions options;
    options.registry = &registry;
    const AddressMap map = address_map(config);
    const auto initiator = [&, this](const char* n, std::uint32_t index, BaseTargetSocket& to) {
      RandomInitiator::Options o;
      o.seed = seed * 1000 + index;
      o.count = per_initiator;
      o.blocking = blocking;
      const std::uint64_t own = std::uint64_t{index} * 8 * KiB;
      for (const std::uint32_t slice : {0u, 2u, 5u, 7u}) o.targets.push_back(map.hbm(0, 0, slice, own));
      o.targets.push_back(map.sram(0, 0, own));
      if (index != kEdge) o.targets.push_back((std::uint64_t{21} << AddressMap::kOffsetBits) + own);  // beyond the edge
      auto i = std::make_unique<RandomInitiator>(n, o);
      initiators.push_back(i.get());
      owned.push_back(std::make_unique<ProtocolMonitor>((std::string(n) + "_monitor").c_str(), ledger));
      i->socket.bind(owned.back()->in);
      owned.back()->out.bind(to);
      sources.push_back(owned.back().get());
      return i;
    };
    options.make_pe = [&](const char* pe, const PeAttachment& at) -> std::unique_ptr<sc_core::sc_module> {
      return initiator(pe, at.rank, *at.dma);
    };
    fabric = std::make_unique<Fabric>(config, options);
    extra.push_back(initiator("host", kHost, fabric->host_socket()));
    const OpenEdge edge = fabric->open_ucie("tray.sip0.cube0.ucie_e");
    extra.push_back(initiator("edge", kEdge, edge.inward));
    foreign("far_memory", edge.outward);
    foreign("memory2", fabric->open_hbm("tray.sip0.cube0.hbm2"));
    foreign("memory5", fabric->open_hbm("tray.sip0.cube0.hbm5"));
  }

  void foreign(const char* n, BaseInitiatorSocket& from) {
    memories.push_back(std::make_unique<ForeignMemory>(n, 256 * KiB));
    ForeignMemory* m = memories.back().get();
    m->each_request = [this, m] {
      m->style = static_cast<AnswerStyle>(random() % 5);
      m->accept_ps = static_cast<Ps>(random() % 4'000);
      m->latency_ps = m->accept_ps + static_cast<Ps>(random() % 20'000);
    };
    owned.push_back(std::make_unique<ProtocolMonitor>((std::string(n) + "_monitor").c_str(), ledger));
    from.bind(owned.back()->in);
    owned.back()->out.bind(m->socket);
    monitors.push_back(owned.back().get());
  }

  std::mt19937_64 random;
  FabricRegistry registry;
  std::shared_ptr<PayloadLedger> ledger = std::make_shared<PayloadLedger>();
  std::vector<std::unique_ptr<ProtocolMonitor>> owned;
  std::vector<ProtocolMonitor*> sources, monitors;  // where transactions start, and where they end
  std::vector<RandomInitiator*> initiators;
  std::vector<std::unique_ptr<ForeignMemory>> memories;
  std::vector<std::unique_ptr<sc_core::sc_module>> extra;
  std::unique_ptr<Fabric> fabric;
};

constexpr std::uint64_t kSeeds = 5;
constexpr std::uint64_t kNonBlocking = 20'000, kBlocking = 500;  // of each of the ten initiators
static_assert(kSeeds * 10 * (kNonBlocking + kBlocking) >= 1'000'000);

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric_backpressure)

BOOST_DATA_TEST_CASE(a_fifth_of_a_million_transactions, boost::unit_test::data::xrange(kSeeds), seed) {
  FreshContext fresh;
  RestlessTray tray(seed + 1, kNonBlocking, kBlocking);
  sc_core::sc_start();
  std::uint64_t started = 0, blocking = 0, served = 0;
  for (ProtocolMonitor* m : tray.sources) {
    m->finish();
    started += m->transactions;
    blocking += m->blocking;
  }
  for (ProtocolMonitor* m : tray.monitors) {
    m->finish();
    served += m->transactions;
  }
  BOOST_TEST(started == 10 * (kNonBlocking + kBlocking));
  BOOST_TEST(blocking == 10 * kBlocking);
  BOOST_TEST(served == started);
  for (const auto* list : {&tray.sources, &tray.monitors})
    for (const ProtocolMonitor* m : *list)
      for (const std::string& r : m->reports) BOOST_ERROR(r);
  for (const RandomInitiator* i : tray.initiators) {
    BOOST_TEST(i->wrong == 0u);
    BOOST_TEST(i->outstanding() == 0u);
    BOOST_TEST(i->finished_blocking);
  }
  for (const auto& m : tray.memories) BOOST_TEST(m->faults.empty());
  tray.fabric->check_conservation();
}

BOOST_AUTO_TEST_SUITE_END()
