// Exact times of single messages (spec 1.4): hand-computed ones, and a thousand random ones against a recurrence
// over all flits and links that shares no code with the model.
#include <boost/test/unit_test.hpp>
#include <boost/test/data/test_case.hpp>

#include <random>

#include "fabric_bench.h"
#include "sc_fixture.h"

using namespace kb;
using namespace kb::test;

namespace {

/// leave[j] of every flit over every link of a route, one by one. `ready` holds when flit j is there; comes back as
/// its arrival at the end.
void walk(const Route& route, std::size_t first_hop, std::uint64_t bytes, std::uint64_t burst, std::vector<Ps>& ready) {
  const std::uint64_t rest = bytes % burst;
  const std::uint64_t last = rest == 0 ? burst : (rest + 31) / 32 * 32;
  for (std::size_t h = first_hop; h < route.hops.size(); ++h) {
    Ps left = 0;
    for (std::size_t j = 0; j < ready.size(); ++j) {
      const std::uint64_t own = j + 1 == ready.size() ? last : burst;
      left = std::max(left, ready[j] + route.hops[h].overhead) + transfer_ps(own, route.hops[h].bw_gbs);
      ready[j] = left + route.hops[h].prop;
    }
  }
  for (Ps& r : ready) r += route.end_overhead;
}

Ps expected(const SystemConfig& c, const Route& forth, bool write, std::uint64_t offset, std::uint64_t bytes) {
  const HbmParams& hbm = c.cube.hbm;
  const std::uint64_t burst = hbm.burst_bytes;
  const std::uint64_t rest = bytes % burst;
  const std::uint64_t last = rest == 0 ? burst : (rest + 31) / 32 * 32;
  const std::size_t flits = (bytes + burst - 1) / burst;
  std::vector<Ps> channel(hbm.pseudo_channels, 0);
  const auto commit = [&](std::size_t j, Ps arrival) {
    Ps& free = channel[(offset + j * burst) / burst % hbm.pseudo_channels];
    free = std::max(free, arrival) + transfer_ps(j + 1 == flits ? last : burst, hbm.pc_bw_gbs);
    return free + ps_from_ns(hbm.access_ns);
  };
  std::vector<Ps> t(flits);
  if (write) {
    walk(forth, 0, bytes, burst, t);
    Ps end = 0;
    for (std::size_t j = 0; j < flits; ++j) end = std::max(end, commit(j, t[j]));
    return end + forth.reverse->control_ps();
  }
  const Ps request = forth.control_ps();
  Ps left = 0;
  for (std::size_t j = 0; j < flits; ++j) {
    left = std::max(left, commit(j, request)) + transfer_ps(j + 1 == flits ? last : burst, hbm.link_bw_gbs);
    t[j] = left + forth.reverse->hops.front().prop;
  }
  walk(*forth.reverse, 1, bytes, burst, t);
  return t.back();
}

struct Sample {
  bool write;
  std::uint32_t from, sip, cube, slice;
  std::uint64_t offset, bytes;
};

std::vector<Sample> samples(const SystemConfig& c, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::vector<Sample> all;
  for (std::size_t i = 0; i < count; ++i) {
    Sample s{};
    s.write = below(2) == 0;
    s.from = below(c.total_pes());
    s.sip = below(c.sips);
    s.cube = below(c.cubes_per_sip());
    s.slice = below(c.pes_per_cube());
    s.offset = std::uint64_t{below(1u << 20)} * c.cube.hbm.burst_bytes;
    // Short and ragged ones, and long ones of many packets.
    s.bytes = below(3) == 0 ? 1 + below(c.cube.hbm.burst_bytes) : 1 + below(100'000);
    all.push_back(s);
  }
  return all;
}

/// One after the other, far apart.
void check_against_recurrence(const SystemConfig& config, std::size_t count, std::uint64_t seed) {
  constexpr Ps kGap = 100'000'000;
  TrafficTray tray(config);
  const auto all = samples(config, count, seed);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Sample& s = all[i];
    const std::uint64_t address = tray.hbm(s.sip, s.cube, s.slice, s.offset);
    const Ps at = static_cast<Ps>(i) * kGap;
    if (s.write)
      tray.write(s.from, address, s.bytes, at);
    else
      tray.read(s.from, address, s.bytes, at);
  }
  tray.run();
  std::vector<std::size_t> next(config.total_pes(), 0);
  for (const Sample& s : all) {
    const Transfer& t = tray.traffic[s.from]->transfers[next[s.from]++];
    const Topology& topology = tray.fabric->topology();
    const Route& route = *tray.fabric->routes().route(topology.pe(s.from), topology.hbm(s.sip, s.cube, s.slice),
                                                      s.from % config.pes_per_cube());
    const Ps want = expected(config, route, s.write, s.offset, s.bytes);
    BOOST_TEST_INFO((s.write ? "write of " : "read of ") << s.bytes << " bytes by " << s.from << " at sip " << s.sip
                                                         << " cube " << s.cube << " slice " << s.slice);
    BOOST_TEST(t.end - t.at == want);
    BOOST_TEST(t.path == want);
  }
  tray.fabric->check_conservation();
}

const std::vector<Override> kUneven{
    {"cube.hbm.pc_bw_gbs", "13"},     {"cube.hbm.pseudo_channels", "4"}, {"cube.hbm.access_ns", "3.25"},
    {"cube.noc.link_bw_gbs", "300"},  {"cube.ucie.bw_gbs", "96"},        {"cube.noc.router_overhead_ns", "0.7"},
    {"sip.io.ual_ep.bw_gbs", "111"},  {"cube.noc.pe_dma_bw_gbs", "77"},  {"cube.hbm.link_bw_gbs", "190"},
    {"system.fabric.link_mm", "250"}, {"cube.noc.pe_link_mm", "1.5"},    {"fabric.packet_bytes", "2048"}};

std::vector<Override> with(std::vector<Override> all, const Override& o) {
  all.push_back(o);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric_latency)

// The DMA's own 2 ns at issue are not part of the fabric: 8 first burst + 64 stream + 1 last link flit = 73.
BOOST_FIXTURE_TEST_CASE(own_slice_16_kib_takes_73_ns, FreshContext) {
  TrafficTray tray(machine("one_pe"));
  tray.read(0, tray.hbm(0, 0, 0), 16 * KiB);
  BOOST_TEST(tray.run() == 73'000);
  const Transfer& t = tray.traffic[0]->transfers[0];
  BOOST_TEST(t.first == 9'000);  // first byte: 8 channel, 1 HBM link
  BOOST_TEST(t.status == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(t.path == 73'000);
  tray.fabric->check_conservation();
}

BOOST_FIXTURE_TEST_CASE(own_slice_4_kib_takes_25_ns, FreshContext) {
  TrafficTray tray(machine("one_pe"));
  tray.read(0, tray.hbm(0, 0, 0), 4 * KiB);
  BOOST_TEST(tray.run() == 25'000);
}

// Write of 4 KiB to the own slice: 16 flits leave at 1..16, pass the router, arrive at 2..17; the last is committed
// 8 ns later; the response has no way to go.
BOOST_FIXTURE_TEST_CASE(own_slice_write_4_kib_takes_25_ns, FreshContext) {
  TrafficTray tray(machine("one_pe"));
  tray.write(0, tray.hbm(0, 0, 0), 4 * KiB);
  BOOST_TEST(tray.run() == 25'000);
  BOOST_TEST(tray.traffic[0]->transfers[0].left == 16'000);
  BOOST_TEST(tray.traffic[0]->transfers[0].path == 25'000);
}

// Reads of one burst from pe0 (r0c0). Request: propagation of the way; channel 8; HBM link 1; each further link 1 per
// 256 GB/s or 2 per 128 GB/s; a UCIe crossing 8 + 8 each way. Pitch 3.0 x 2.5 mm at 0.01 ns/mm: 30 and 25 ps a hop.
BOOST_FIXTURE_TEST_CASE(standard_paths_by_hand, FreshContext) {
  const SystemConfig c = machine("default");
  TrafficTray tray(c);
  struct Path {
    const char* what;
    std::uint32_t sip, cube, slice;
    Ps want;
  };
  const Path paths[] = {
      // Own router.
      {"local", 0, 0, 0, 8'000 + 2'000},
      // r0c0 - r0c1: one mesh link more.
      {"same half", 0, 0, 1, 8'000 + 3'000 + 2 * 30},
      // r0c0 - r5c5: 5 + 5 mesh links.
      {"cross half", 0, 0, 7, 8'000 + 12'000 + 2 * (5 * 30 + 5 * rounded(25))},
      // Lane 0: r0c0 - r0c5 - ucie_e.c0 - cube1 ucie_w.c0 - r0c0. Back: HBM link, router-UCIe 1, UCIe 2,
      // UCIe-router 1, 5 mesh links, PE link.
      {"next cube", 0, 1, 0, 8'000 + 1'000 + 1'000 + 2'000 + 1'000 + 5'000 + 1'000 + 2 * (16'000 + 5 * 30)},
      // Cube 15: 6 crossings. Row 0 of cubes 0, 1, 2 in X (3 x 5 hops); in cube 3 in by r0c0, out of the south side
      // by column 0 (5 hops in Y), through cubes 7 and 11 in column 0 (5 each), in cube 15 in at r0c0.
      {"far cube", 0, 15, 0,
       8'000 + 1'000 + 6 * 4'000 + (15 + 15) * 1'000 + 1'000 + 2 * (6 * 16'000 + 15 * 30 + 15 * rounded(25))},
      // ucie_n.c0 sits on r0c0. Links back, bytes of one flit: HBM 1, router-UCIe 1, UCIe-PHY 2, PHY-io_noc 1,
      // io_noc-ual 2, ual-ual 2, ual-io_noc 2, io_noc-PHY 1, PHY-UCIe 2, UCIe-router 1, PE link 1 = 16. Overheads each
      // way: two UCIe crossings 32, ual_ep 5 + 5, the link between them 5.
      {"other SIP", 1, 0, 0, 8'000 + 16'000 + 2 * (32'000 + 15'000)},
  };
  Ps at = 0;
  for (const Path& p : paths) {
    tray.read(0, tray.hbm(p.sip, p.cube, p.slice), 256, at);
    at += 1'000'000;
  }
  tray.run();
  for (std::size_t i = 0; i < std::size(paths); ++i) {
    const Transfer& t = tray.traffic[0]->transfers[i];
    BOOST_TEST_INFO(paths[i].what);
    BOOST_TEST(t.end - t.at == paths[i].want);
  }
}

BOOST_FIXTURE_TEST_CASE(thousand_random_messages_packet, FreshContext) {
  check_against_recurrence(machine("default"), 1000, 1);
}
BOOST_FIXTURE_TEST_CASE(thousand_random_messages_flit, FreshContext) {
  check_against_recurrence(machine("default", {{"fabric.granularity", "flit"}}), 1000, 1);
}
BOOST_FIXTURE_TEST_CASE(random_messages_uneven_links_packet, FreshContext) {
  check_against_recurrence(machine("six_sips", kUneven), 400, 2);
}
BOOST_FIXTURE_TEST_CASE(random_messages_uneven_links_flit, FreshContext) {
  check_against_recurrence(machine("six_sips", with(kUneven, {"fabric.granularity", "flit"})), 400, 2);
}
BOOST_FIXTURE_TEST_CASE(random_messages_mesh_of_sips, FreshContext) {
  check_against_recurrence(machine("six_sips", {{"system.fabric.kind", "mesh_2d_no_wrap"}}), 200, 3);
}
BOOST_FIXTURE_TEST_CASE(random_messages_switched_sips, FreshContext) {
  check_against_recurrence(machine("six_sips", {{"system.fabric.kind", "switch"}}), 200, 4);
}

// A message without bytes is a control message both ways.
BOOST_FIXTURE_TEST_CASE(message_without_bytes, FreshContext) {
  TrafficTray tray(machine("default"));
  tray.write(0, tray.hbm(0, 1, 0), 0);
  tray.run();
  const Transfer& t = tray.traffic[0]->transfers[0];
  BOOST_TEST(t.end == 2 * (16'000 + 5 * 30));
  BOOST_TEST(t.status == tlm::TLM_OK_RESPONSE);
  tray.fabric->check_conservation();
}

// SRAM: one bank and one link of 128 GB/s. 1 KiB: bank 2, link 2, then 3 mesh links of 1 and the PE's; 3 more flits at 2.
BOOST_FIXTURE_TEST_CASE(sram_read, FreshContext) {
  TrafficTray tray(machine("one_cube"));
  tray.read(0, tray.fabric->addresses().sram(0, 0, 4096), 1 * KiB);
  BOOST_TEST(tray.run() == 2'000 + 2'000 + 3'000 + 1'000 + 3 * 2'000 + 2 * 3 * rounded(25));
  tray.fabric->check_conservation();
}

BOOST_AUTO_TEST_SUITE_END()
