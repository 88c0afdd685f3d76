#include <kb/platform/routing.h>
#include <kb/tlm_if/errors.h>

#include <fmt/format.h>

#include <algorithm>

namespace kb {

/// A path under construction: components in order, and the port that each leaves by where that is not plain.
struct RouteTable::Walk {
  const Topology& topology;
  std::uint32_t lane;
  std::vector<std::uint32_t> nodes{};
  std::vector<std::uint32_t> ports{};  // kNone: the only port that leads to the next one

  const SystemConfig& config() const { return topology.config(); }

  void go(std::uint32_t node) {
    if (!nodes.empty() && nodes.back() == node) return;
    nodes.push_back(node);
    ports.push_back(Topology::kNone);
  }
  void leave_by(std::uint32_t port) { ports.back() = port; }

  // ---- inside a cube (spec 1.4)

  struct Hole {
    bool any = false;
    std::uint32_t top = 0, bottom = 0, left = 0, right = 0;
    bool row_in(std::uint32_t row) const { return any && row >= top && row <= bottom; }
    bool col_in(std::uint32_t col) const { return any && col >= left && col <= right; }
  };
  Hole hole() const {
    Hole h;
    for (const RouterPos& r : config().cube.absent_routers) {
      if (!h.any) h = {true, r.row, r.row, r.col, r.col};
      h.top = std::min(h.top, r.row);
      h.bottom = std::max(h.bottom, r.row);
      h.left = std::min(h.left, r.col);
      h.right = std::max(h.right, r.col);
    }
    return h;
  }

  /// From the router the walk stands on to `to`: X, then Y, around the hole.
  void cross_cube(std::uint32_t sip, std::uint32_t cube, RouterPos from, RouterPos to) {
    RouterPos at = from;
    const auto visit = [&] {
      const std::uint32_t node = topology.router(sip, cube, at);
      if (node == Topology::kNone)
        throw InputError(fmt::format("routing in tray.sip{}.cube{}: found a route from {} to {} through {}, which does "
                                     "not exist; allowed: a mesh whose absent routers form an inner rectangle",
                                     sip, cube, from.name(), to.name(), at.name()));
      go(node);
    };
    const auto along_x = [&](std::uint32_t col) {
      while (at.col != col) {
        at.col += at.col < col ? 1u : ~0u;
        visit();
      }
    };
    const auto along_y = [&](std::uint32_t row) {
      while (at.row != row) {
        at.row += at.row < row ? 1u : ~0u;
        visit();
      }
    };
    // The nearer edge of [first, last]; the middle goes to the lower side.
    const auto before = [](std::uint32_t first, std::uint32_t last, std::uint32_t x) { return x - first <= last - x; };

    visit();
    const Hole h = hole();
    const bool x_blocked = h.row_in(at.row) && std::min(at.col, to.col) <= h.right && std::max(at.col, to.col) >= h.left;
    if (x_blocked) {
      along_x(at.col < h.left ? h.left - 1 : h.right + 1);
      const bool up = to.row < h.top || (to.row <= h.bottom && before(h.top, h.bottom, at.row));
      along_y(up ? h.top - 1 : h.bottom + 1);
      along_x(to.col);
      along_y(to.row);
      return;
    }
    const bool y_blocked = h.col_in(to.col) && std::min(at.row, to.row) <= h.bottom && std::max(at.row, to.row) >= h.top;
    if (y_blocked) along_x(before(h.left, h.right, to.col) ? h.left - 1 : h.right + 1);
    else along_x(to.col);
    along_y(to.row);
    along_x(to.col);
  }

  // ---- between cubes

  RouterPos rim(Side side) const {
    const CubeConfig& c = config().cube;
    switch (side) {
      case Side::north: return {0, c.ucie_cols[lane]};
      case Side::south: return {c.mesh_rows - 1, c.ucie_cols[lane]};
      case Side::east: return {c.ucie_rows[lane], c.mesh_cols - 1};
      case Side::west: return {c.ucie_rows[lane], 0};
    }
    return {};
  }

