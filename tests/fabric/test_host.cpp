// The host port and the launch path: copies, rows N3 and N4, completions.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <map>

#include "fabric_bench.h"
#include "sc_fixture.h"

using namespace kb;
using namespace kb::test;

namespace {

/// The control end point of a PE's cpu: notes the common start, answers after `work`.
class CpuStub : public sc_core::sc_module, public PacketFwIf, public MessageOwner {
 public:
  PacketTargetSocket control_in{"control_in"};
  PacketInitiatorSocket control_out{"control_out"};
  Ps overhead = 2'000;
  Ps work = 100'000;
  Ps arrived = -1;
  Ps started = -1;
  explicit CpuStub(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    control_in.bind(static_cast<PacketFwIf&>(*this));
    SC_HAS_PROCESS(CpuStub);
    SC_METHOD(complete);
    sensitive << done_;
    dont_initialize();
  }
  tlm::tlm_sync_enum nb_transport_fw(Packet& packet, PacketPhase&, sc_core::sc_time& delay) override {
    arrived = now_ps() + to_ps(delay);
    launch_ = packet.message->launch;
    back_ = packet.message->route->reverse;
    started = std::max(arrived + overhead, launch_->start);
    packet.message->owner->packet_consumed(packet);
    done_.notify(to_sc_time(started + work - now_ps()));
    return tlm::TLM_ACCEPTED;
  }
  void packet_consumed(Packet&) override { ++returned; }
  int returned = 0;

