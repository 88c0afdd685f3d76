// Routes as a pure function of the configuration: properties over all pairs, rules of spec 1.4 by example.
#include <boost/test/unit_test.hpp>

#include <queue>
#include <random>
#include <set>

#include "fabric_bench.h"

using namespace kb;
using namespace kb::test;

namespace {

std::vector<std::string> names(RouteTable& table, const Route& r) {
  std::vector<std::string> all;
  for (const auto& s : table.steps(r)) all.push_back(s.name);
  return all;
}

std::string path(Topology& t, RouteTable& table, const std::string& from, const std::string& to, std::uint32_t lane) {
  const Route* r = table.route(t.find(from), t.find(to), lane);
  std::string text;
  for (const auto& n : names(table, *r)) {
    const std::string own = n.substr(n.rfind(".cube") != std::string::npos ? n.find('.', n.rfind(".cube") + 1) + 1 : 5);
    text += (text.empty() ? "" : " ") + own;
  }
  return text;
}

/// Every hop follows a link of the graph, nothing is visited twice (but a router from itself), the reverse is the mirror.
void check_route(const Topology& t, const Route& r, std::uint32_t from, std::uint32_t to) {
  BOOST_TEST(r.from == from);
  BOOST_TEST(r.to == to);
  BOOST_TEST(r.hops.front().node == from);
  BOOST_TEST(r.hops.back().next == to);
  std::set<std::uint32_t> visited;
  for (std::size_t i = 0; i < r.hops.size(); ++i) {
    const Hop& h = r.hops[i];
    if (i > 0) BOOST_TEST(h.node == r.hops[i - 1].next);
    const TopologyPort& port = t.node(h.node).ports[h.out_port];
    BOOST_TEST(port.peer == h.next);
    BOOST_TEST(port.peer_port == h.in_port);
    BOOST_TEST(port.bw_gbs == h.bw_gbs);
    BOOST_TEST(visited.insert(h.node).second, t.node(h.node).name << " visited twice");
    const Hop& back = r.reverse->hops[r.hops.size() - 1 - i];
    BOOST_TEST(back.node == h.next);
    BOOST_TEST(back.next == h.node);
    BOOST_TEST(back.out_port == h.in_port);
    BOOST_TEST(back.in_port == h.out_port);
    BOOST_TEST(back.bw_gbs == h.bw_gbs);
    BOOST_TEST(back.prop == h.prop);
  }
  BOOST_TEST(r.reverse->reverse == &r);
}

/// Fewest links between two components, by breadth-first search.
std::vector<std::uint32_t> distances(const Topology& t, std::uint32_t from) {
  std::vector<std::uint32_t> d(t.nodes().size(), Topology::kNone);
  std::queue<std::uint32_t> todo;
  d[from] = 0;
  todo.push(from);
  while (!todo.empty()) {
    const std::uint32_t n = todo.front();
    todo.pop();
    for (const auto& p : t.node(n).ports)
      if (d[p.peer] == Topology::kNone) {
        d[p.peer] = d[n] + 1;
        todo.push(p.peer);
      }
  }
  return d;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric_routes)

// All pairs of one cube with a PE, slice, SRAM or m_cpu on every router in turn; holes of several shapes. Detours cost
// at most what going round the hole costs.
BOOST_AUTO_TEST_CASE(every_pair_of_routers_in_a_cube) {
  struct Shape {
    std::uint32_t rows, cols;
    std::vector<RouterPos> hole;
  };
  std::vector<Shape> shapes;
  shapes.push_back({6, 6, {{2, 2}, {2, 3}, {3, 2}, {3, 3}}});
  shapes.push_back({6, 6, {}});
  shapes.push_back({3, 3, {{1, 1}}});
  shapes.push_back({7, 5, {{2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}, {3, 3}, {4, 1}, {4, 2}, {4, 3}}});
  shapes.push_back({1, 4, {}});
  for (const Shape& shape : shapes) {
    SystemConfig c;
    c.sips = 1;
    c.sip.cube_cols = c.sip.cube_rows = 1;
    c.sip.io.phys = 1;
    c.cube.mesh_rows = shape.rows;
    c.cube.mesh_cols = shape.cols;
    c.cube.absent_routers = shape.hole;
    c.cube.pe_routers.clear();
    for (std::uint32_t row = 0; row < shape.rows; ++row)
      for (std::uint32_t col = 0; col < shape.cols; ++col) {
        const RouterPos pos{row, col};
        if (std::find(shape.hole.begin(), shape.hole.end(), pos) == shape.hole.end()) c.cube.pe_routers.push_back(pos);
      }
    c.cube.m_cpu_router = c.cube.sram_router = {0, 0};
    c.cube.ucie.connections = 1;
    c.cube.ucie_rows = c.cube.ucie_cols = {0};
    const Topology t(c);
    RouteTable table(t);
    const std::uint32_t height = shape.hole.empty() ? 0 : shape.hole.back().row - shape.hole.front().row + 1;
    const std::uint32_t width = shape.hole.empty() ? 0 : shape.hole.back().col - shape.hole.front().col + 1;
    for (std::uint32_t a = 0; a < c.pes_per_cube(); ++a) {
      const auto shortest = distances(t, t.pe(a));
      for (std::uint32_t b = 0; b < c.pes_per_cube(); ++b) {
        const std::uint32_t to = t.hbm(0, 0, b);
        const Route* r = table.route(t.pe(a), to, 0);
        BOOST_REQUIRE(r != nullptr);
        check_route(t, *r, t.pe(a), to);
        BOOST_TEST(r->hops.size() >= shortest[to]);
        BOOST_TEST(r->hops.size() <= shortest[to] + 2 * std::max(height, width));
        if (shape.hole.empty()) BOOST_TEST(r->hops.size() == shortest[to]);
      }
    }
  }
}

// X first, then Y; the detours of spec 1.4, with an SRAM in row 3 and PEs where the cases need them.
BOOST_AUTO_TEST_CASE(detours_by_example) {
  SystemConfig c = machine("one_cube");
  c.cube.pe_routers = {{0, 0}, {2, 1}, {3, 4}, {2, 5}, {5, 2}, {0, 3}, {4, 3}, {3, 0}};
  Topology t(c);
  RouteTable table(t);
  const auto p = [&](int a, int b) { return path(t, table, "sip0.cube0.pe" + std::to_string(a), "sip0.cube0.hbm" + std::to_string(b), 0); };
  BOOST_TEST(p(0, 5) == "pe0 r0c0 r0c1 r0c2 r0c3 hbm5");
  // X leg in row 2, destination beyond the hole in its rows: from row 2 to row 1.
  BOOST_TEST(p(1, 3) == "pe1 r2c1 r1c1 r1c2 r1c3 r1c4 r1c5 r2c5 hbm3");
  // X leg in row 3, destination in the hole's rows: to row 4.
  BOOST_TEST(p(2, 7) == "pe2 r3c4 r4c4 r4c3 r4c2 r4c1 r4c0 r3c0 hbm7");
  // X leg in row 2, destination below the hole: the destination's side.
  BOOST_TEST(p(1, 4) == "pe1 r2c1 r3c1 r4c1 r4c2 r5c2 hbm4");
  // X leg in row 3, destination above.
  BOOST_TEST(p(7, 5) == "pe7 r3c0 r3c1 r2c1 r1c1 r1c2 r1c3 r0c3 hbm5");
  // Y leg in column 2: column 1, finished in X. In column 3: column 4.
  BOOST_TEST(p(5, 4) == "pe5 r0c3 r0c2 r0c1 r1c1 r2c1 r3c1 r4c1 r5c1 r5c2 hbm4");
  BOOST_TEST(p(0, 6) == "pe0 r0c0 r0c1 r0c2 r0c3 r0c4 r1c4 r2c4 r3c4 r4c4 r4c3 hbm6");
}

BOOST_AUTO_TEST_CASE(lanes_and_cubes_by_example) {
  Topology t(machine("default"));
  RouteTable table(t);
  // PE 5 takes lane 1 of each port; X over cubes, then Y.
  const Route* r = table.route(t.pe(0, 0, 5), t.hbm(0, 5, 0), 5);
  std::string text;
  for (const auto& n : names(table, *r)) text += " " + n.substr(10);
  BOOST_TEST(text ==
             " cube0.pe5 cube0.r4c1 cube0.r4c2 cube0.r4c3 cube0.r4c4 cube0.r4c5 cube0.r3c5 cube0.r2c5 cube0.r1c5"
             " cube0.ucie_e.c1 cube1.ucie_w.c1 cube1.r1c0 cube1.r1c1 cube1.r2c1 cube1.r3c1 cube1.r4c1 cube1.r5c1"
             " cube1.ucie_s.c1 cube5.ucie_n.c1 cube5.r0c1 cube5.r0c0 cube5.hbm0");
  // The host's messages take the target's lane and the PHY of its column.
  BOOST_TEST(table.lane(t.pcie_ep(0), t.hbm(0, 6, 7)) == 3u);
  BOOST_TEST(table.lane(t.pe(0, 0, 6), t.hbm(0, 6, 7)) == 2u);
  const Route* host = table.route(t.pcie_ep(0), t.hbm(0, 6, 7), 3);
  const auto n = names(table, *host);
  BOOST_TEST(n[1] == "tray.sip0.io.io_noc");
  BOOST_TEST(n[2] == "tray.sip0.io.phy2.c3");
  BOOST_TEST(n[3] == "tray.sip0.cube2.ucie_n.c3");
  BOOST_TEST(n.back() == "tray.sip0.cube6.hbm7");
}

BOOST_AUTO_TEST_CASE(random_pairs_of_the_whole_machine) {
  for (const char* kind : {"ring_1d", "torus_2d", "mesh_2d_no_wrap", "switch"}) {
    const SystemConfig c = machine("six_sips", {{"system.fabric.kind", kind}});
    const Topology t(c);
    RouteTable table(t);
    std::vector<std::uint32_t> ends;
    for (std::uint32_t n = 0; n < t.nodes().size(); ++n) {
      const NodeKind k = t.node(n).kind;
      if (k == NodeKind::pe || k == NodeKind::hbm || k == NodeKind::sram || k == NodeKind::m_cpu || k == NodeKind::io_cpu ||
          k == NodeKind::pcie_ep)
        ends.push_back(n);
    }
    std::mt19937_64 random(3);
    for (int i = 0; i < 400; ++i) {
      const std::uint32_t a = ends[random() % ends.size()];
      const std::uint32_t b = ends[random() % ends.size()];
      if (a == b) continue;
      const auto lane = static_cast<std::uint32_t>(random() % 4);
      const Route* r = table.route(a, b, lane);
      BOOST_REQUIRE(r != nullptr);
      check_route(t, *r, a, b);
      // One lane all the way.
      for (const Hop& h : r->hops) {
        const TopologyNode& n = t.node(h.node);
        if (n.kind == NodeKind::ucie || n.kind == NodeKind::phy) BOOST_TEST(n.unit == lane);
      }
      BOOST_TEST(table.route(a, b, lane + 4) == r);
    }
  }
}

BOOST_AUTO_TEST_CASE(sips_by_example) {
  const auto sips = [](const char* kind, std::uint32_t count, std::uint32_t from, std::uint32_t to) {
    SystemConfig c = machine("default", {{"system.fabric.kind", kind}, {"system.sips", std::to_string(count)}});
    Topology t(c);
    RouteTable table(t);
    std::string text;
    for (const auto& n : names(table, *table.route(t.io_cpu(from), t.io_cpu(to), 0)))
      if (n.find("ual_ep") != std::string::npos) text += n.substr(8, n.find('.', 8) - 8);
      else if (n == "tray.switch") text += "s";
    return text;
  };
  BOOST_TEST(sips("ring_1d", 2, 0, 1) == "01");
  BOOST_TEST(sips("ring_1d", 6, 0, 2) == "012");
  BOOST_TEST(sips("ring_1d", 6, 0, 4) == "054");
  BOOST_TEST(sips("ring_1d", 6, 0, 3) == "0123");  // a tie goes up
  BOOST_TEST(sips("ring_1d", 6, 4, 1) == "4501");
  BOOST_TEST(sips("torus_2d", 6, 0, 5) == "025");        // x wraps: 0 -> 2, then y
  BOOST_TEST(sips("mesh_2d_no_wrap", 6, 0, 5) == "0125");
  BOOST_TEST(sips("switch", 6, 0, 5) == "0s5");
}

// A ring of two has two pairs of links; each direction uses its own, and responses stay on the request's pair.
BOOST_AUTO_TEST_CASE(ring_of_two) {
  Topology t(machine("default"));
  RouteTable table(t);
  const Route* there = table.route(t.pe(0, 0, 0), t.hbm(1, 0, 0), 0);
  const Route* other = table.route(t.pe(1, 0, 0), t.hbm(0, 0, 0), 0);
  const auto port = [&](const Route& r) {
    for (const Hop& h : r.hops)
      if (t.node(h.node).kind == NodeKind::ual_ep && t.node(h.next).kind == NodeKind::ual_ep) return h.out_port;
    return Topology::kNone;
  };
  BOOST_TEST(port(*there->reverse) != port(*other));
}

BOOST_AUTO_TEST_CASE(printed_routes) {
  Topology t(machine("default"));
  RouteTable table(t);
  const Route* r = table.route(t.find("sip0.cube0.pe0"), t.find("tray.sip0.cube1.hbm0"), 0);
  Ps sum = 0;
  for (const auto& s : table.steps(*r)) sum += s.overhead + s.prop;
  BOOST_TEST(sum == r->control_ps());
  const std::string text = table.describe(*r);
  BOOST_TEST(text.find("tray.sip0.cube0.ucie_e.c0") != std::string::npos);
  BOOST_TEST(text.find("16.150") != std::string::npos);
  BOOST_TEST(t.find("sip0.cube0.pe0.dma") == t.find("sip0.cube0.pe0"));
  BOOST_CHECK_EXCEPTION(t.find("sip0.cube0.hbm9"), InputError,
                        [](const InputError& e) { return std::string(e.what()).find("tray.sip0.cube0.hbm") != std::string::npos; });
  BOOST_CHECK_THROW(table.route(t.find("sip0.cube0.r0c0"), t.find("sip0.cube0.pe0"), 0), InputError);
}

BOOST_AUTO_TEST_CASE(placements_on_absent_routers_are_refused) {
  SystemConfig c = machine("one_cube");
  c.cube.pe_routers[3] = {2, 2};
  BOOST_CHECK_THROW(Topology{c}, InputError);
  c = machine("one_cube");
  c.cube.sram_router = {9, 0};
  BOOST_CHECK_THROW(Topology{c}, InputError);
}

BOOST_AUTO_TEST_SUITE_END()
