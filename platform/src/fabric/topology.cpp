#include <kb/platform/routing.h>
#include <kb/tlm_if/address_map.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/text.h>

#include <algorithm>

namespace kb {

char letter_of(Side side) { return "nsew"[static_cast<std::size_t>(side)]; }

std::string link_name(const std::string& from, const std::string& to) {
  return from + "->" + to.substr(std::string("tray.").size());
}

namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Topology::Topology(const SystemConfig& config) : config_(config), sips_(config.sips), edges_(config.sips) {
  for (std::uint32_t s = 0; s < config_.sips; ++s) {
    sips_[s].cubes.resize(config_.cubes_per_sip());
    for (std::uint32_t c = 0; c < config_.cubes_per_sip(); ++c) build_cube(s, c);
    build_io(s);
    join_cubes(s);
  }
  join_sips();
}

std::uint32_t Topology::add(TopologyNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

void Topology::join(std::uint32_t a, std::uint32_t b, double bw_gbs, double mm, Ps overhead) {
  const Ps prop = ps_from_ns(mm * config_.ns_per_mm);
  const auto port_a = static_cast<std::uint32_t>(nodes_[a].ports.size());
  const auto port_b = static_cast<std::uint32_t>(nodes_[b].ports.size());
  nodes_[a].ports.push_back({b, port_b, bw_gbs, prop, overhead});
  nodes_[b].ports.push_back({a, port_a, bw_gbs, prop, overhead});
}

void Topology::build_cube(std::uint32_t sip, std::uint32_t cube) {
  const CubeConfig& c = config_.cube;
  Cube& at = sips_[sip].cubes[cube];
  const std::string prefix = cube_name(sip, cube) + ".";
  const auto node = [&](NodeKind kind, const std::string& name, RouterPos router, std::uint32_t unit = 0) {
    TopologyNode n;
    n.kind = kind;
    n.name = prefix + name;
    n.sip = sip;
    n.cube = cube;
    n.unit = unit;
    n.router = router;
    return n;
  };

  // Routers and the links between them.
  for (std::uint32_t row = 0; row < c.mesh_rows; ++row) {
    for (std::uint32_t col = 0; col < c.mesh_cols; ++col) {
      const RouterPos pos{row, col};
      const bool absent = std::find(c.absent_routers.begin(), c.absent_routers.end(), pos) != c.absent_routers.end();
      TopologyNode n = node(NodeKind::router, pos.name(), pos);
      n.overhead = ps_from_ns(c.noc.router_overhead_ns);
      at.routers.push_back(absent ? kNone : add(std::move(n)));
    }
  }
  const auto find_router = [&](RouterPos pos, const std::string& whose) {
    const std::uint32_t r = pos.row < c.mesh_rows && pos.col < c.mesh_cols ? at.routers[pos.row * c.mesh_cols + pos.col] : kNone;
    if (r == kNone)
      throw InputError(prefix + whose + ": found router " + pos.name() + "; allowed: a router of the mesh that exists");
    return r;
  };
  for (std::uint32_t row = 0; row < c.mesh_rows; ++row) {
    for (std::uint32_t col = 0; col < c.mesh_cols; ++col) {
      const std::uint32_t here = at.routers[row * c.mesh_cols + col];
      if (here == kNone) continue;
      const std::uint32_t east = col + 1 < c.mesh_cols ? at.routers[row * c.mesh_cols + col + 1] : kNone;
      const std::uint32_t south = row + 1 < c.mesh_rows ? at.routers[(row + 1) * c.mesh_cols + col] : kNone;
      if (east != kNone) join(here, east, c.noc.link_bw_gbs, c.noc.pitch_mm[0]);
      if (south != kNone) join(here, south, c.noc.link_bw_gbs, c.noc.pitch_mm[1]);
    }
  }

  // What sits on routers.
  for (std::uint32_t i = 0; i < config_.pes_per_cube(); ++i) {
    const RouterPos pos = c.pe_routers[i];
    const std::string pe = "pe" + std::to_string(i);
    at.pes.push_back(add(node(NodeKind::pe, pe, pos, i)));
    join(at.pes.back(), find_router(pos, pe), c.noc.pe_dma_bw_gbs, c.noc.pe_link_mm);
    at.hbm.push_back(add(node(NodeKind::hbm, "hbm" + std::to_string(i), pos, i)));
    join(at.hbm.back(), find_router(pos, pe), c.hbm.link_bw_gbs, c.hbm.link_mm);
  }
  at.sram = add(node(NodeKind::sram, "sram", c.sram_router));
  join(at.sram, find_router(c.sram_router, "sram"), c.sram.link_bw_gbs, c.sram.link_mm);
  TopologyNode m_cpu = node(NodeKind::m_cpu, "m_cpu", c.m_cpu_router);
  m_cpu.end_overhead = ps_from_ns(c.m_cpu_overhead_ns);
  at.m_cpu = add(std::move(m_cpu));
  join(at.m_cpu, find_router(c.m_cpu_router, "m_cpu"), c.noc.link_bw_gbs, c.m_cpu_link_mm);

  // UCIe ports: their connections stand on the rim of the mesh. The side of the mesh has the mesh's bandwidth.
  for (const Side side : kSides) {
    const bool vertical = side == Side::north || side == Side::south;
    const auto& lines = vertical ? c.ucie_cols : c.ucie_rows;
    for (std::uint32_t i = 0; i < c.ucie.connections && i < lines.size(); ++i) {
      RouterPos pos{lines[i], lines[i]};
      if (side == Side::north) pos.row = 0;
      if (side == Side::south) pos.row = c.mesh_rows - 1;
      if (side == Side::west) pos.col = 0;
      if (side == Side::east) pos.col = c.mesh_cols - 1;
      const std::string name = std::string("ucie_") + letter_of(side) + ".c" + std::to_string(i);
      TopologyNode n = node(NodeKind::ucie, name, pos, i);
      n.side = side;
      n.overhead = ps_from_ns(c.ucie.overhead_ns);
      auto& port = at.ucie[static_cast<std::size_t>(side)];
      port.push_back(add(std::move(n)));
      join(port.back(), find_router(pos, name), c.noc.link_bw_gbs, 0);
    }
  }
}

void Topology::build_io(std::uint32_t sip) {
  const IoConfig& io = config_.sip.io;
  Sip& at = sips_[sip];
  const std::string prefix = sip_name(sip) + ".io.";
  const auto node = [&](NodeKind kind, const std::string& name, double overhead_ns, double end_overhead_ns) {
    TopologyNode n;
    n.kind = kind;
    n.name = prefix + name;
    n.sip = sip;
    n.overhead = ps_from_ns(overhead_ns);
    n.end_overhead = ps_from_ns(end_overhead_ns);
    return n;
  };
  at.pcie_ep = add(node(NodeKind::pcie_ep, "pcie_ep", io.pcie_ep_overhead_ns, io.pcie_ep_overhead_ns));
  at.ual_ep = add(node(NodeKind::ual_ep, "ual_ep", io.ual_ep_overhead_ns, 0));
  at.io_cpu = add(node(NodeKind::io_cpu, "io_cpu", 0, io.io_cpu_overhead_ns));
  at.io_noc = add(node(NodeKind::io_noc, "io_noc", io.io_noc_overhead_ns, 0));
  join(at.pcie_ep, at.io_noc, io.pcie_ep_bw_gbs, io.pcie_ep_link_mm);
  join(at.ual_ep, at.io_noc, io.ual_ep_bw_gbs, io.ual_ep_link_mm);
  join(at.io_cpu, at.io_noc, config_.cube.noc.link_bw_gbs, io.io_cpu_link_mm);
  for (std::uint32_t p = 0; p < io.phys; ++p) {
    at.phys.emplace_back();
    for (std::uint32_t i = 0; i < config_.cube.ucie.connections; ++i) {
      TopologyNode n = node(NodeKind::phy, "phy" + std::to_string(p) + ".c" + std::to_string(i),
                            config_.cube.ucie.overhead_ns, 0);
      n.cube = p;
      n.unit = i;
      at.phys.back().push_back(add(std::move(n)));
      join(at.phys.back().back(), at.io_noc, config_.cube.noc.link_bw_gbs, 0);
    }
  }
}

void Topology::join_cubes(std::uint32_t sip) {
  const UcieParams& ucie_params = config_.cube.ucie;
  const std::uint32_t cols = config_.sip.cube_cols;
  const std::uint32_t rows = config_.sip.cube_rows;
  const auto join_ports = [&](std::uint32_t a, Side side_a, std::uint32_t b, Side side_b) {
    for (std::uint32_t i = 0; i < ucie_params.connections; ++i)
      join(ucie(sip, a, side_a, i), ucie(sip, b, side_b, i), ucie_params.bw_gbs, ucie_params.link_mm);
  };
  for (std::uint32_t c = 0; c < config_.cubes_per_sip(); ++c) {
    if (c % cols + 1 < cols) join_ports(c, Side::east, c + 1, Side::west);
    if (c / cols + 1 < rows) join_ports(c, Side::south, c + cols, Side::north);
  }
  for (std::uint32_t p = 0; p < sips_[sip].phys.size() && p < cols; ++p)
    for (std::uint32_t i = 0; i < ucie_params.connections; ++i)
      join(phy(sip, p, i), ucie(sip, p, Side::north, i), ucie_params.bw_gbs, config_.sip.io.phy_link_mm);

  // Open edges: a network interface in place of the neighbour.
  for (std::uint32_t c = 0; c < config_.cubes_per_sip(); ++c) {
    for (const Side side : kSides) {
      const std::string name = cube_name(sip, c) + ".ucie_" + letter_of(side);
      if (!has(config_.open.ucie_edge, name)) continue;
      const bool joined = (side == Side::east && c % cols + 1 < cols) || (side == Side::west && c % cols > 0) ||
                          (side == Side::south && c / cols + 1 < rows) || (side == Side::north && c / cols > 0) ||
                          (side == Side::north && c < cols && c < sips_[sip].phys.size());
      if (joined)
        throw InputError("open.ucie_edge: found " + name + "; allowed: UCIe ports that are joined to nothing");
      if (kFirstEdgeDie + edges_[sip].size() >= (1u << AddressMap::kDieBits))
        throw InputError("open.ucie_edge: found " + name + " as one edge too many; allowed: at most " +
                         std::to_string((1u << AddressMap::kDieBits) - kFirstEdgeDie) + " per SIP (dies " +
                         std::to_string(kFirstEdgeDie) + " to 31)");
      TopologyNode n;
      n.kind = NodeKind::ucie_edge;
      n.name = name + ".edge";
      n.sip = sip;
      n.cube = c;
      n.side = side;
      const std::uint32_t edge = add(std::move(n));
      sips_[sip].cubes[c].edge[static_cast<std::size_t>(side)] = edge;
      edges_[sip].push_back(edge);
      for (std::uint32_t i = 0; i < ucie_params.connections; ++i)
        join(edge, ucie(sip, c, side, i), ucie_params.bw_gbs, ucie_params.link_mm);
    }
  }
}

void Topology::join_sips() {
  const FabricConfig& f = config_.fabric;
  const Ps overhead = ps_from_ns(f.overhead_ns);
  std::vector<std::uint32_t> closed;
  for (std::uint32_t s = 0; s < config_.sips; ++s) {
    if (!has(config_.open.inter_sip, sip_name(s) + ".io.ual_ep")) {
      closed.push_back(s);
      continue;
    }
    TopologyNode n;
    n.kind = NodeKind::inter_sip;
    n.name = sip_name(s) + ".io.ual_ep_port";
    n.sip = s;
    sips_[s].inter_sip = add(std::move(n));
    sips_[s].fabric_port[0] = static_cast<std::uint32_t>(nodes_[sips_[s].ual_ep].ports.size());
    join(sips_[s].ual_ep, sips_[s].inter_sip, f.link_bw_gbs, f.link_mm, overhead);
  }
  if (closed.size() < 2) return;

  // Direction d of a SIP leads to the opposite direction of its neighbour.
  const auto join_two = [&](std::uint32_t a, std::size_t direction, std::uint32_t b) {
    sips_[a].fabric_port[direction] = static_cast<std::uint32_t>(nodes_[sips_[a].ual_ep].ports.size());
    sips_[b].fabric_port[direction ^ 1] = static_cast<std::uint32_t>(nodes_[sips_[b].ual_ep].ports.size());
    join(sips_[a].ual_ep, sips_[b].ual_ep, f.link_bw_gbs, f.link_mm, overhead);
  };
  switch (f.kind) {
    case FabricKind::ring_1d:
      for (std::size_t i = 0; i < closed.size(); ++i) join_two(closed[i], 0, closed[(i + 1) % closed.size()]);
      return;
    case FabricKind::sw: {
      TopologyNode n;
      n.kind = NodeKind::sip_switch;
      n.name = "tray.switch";
      n.overhead = overhead;
      switch_ = add(std::move(n));
      for (const std::uint32_t s : closed) {
        sips_[s].fabric_port[0] = static_cast<std::uint32_t>(nodes_[sips_[s].ual_ep].ports.size());
        join(sips_[s].ual_ep, switch_, f.link_bw_gbs, f.link_mm);
      }
      return;
    }
    case FabricKind::torus_2d:
    case FabricKind::mesh_2d_no_wrap: break;
  }
  if (closed.size() != config_.sips)
    throw InputError("open.inter_sip: found some of the SIPs of a torus or mesh; allowed: all of them, none, or "
                     "system.fabric.kind ring_1d or switch");
  const auto [cols, rows] = fabric_shape(config_);
  if (cols * rows != config_.sips)
    throw InputError("system.fabric: found a grid of " + std::to_string(cols) + " x " + std::to_string(rows) + " for " +
                     std::to_string(config_.sips) + " SIPs; allowed: columns x rows = SIPs");
  const bool wrap = f.kind == FabricKind::torus_2d;
  for (std::uint32_t s = 0; s < config_.sips; ++s) {
    const std::uint32_t x = s % cols;
    const std::uint32_t y = s / cols;
    if (x + 1 < cols || (wrap && cols > 1)) join_two(s, 0, y * cols + (x + 1) % cols);
    if (y + 1 < rows || (wrap && rows > 1)) join_two(s, 2, (y + 1) % rows * cols + x);
  }
}

// ---- lookup -------------------------------------------------------------------------------------------------

std::uint32_t Topology::router(std::uint32_t sip, std::uint32_t cube, RouterPos pos) const {
  return at(sip, cube).routers[pos.row * config_.cube.mesh_cols + pos.col];
}
std::uint32_t Topology::pe(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe) const { return at(sip, cube).pes[pe]; }
std::uint32_t Topology::pe(std::uint32_t rank) const {
  const std::uint32_t per_cube = config_.pes_per_cube();
  const std::uint32_t cubes = config_.cubes_per_sip();
  return pe(rank / per_cube / cubes, rank / per_cube % cubes, rank % per_cube);
}
std::uint32_t Topology::hbm(std::uint32_t sip, std::uint32_t cube, std::uint32_t slice) const {
  return at(sip, cube).hbm[slice];
}
std::uint32_t Topology::sram(std::uint32_t sip, std::uint32_t cube) const { return at(sip, cube).sram; }
std::uint32_t Topology::m_cpu(std::uint32_t sip, std::uint32_t cube) const { return at(sip, cube).m_cpu; }
std::uint32_t Topology::ucie(std::uint32_t sip, std::uint32_t cube, Side side, std::uint32_t connection) const {
  return at(sip, cube).ucie[static_cast<std::size_t>(side)][connection];
}
std::uint32_t Topology::ucie_edge(std::uint32_t sip, std::uint32_t cube, Side side) const {
  return at(sip, cube).edge[static_cast<std::size_t>(side)];
}
std::uint32_t Topology::pcie_ep(std::uint32_t sip) const { return sips_[sip].pcie_ep; }
std::uint32_t Topology::ual_ep(std::uint32_t sip) const { return sips_[sip].ual_ep; }
std::uint32_t Topology::io_cpu(std::uint32_t sip) const { return sips_[sip].io_cpu; }
std::uint32_t Topology::io_noc(std::uint32_t sip) const { return sips_[sip].io_noc; }
std::uint32_t Topology::phy(std::uint32_t sip, std::uint32_t phy, std::uint32_t connection) const {
  return sips_[sip].phys[phy][connection];
}
std::uint32_t Topology::inter_sip(std::uint32_t sip) const { return sips_[sip].inter_sip; }

std::uint32_t Topology::find(const std::string& name) const {
  std::string full = name.compare(0, 5, "tray.") == 0 ? name : "tray." + name;
  const auto lookup = [&](const std::string& wanted) {
    for (std::uint32_t n = 0; n < nodes_.size(); ++n)
      if (nodes_[n].name == wanted) return n;
    return kNone;
  };
  const std::uint32_t exact = lookup(full);
  if (exact != kNone) return exact;
  // "tray.sip0.cube0.pe3.dma" means the PE's end point.
  const std::size_t dot = full.rfind('.');
  const std::uint32_t owner = dot == std::string::npos ? kNone : lookup(full.substr(0, dot));
  if (owner != kNone && nodes_[owner].kind == NodeKind::pe) return owner;
  std::vector<std::string> names;
  for (const auto& n : nodes_) names.push_back(n.name);
  throw InputError("component: found " + name + "; allowed: a component of the fabric" + nearest_hint(full, names));
}

}  // namespace kb