  struct Place {
    std::uint32_t cube = 0;
    RouterPos router;
  };

  /// Out of the cube by `side` and, with a neighbour there, into it.
  void leave_cube(std::uint32_t sip, Place& at, Side side) {
    cross_cube(sip, at.cube, at.router, rim(side));
    at.router = rim(side);
    go(topology.ucie(sip, at.cube, side, lane));
  }
  void enter_cube(std::uint32_t sip, Place& at, std::uint32_t cube, Side side) {
    at.cube = cube;
    at.router = rim(side);
    go(topology.ucie(sip, cube, side, lane));
  }

  /// X over cubes, then Y; ends in `cube` at the router that it is entered by.
  void cross_cubes(std::uint32_t sip, Place& at, std::uint32_t cube) {
    const std::uint32_t cols = config().sip.cube_cols;
    while (at.cube % cols != cube % cols) {
      const bool east = at.cube % cols < cube % cols;
      leave_cube(sip, at, east ? Side::east : Side::west);
      enter_cube(sip, at, east ? at.cube + 1 : at.cube - 1, east ? Side::west : Side::east);
    }
    while (at.cube != cube) {
      const bool south = at.cube < cube;
      leave_cube(sip, at, south ? Side::south : Side::north);
      enter_cube(sip, at, south ? at.cube + cols : at.cube - cols, south ? Side::north : Side::south);
    }
  }

  // ---- IO chiplet

  /// The PHY nearest to a cube's column.
  std::uint32_t phy_of(std::uint32_t cube) const {
    return std::min(cube % config().sip.cube_cols, config().sip.io.phys - 1);
  }
  void cube_to_io(std::uint32_t sip, Place& at) {
    const std::uint32_t p = phy_of(at.cube);
    cross_cubes(sip, at, p);
    leave_cube(sip, at, Side::north);
    go(topology.phy(sip, p, lane));
    go(topology.io_noc(sip));
  }
  void io_to_cube(std::uint32_t sip, Place& at, std::uint32_t cube) {
    const std::uint32_t p = phy_of(cube);
    go(topology.io_noc(sip));
    go(topology.phy(sip, p, lane));
    enter_cube(sip, at, p, Side::north);
    cross_cubes(sip, at, cube);
  }

  // ---- between SIPs

  bool cross_sips(std::uint32_t from, std::uint32_t to) {
    const auto& sips = topology.sips_;
    if (sips[from].inter_sip != Topology::kNone || sips[to].inter_sip != Topology::kNone) return false;
    const auto step = [&](std::uint32_t sip, std::size_t direction) {
      const std::uint32_t port = sips[sip].fabric_port[direction];
      leave_by(port);
      const std::uint32_t next = topology.node(topology.ual_ep(sip)).ports[port].peer;
      nodes.push_back(next);
      ports.push_back(Topology::kNone);
      return topology.node(next).sip;
    };
    go(topology.ual_ep(from));
    // Shortest way round `size` places; the way up on a tie.
    const auto up = [](std::uint32_t a, std::uint32_t b, std::uint32_t size) {
      const std::uint32_t forth = (b + size - a) % size;
      return forth <= size - forth;
    };
    std::uint32_t at = from;
    switch (config().fabric.kind) {
      case FabricKind::sw:
        step(from, 0);
        go(topology.ual_ep(to));
        return true;
      case FabricKind::ring_1d: {
        // Ring places count the SIPs that are part of it.
        std::vector<std::uint32_t> place(sips.size(), 0);
        std::uint32_t size = 0;
        for (std::uint32_t s = 0; s < sips.size(); ++s)
          if (sips[s].inter_sip == Topology::kNone) place[s] = size++;
        const bool forward = up(place[from], place[to], size);
        while (at != to) at = step(at, forward ? 0 : 1);
        return true;
      }
      case FabricKind::torus_2d:
      case FabricKind::mesh_2d_no_wrap: break;
    }
    const bool wrap = config().fabric.kind == FabricKind::torus_2d;
    const auto [cols, rows] = fabric_shape(config());
    while (at % cols != to % cols) {
      const bool east = wrap ? up(at % cols, to % cols, cols) : at % cols < to % cols;
      at = step(at, east ? 0 : 1);
    }
    while (at / cols != to / cols) {
      const bool south = wrap ? up(at / cols, to / cols, rows) : at / cols < to / cols;
      at = step(at, south ? 2 : 3);
    }
    return true;
  }

