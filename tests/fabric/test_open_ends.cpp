// Open ends: a cube's UCIe edge, inter-SIP ports, two trays back to back, a host port driven by foreign IP.
#include <boost/test/unit_test.hpp>

#include "fabric_bench.h"
#include "foreign_ip.h"
#include "sc_fixture.h"

using namespace kb;
using namespace kb::test;

BOOST_AUTO_TEST_SUITE(fabric_open_ends)

// Outward: die 21 is the first open edge of a SIP, its addresses leave as offsets. Inward: this tray's own addresses.
BOOST_FIXTURE_TEST_CASE(ucie_edge_outward_and_inward, FreshContext) {
  TrafficTray tray(machine("one_cube", {{"open.ucie_edge", "[tray.sip0.cube0.ucie_w, tray.sip0.cube0.ucie_e]"}}));
  ForeignMemory west("west_memory", 1 << 20);
  ForeignMemory east("east_memory", 1 << 20);
  ForeignInitiator west_in("west_initiator");
  ForeignInitiator east_in("east_initiator");
  const auto w = tray.fabric->open_ucie("tray.sip0.cube0.ucie_w");
  const auto e = tray.fabric->open_ucie("tray.sip0.cube0.ucie_e");
  w.outward.bind(west.socket);
  e.outward.bind(east.socket);
  west_in.socket.bind(w.inward);
  east_in.socket.bind(e.inward);

  BOOST_CHECK_THROW(tray.fabric->open_ucie("tray.sip0.cube0.ucie_n"), InputError);

  // Topology order of the sides is n, s, e, w: the east edge is die 21, the west edge die 22.
  const auto die = [](std::uint64_t d, std::uint64_t offset) { return (d << 42) | offset; };
  tray.write(0, die(21, 0x100), 1024);
  tray.read(0, die(22, 0x200), 1024, 1'000'000);
  tray.read(5, die(22, 0x200), 256, 2'000'000);
  tray.read(0, die(23, 0), 256, 3'000'000);                // no such edge
  tray.read(0, die(22, (1ull << 42) - 16), 256, 4'000'000);  // crosses the window
  std::vector<unsigned char> data(4096, 0x77), back(4096);
  west_in.body = [&](ForeignInitiator& i) {
    sc_core::wait(10, sc_core::SC_US);
    tlm::tlm_response_status status{};
    // Lane of the target: PE 6's slice, connection 2 on row 4. UCIe 2 and then 1 per flit and link; 16 overhead is
    // the neighbour's to pay by half: the edge itself has none.
    i.b(tlm::TLM_WRITE_COMMAND, tray.hbm(0, 0, 6, 64), data.data(), 4096, &status);
    BOOST_TEST(status == tlm::TLM_OK_RESPONSE);
    i.b(tlm::TLM_READ_COMMAND, tray.hbm(0, 0, 6, 64), back.data(), 4096, &status);
    BOOST_TEST(status == tlm::TLM_OK_RESPONSE);
    i.b(tlm::TLM_READ_COMMAND, die(21, 0), back.data(), 16, &status);  // through the cube and out of the other side
    BOOST_TEST(status == tlm::TLM_OK_RESPONSE);
    i.b(tlm::TLM_READ_COMMAND, die(22, 0), back.data(), 16, &status);  // back where it came from: there is no such way
    BOOST_TEST(status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  };
  tray.run();
  BOOST_TEST(west_in.finished);
  BOOST_TEST(east.served == 2);
  BOOST_TEST(west.served == 2);
  BOOST_TEST(east.faults.empty());
  BOOST_TEST(west.faults.empty());
  BOOST_TEST(back[100] == 0x77);
  const auto& t = tray.traffic[0]->transfers;
  BOOST_TEST(t[0].status == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(t[1].status == tlm::TLM_OK_RESPONSE);
  // r0c0 - ucie_w.c0 - edge: 8 each way; memory 8; flits: edge 2, connection 1, PE's link 1; three more at 2.
  BOOST_TEST(t[1].end - t[1].at == 2 * 8'000 + 8'000 + 2'000 + 1'000 + 1'000 + 3 * 2'000);
  BOOST_TEST(t[2].status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  BOOST_TEST(t[3].status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  tray.fabric->check_conservation();
}

BOOST_AUTO_TEST_CASE(joined_edges_cannot_be_open) {
  SystemConfig c = machine("default");
  c.open.ucie_edge = {"tray.sip0.cube0.ucie_e"};
  BOOST_CHECK_THROW(Topology{c}, InputError);
  c.open.ucie_edge = {"tray.sip0.cube1.ucie_n"};  // PHY 1 is there
  BOOST_CHECK_THROW(Topology{c}, InputError);
}

// Two trays of one SIP, joined by their inter-SIP ports: each sees the other as SIP 1. Trains travel across, so that a
// long read is as long as its slowest link asks for.
BOOST_FIXTURE_TEST_CASE(two_trays_back_to_back, FreshContext) {
  const SystemConfig c = machine("one_cube", {{"open.inter_sip", "[tray.sip0.io.ual_ep]"}});
  TrafficTray left(c, {}, "left");
  TrafficTray right(c, {}, "right");
  const auto l = left.fabric->open_inter_sip("tray.sip0.io.ual_ep");
  const auto r = right.fabric->open_inter_sip("tray.sip0.io.ual_ep");
  l.outward.bind(r.inward);
  r.outward.bind(l.inward);
  const std::uint64_t other = std::uint64_t{1} << 47;
  left.read(0, other + right.hbm(0, 0, 0), 256);
  left.read(1, other + right.hbm(0, 0, 3), 64 * KiB, 10'000'000);
  right.write(2, other + left.hbm(0, 0, 5), 64 * KiB, 20'000'000);
  left.read(0, (std::uint64_t{2} << 47), 256, 30'000'000);  // nobody there
  left.run();
  // Own cube: connection 8, PHY 8, ual_ep 5, link 5; then the other side's 5 + 8 + 8, and the same way back. Links
  // there: HBM 1, mesh-UCIe 1, PHY 2, io_noc 1, ual 2, port 2; here: port 2, io_noc 2, PHY 1, UCIe 2, mesh 1, PE 1.
  const auto& t = left.traffic[0]->transfers[0];
  BOOST_TEST(t.status == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(t.end == 8'000 + 18'000 + 2 * (8'000 + 8'000 + 5'000 + 5'000 + 5'000 + 5'000 + 8'000 + 8'000));
  const auto& stream = left.traffic[1]->transfers[0];
  BOOST_TEST(stream.status == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(static_cast<double>(stream.end - stream.at) < 1.3 * 64 * KiB / 128.0 * 1000);
  BOOST_TEST(right.traffic[2]->transfers[0].status == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(static_cast<double>(right.traffic[2]->transfers[0].end - 20'000'000) < 1.3 * 64 * KiB / 128.0 * 1000);
  BOOST_TEST(left.traffic[0]->transfers[1].status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  left.fabric->check_conservation();
  right.fabric->check_conservation();
}

// SIPs of one tray joined by foreign IP: full addresses pass through it.
BOOST_FIXTURE_TEST_CASE(foreign_fabric_between_sips, FreshContext) {
  TrafficTray tray(machine("default", {{"open.inter_sip", "[tray.sip0.io.ual_ep, tray.sip1.io.ual_ep]"}}));
  const auto a = tray.fabric->open_inter_sip("tray.sip0.io.ual_ep");
  const auto b = tray.fabric->open_inter_sip("tray.sip1.io.ual_ep");
  a.outward.bind(b.inward);
  b.outward.bind(a.inward);
  tray.read(0, tray.hbm(1, 3, 2), 4096);
  tray.write(tray.rank(1, 0, 0), tray.hbm(0, 15, 7), 4096);
  tray.run();
  BOOST_TEST(tray.traffic[0]->transfers[0].status == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(tray.traffic[tray.rank(1, 0, 0)]->transfers[0].status == tlm::TLM_OK_RESPONSE);
  tray.fabric->check_conservation();
}

BOOST_AUTO_TEST_CASE(part_of_a_torus_cannot_be_open) {
  SystemConfig c = machine("six_sips");
  c.open.inter_sip = {"tray.sip0.io.ual_ep"};
  BOOST_CHECK_THROW(Topology{c}, InputError);
  c.fabric.kind = FabricKind::ring_1d;
  Topology t(c);
  RouteTable table(t);
  BOOST_TEST(table.route(t.pe(0, 0, 0), t.hbm(1, 0, 0), 0) == nullptr);
  BOOST_TEST(table.route(t.pe(1, 0, 0), t.hbm(5, 0, 0), 0) != nullptr);
}

BOOST_FIXTURE_TEST_CASE(foreign_host_cpu_at_the_host_port, FreshContext) {
  Tray tray(machine("default", {{"open.host_port", "true"}}));
  ForeignInitiator cpu("host_cpu");
  cpu.socket.bind(tray.fabric.host_socket());
  cpu.hold_response_ps = 7'000;
  cpu.body = [&](ForeignInitiator& i) {
    std::vector<unsigned char> out(4096, 0x11), in(4096);
    const AddressMap& map = tray.fabric.addresses();
    tlm::tlm_response_status status{};
    i.b(tlm::TLM_WRITE_COMMAND, map.hbm(0, 0, 0), out.data(), 4096, &status);
    BOOST_TEST(status == tlm::TLM_OK_RESPONSE);
    // Both SIPs answer in the same picosecond; the port still gives one response at a time.
    auto& a = i.nb(tlm::TLM_READ_COMMAND, map.hbm(0, 0, 0), in.data(), 2048);
    auto& b = i.nb(tlm::TLM_READ_COMMAND, map.hbm(1, 0, 0), in.data() + 2048, 2048);
    tlm::tlm_sync_enum answer{};
    auto& nowhere = i.nb(tlm::TLM_READ_COMMAND, 9ull << 47, in.data(), 64, &answer);
    BOOST_TEST(answer == tlm::TLM_COMPLETED);
    BOOST_TEST(nowhere.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    nowhere.release();
    sc_core::wait(1, sc_core::SC_US);
    BOOST_REQUIRE(i.responses.size() == 2u);
    BOOST_TEST(i.responses[1].second >= i.responses[0].second + 7'000);
    BOOST_TEST(in[5] == 0x11);
    BOOST_TEST(in[3000] == 0);
    a.release();
    b.release();
  };
  sc_core::sc_start();
  BOOST_TEST(cpu.finished);
  BOOST_TEST(cpu.faults.empty());
  BOOST_TEST(cpu.alive == 0);
  tray.fabric.check_conservation();
}

BOOST_AUTO_TEST_SUITE_END()