 private:
  void complete() {
    message_ = Message{};
    message_.kind = Message::Kind::launch;
    message_.route = back_;
    message_.launch = launch_;
    message_.owner = this;
    packet_ = Packet{};
    packet_.message = &message_;
    PacketPhase phase = PacketPhase::send;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    control_out->nb_transport_fw(packet_, phase, delay);
  }
  LaunchMessage* launch_ = nullptr;
  const Route* back_ = nullptr;
  Message message_;
  Packet packet_;
  sc_core::sc_event done_;
};

class CpuTray : public sc_core::sc_module {
 public:
  explicit CpuTray(const SystemConfig& config, const sc_core::sc_module_name& name = "tray")
      : sc_core::sc_module(name), cpus(config.total_pes()) {
    FabricOptions options;
    options.make_pe = [this](const char* pe, const PeAttachment& at) {
      auto c = std::make_unique<CpuStub>(pe);
      at.launch->bind(c->control_in);
      c->control_out.bind(*at.completion);
      c->work = 100'000 + 7 * at.rank;
      cpus[at.rank] = c.get();
      return c;
    };
    fabric = std::make_unique<Fabric>(config, options);
  }
  std::vector<CpuStub*> cpus;
  std::unique_ptr<Fabric> fabric;
};

Ps copy(Fabric& fabric, bool to_device, std::uint64_t address, std::uint64_t bytes, unsigned char* data = nullptr) {
  Ps latency = -1;
  fabric.host().start_copy(to_device, address, bytes, [&](Ps t) { latency = t; }, data);
  sc_core::sc_start();
  return latency;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric_host)

// Row N3: 545 ns published, 6 %. 64 KiB at 128 GB/s 512; overheads there 5 + 8 + 8 and back; flits over the links behind
// the pcie_ep's: io_noc 1, PHY 2, UCIe-router 1, HBM 1; the last burst's commit 8.
BOOST_FIXTURE_TEST_CASE(row_n3_host_write, FreshContext) {
  Tray tray(machine("default"));
  const Ps latency = copy(tray.fabric, true, tray.fabric.addresses().hbm(0, 0, 0), 64 * KiB);
  BOOST_TEST(latency == 512'000 + 2 * 21'000 + 5'000 + 8'000);
  BOOST_TEST(std::abs(ns_from_ps(latency) - 545) <= 0.06 * 545);
  tray.fabric.check_conservation();
}

BOOST_FIXTURE_TEST_CASE(host_read_ends_with_its_last_byte, FreshContext) {
  Tray tray(machine("default"));
  // 21 there; channel 8, HBM 1, router-UCIe 1, PHY 2, io_noc 1, pcie_ep 2; 255 flits more at 2; 21 back.
  const Ps latency = copy(tray.fabric, false, tray.fabric.addresses().hbm(0, 0, 0), 64 * KiB);
  BOOST_TEST(latency == 2 * 21'000 + 8'000 + 1'000 + 1'000 + 2'000 + 1'000 + 2'000 + 255 * 2'000);
  tray.fabric.check_conservation();
}

BOOST_FIXTURE_TEST_CASE(host_copies_carry_data, FreshContext) {
  Tray tray(machine("default"));
  std::vector<unsigned char> out(100'000), in(100'000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 7 + 3);
  const std::uint64_t address = tray.fabric.addresses().hbm(1, 9, 4, 12345);
  std::vector<Ps> latencies;
  tray.fabric.host().start_copy(true, address, out.size(), [&](Ps t) { latencies.push_back(t); }, out.data());
  tray.fabric.host().start_copy(false, address, in.size(), [&](Ps t) { latencies.push_back(t); }, in.data());
  sc_core::sc_start();
  BOOST_TEST(latencies.size() == 2u);
  BOOST_TEST(in == out);
  tray.fabric.check_conservation();
}

BOOST_FIXTURE_TEST_CASE(host_copy_errors, FreshContext) {
  Tray tray(machine("default"));
  const AddressMap& map = tray.fabric.addresses();
  BOOST_CHECK_EXCEPTION(tray.fabric.host().start_copy(true, map.hbm(0, 15, 7, (6ull << 30) - 10), 11, [](Ps) {}), ModelError,
                        [](const ModelError& e) { return std::string(e.what()).find("tray.sip0.cube15.hbm7") != std::string::npos; });
  BOOST_CHECK_THROW(tray.fabric.host().start_copy(true, 5ull << 47, 256, [](Ps) {}), ModelError);
  tray.fabric.check_conservation();
}

BOOST_FIXTURE_TEST_CASE(open_host_port_refuses_copies, FreshContext) {
  Tray tray(machine("one_cube", {{"open.host_port", "true"}}));
  BOOST_CHECK_THROW(tray.fabric.host().start_copy(true, 0, 256, [](Ps) {}), InputError);
}

BOOST_FIXTURE_TEST_CASE(modules_have_the_names_of_the_hierarchy, FreshContext) {
  CpuTray tray(machine("default"));
  for (const char* name : {"tray.sip0.cube3.pe5", "tray.sip0.cube3.hbm5", "tray.sip0.cube3.r1c4", "tray.sip0.cube3.ucie_e.c2",
                           "tray.sip0.cube3.m_cpu", "tray.sip0.cube3.sram", "tray.sip1.io.pcie_ep", "tray.sip0.io.ual_ep",
                           "tray.sip0.io.io_cpu", "tray.sip0.io.io_noc", "tray.sip0.io.phy3.c1"})
    BOOST_TEST(sc_core::sc_find_object(name) != nullptr, name);
  BOOST_TEST(sc_core::sc_find_object("tray.sip0.cube3.r2c2") == nullptr);
}

// Row N4: everybody starts in the same picosecond, which is the earliest possible one.
BOOST_FIXTURE_TEST_CASE(row_n4_common_start_of_128_and_256, FreshContext) {
  for (const std::uint32_t count : {128u, 256u}) {
    FreshContext fresh;
    CpuTray tray(machine("default"));
    LaunchMessage launch;
    for (std::uint32_t r = 0; r < count; ++r) launch.pes.push_back(r);
    Ps done = -1;
    tray.fabric->host().start_launch(launch, [&] { done = now_ps(); });
    sc_core::sc_start();
    Ps latest = 0;
    for (std::uint32_t r = 0; r < count; ++r) {
      BOOST_TEST(tray.cpus[r]->started == launch.start);
      latest = std::max(latest, tray.cpus[r]->arrived + 2'000);
      BOOST_TEST(tray.cpus[r]->returned == 1);
    }
    BOOST_TEST(launch.start == latest);
    for (std::uint32_t r = count; r < tray.cpus.size(); ++r) BOOST_TEST(tray.cpus[r]->started == -1);
    BOOST_TEST(done > launch.start + 100'000 + 7 * (count - 1));
    tray.fabric->check_conservation();
  }
}

// One PE of cube 0: pcie_ep 5, io_cpu 10; two UCIe ports 16; 2 hops from column 0 to m_cpu on r0c2, 5; back to r0c0; cpu 2.
// The completion pays m_cpu, UCIe, io_cpu and pcie_ep.
BOOST_FIXTURE_TEST_CASE(launch_path_by_hand, FreshContext) {
  CpuTray tray(machine("default"));
  tray.cpus[0]->work = 50'000;
  LaunchMessage launch;
  launch.pes = {0};
  Ps done = -1;
  tray.fabric->host().start_launch(launch, [&] { done = now_ps(); });
  sc_core::sc_start();
  const Ps start = 5'000 + 10'000 + 16'000 + 2 * 30 + 5'000 + 2 * 30 + 2'000;
  BOOST_TEST(launch.start == start);
  BOOST_TEST(done == start + 50'000 + 2 * 30 + 5'000 + 2 * 30 + 16'000 + 10'000 + 5'000);
}

BOOST_FIXTURE_TEST_CASE(two_launches_at_once, FreshContext) {
  CpuTray tray(machine("default"));
  LaunchMessage a, b;
  a.pes = {0, 1, 9, 100};
  b.pes = {130, 200, 255};
  b.lead_sip = 1;
  int done = 0;
  tray.fabric->host().start_launch(a, [&] { ++done; });
  tray.fabric->host().start_launch(b, [&] { ++done; });
  sc_core::sc_start();
  BOOST_TEST(done == 2);
  for (const std::uint32_t r : a.pes) BOOST_TEST(tray.cpus[r]->started == a.start);
  for (const std::uint32_t r : b.pes) BOOST_TEST(tray.cpus[r]->started == b.start);
  tray.fabric->check_conservation();
}

BOOST_FIXTURE_TEST_CASE(impossible_launches, FreshContext) {
  Tray tray(machine("one_cube"));
  LaunchMessage none;
  BOOST_CHECK_THROW(tray.fabric.host().start_launch(none, [] {}), InputError);
  LaunchMessage far;
  far.pes = {0};
  far.lead_sip = 3;
  BOOST_CHECK_THROW(tray.fabric.host().start_launch(far, [] {}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