  /// False when the two are not joined.
  bool between(std::uint32_t from, std::uint32_t to) {
    const TopologyNode& a = topology.node(from);
    const TopologyNode& b = topology.node(to);
    go(from);
    Place at;
    const bool from_io = in_io(a);
    const bool to_io = in_io(b);
    const bool same_sip = a.sip == b.sip;
    const auto start_in_cube = [&] {
      at.cube = a.cube;
      at.router = a.router;
      if (a.kind == NodeKind::ucie_edge) {
        at.router = rim(a.side);
        go(topology.ucie(a.sip, a.cube, a.side, lane));
      }
    };
    const auto end_in_cube = [&] {
      if (b.kind == NodeKind::ucie_edge) {
        leave_cube(b.sip, at, b.side);
      } else {
        cross_cube(b.sip, b.cube, at.router, b.router);
      }
      go(to);
    };
    if (from == to) {
      if (from_io) return false;
      // Out to its router and back in.
      go(topology.router(a.sip, a.cube, a.router));
      go(to);
      return true;
    }
    if (same_sip && !from_io && !to_io) {
      start_in_cube();
      cross_cubes(a.sip, at, b.cube);
      end_in_cube();
      return true;
    }
    if (!from_io) {
      start_in_cube();
      cube_to_io(a.sip, at);
    } else {
      if (a.kind == NodeKind::inter_sip) go(topology.ual_ep(a.sip));
      go(topology.io_noc(a.sip));
    }
    if (!same_sip) {
      if (!cross_sips(a.sip, b.sip)) return false;
      go(topology.io_noc(b.sip));
    }
    if (to_io) {
      if (b.kind == NodeKind::inter_sip) go(topology.ual_ep(b.sip));
      go(to);
      return true;
    }
    io_to_cube(b.sip, at, b.cube);
    end_in_cube();
    return true;
  }

  static bool in_io(const TopologyNode& n) {
    return n.kind == NodeKind::pcie_ep || n.kind == NodeKind::io_cpu || n.kind == NodeKind::inter_sip ||
           n.kind == NodeKind::ual_ep || n.kind == NodeKind::io_noc || n.kind == NodeKind::phy;
  }
};

std::unique_ptr<Route> RouteTable::build(std::uint32_t from, std::uint32_t to, std::uint32_t lane) const {
  const auto end_point = [&](std::uint32_t n) {
    const NodeKind k = topology_->node(n).kind;
    return k == NodeKind::pe || k == NodeKind::hbm || k == NodeKind::sram || k == NodeKind::m_cpu ||
           k == NodeKind::io_cpu || k == NodeKind::pcie_ep || k == NodeKind::ucie_edge || k == NodeKind::inter_sip;
  };
  for (const std::uint32_t n : {from, to})
    if (!end_point(n))
      throw InputError("route: found " + topology_->node(n).name +
                       "; allowed: end points (pe, hbm, sram, m_cpu, io_cpu, pcie_ep, open ends)");
  Walk walk{*topology_, lane};
  if (!walk.between(from, to)) return nullptr;
  auto route = std::make_unique<Route>();
  route->from = from;
  route->to = to;
  route->lane = lane;
  route->end_overhead = topology_->node(to).end_overhead;
  for (std::size_t i = 0; i + 1 < walk.nodes.size(); ++i) {
    const TopologyNode& node = topology_->node(walk.nodes[i]);
    std::uint32_t port = walk.ports[i];
    for (std::uint32_t p = 0; port == Topology::kNone && p < node.ports.size(); ++p)
      if (node.ports[p].peer == walk.nodes[i + 1]) port = p;
    if (port == Topology::kNone)
      throw InputError("route: found no link from " + node.name + " to " + topology_->node(walk.nodes[i + 1]).name);
    const TopologyPort& link = node.ports[port];
    Hop hop;
    hop.node = walk.nodes[i];
    hop.out_port = port;
    hop.in_port = link.peer_port;
    hop.next = link.peer;
    hop.overhead = node.overhead + link.overhead;
    hop.bw_gbs = link.bw_gbs;
    hop.flit = transfer_ps(topology_->config().cube.hbm.burst_bytes, link.bw_gbs);
    hop.prop = link.prop;
    route->hops.push_back(hop);
  }
  return route;
}

const Route* RouteTable::route(std::uint32_t from, std::uint32_t to, std::uint32_t lane) {
  lane %= topology_->config().cube.ucie.connections;
  const std::uint64_t nodes = topology_->nodes().size();
  const std::uint64_t key = (from * nodes + to) * topology_->config().cube.ucie.connections + lane;
  const auto it = index_.find(key);
  if (it != index_.end()) return it->second == Topology::kNone ? nullptr : routes_[it->second].get();
  std::unique_ptr<Route> forth = build(from, to, lane);
  if (!forth) {
    index_[key] = Topology::kNone;
    return nullptr;
  }
  // The response goes back over the same links; it belongs to this route, not to the one from `to` to `from`.
  auto back = std::make_unique<Route>();
  back->from = to;
  back->to = from;
  back->lane = lane;
  back->end_overhead = topology_->node(from).end_overhead;
  for (auto h = forth->hops.rbegin(); h != forth->hops.rend(); ++h) {
    const TopologyNode& node = topology_->node(h->next);
    const TopologyPort& link = node.ports[h->in_port];
    Hop hop;
    hop.node = h->next;
    hop.out_port = h->in_port;
    hop.in_port = h->out_port;
    hop.next = h->node;
    hop.overhead = node.overhead + link.overhead;
    hop.bw_gbs = link.bw_gbs;
    hop.flit = h->flit;
    hop.prop = link.prop;
    back->hops.push_back(hop);
  }
  forth->reverse = back.get();
  back->reverse = forth.get();
  index_[key] = static_cast<std::uint32_t>(routes_.size());
  routes_.push_back(std::move(forth));
  routes_.push_back(std::move(back));
  return routes_[index_[key]].get();
}

std::uint32_t RouteTable::lane(std::uint32_t from, std::uint32_t to) const {
  const TopologyNode& a = topology_->node(from);
  const TopologyNode& b = topology_->node(to);
  const std::uint32_t index = a.kind == NodeKind::pe                                 ? a.unit
                              : b.kind == NodeKind::pe || b.kind == NodeKind::hbm ? b.unit
                                                                                     : 0;
  return index % topology_->config().cube.ucie.connections;
}

std::vector<RouteStep> RouteTable::steps(const Route& route) const {
  std::vector<RouteStep> steps;
  for (const Hop& h : route.hops) steps.push_back({topology_->node(h.node).name, h.overhead, h.bw_gbs, h.prop});
  steps.push_back({topology_->node(route.to).name, route.end_overhead, 0, 0});
  return steps;
}

std::string RouteTable::describe(const Route& route) const {
  const auto all = steps(route);
  std::size_t width = 9;
  for (const auto& s : all) width = std::max(width, s.name.size());
  std::string text = fmt::format("{:<{}}  {:>11}  {:>9}  {:>12}  {:>9}\n", "component", width, "overhead_ns", "link_gbs",
                                 "prop_ns", "head_ns");
  Ps head = 0;  // when the message's head has left the component's link, without payload
  for (const auto& s : all) {
    head += s.overhead + s.prop;
    text += fmt::format("{:<{}}  {:>11.3f}  {:>9}  {:>12.3f}  {:>9.3f}\n", s.name, width, ns_from_ps(s.overhead),
                        s.bw_gbs > 0 ? fmt::format("{:g}", s.bw_gbs) : "-", ns_from_ps(s.prop), ns_from_ps(head));
  }
  return text;
}

}  // namespace kb
