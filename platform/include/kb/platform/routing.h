// The machine as a graph of components and links, and the routes through it: a pure function of the
// configuration, readable without a simulation (spec 1.1, 1.4).
#pragma once

#include <kb/platform/config.h>
#include <kb/tlm_if/machine_info.h>
#include <kb/tlm_if/route.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace kb {

enum class NodeKind : std::uint8_t {
  router,
  pe,            // network interface of a PE: its DMA, its TCM and queue window, its cpu
  hbm,
  sram,
  m_cpu,
  ucie,          // one connection of a cube's UCIe port
  ucie_edge,     // network interface behind an open UCIe port
  pcie_ep,
  ual_ep,
  io_cpu,
  io_noc,
  phy,           // one connection of a UCIe PHY of the IO chiplet
  sip_switch,    // inter-SIP fabric of kind switch
  inter_sip,     // network interface behind an open ual_ep
};

enum class Side : std::uint8_t { north, south, east, west };
inline constexpr std::array<Side, 4> kSides{Side::north, Side::south, Side::east, Side::west};
char letter_of(Side side);  // n, s, e, w

/// A pair of opposite links between two components, seen from one of them.
struct TopologyPort {
  std::uint32_t peer = 0;       // node
  std::uint32_t peer_port = 0;  // its port of the same pair
  double bw_gbs = 0;            // each direction
  Ps prop = 0;
  Ps overhead = 0;              // of the link itself, paid by its sender on top of its own
};

struct TopologyNode {
  NodeKind kind = NodeKind::router;
  std::string name;          // "tray.sip0.cube3.r1c4"
  std::uint32_t sip = 0;
  std::uint32_t cube = 0;    // of cube components; PHYs: the cube they join
  std::uint32_t unit = 0;    // PE or slice; connection of UCIe ports and PHYs
  Side side = Side::north;   // of UCIe ports
  RouterPos router;          // routers: their place; others in a cube: the router that they sit on
  Ps overhead = 0;           // once per message that it sends or passes on
  Ps end_overhead = 0;       // once per message that ends here
  std::vector<TopologyPort> ports;
};

/// Name of the link between two components, as reports and traces have it: "tray.sip0.cube3.pe1->sip0.cube3.r0c1".
std::string link_name(const std::string& from, const std::string& to);

/// Components and links. Node and port numbers follow the configuration only.
class Topology {
 public:
  /// Throws InputError for machines whose routes cannot be formed.
  explicit Topology(const SystemConfig& config);

  const SystemConfig& config() const { return config_; }
  const std::vector<TopologyNode>& nodes() const { return nodes_; }
  const TopologyNode& node(std::uint32_t number) const { return nodes_[number]; }

  std::uint32_t router(std::uint32_t sip, std::uint32_t cube, RouterPos at) const;  // kNone in the hole
  std::uint32_t pe(std::uint32_t sip, std::uint32_t cube, std::uint32_t pe) const;
  std::uint32_t pe(std::uint32_t rank) const;
  std::uint32_t hbm(std::uint32_t sip, std::uint32_t cube, std::uint32_t slice) const;
  std::uint32_t sram(std::uint32_t sip, std::uint32_t cube) const;
  std::uint32_t m_cpu(std::uint32_t sip, std::uint32_t cube) const;
  std::uint32_t ucie(std::uint32_t sip, std::uint32_t cube, Side side, std::uint32_t connection) const;
  std::uint32_t ucie_edge(std::uint32_t sip, std::uint32_t cube, Side side) const;  // kNone where not open
  std::uint32_t pcie_ep(std::uint32_t sip) const;
  std::uint32_t ual_ep(std::uint32_t sip) const;
  std::uint32_t io_cpu(std::uint32_t sip) const;
  std::uint32_t io_noc(std::uint32_t sip) const;
  std::uint32_t phy(std::uint32_t sip, std::uint32_t phy, std::uint32_t connection) const;
  std::uint32_t inter_sip(std::uint32_t sip) const;  // kNone where not open
  std::uint32_t sip_switch() const { return switch_; }

  /// The open UCIe edges of a SIP in topology order; the addresses of die kFirstEdgeDie + i lead through the i-th.
  const std::vector<std::uint32_t>& edges(std::uint32_t sip) const { return edges_[sip]; }
  static constexpr std::uint32_t kFirstEdgeDie = 21;

  /// By name, with or without "tray."; engines of a PE count as the PE. Throws InputError with the nearest name.
  std::uint32_t find(const std::string& name) const;

  static constexpr std::uint32_t kNone = 0xffffffffu;

 private:
  friend class RouteTable;
  struct Cube {
    std::vector<std::uint32_t> routers;  // row-major, kNone in the hole
    std::vector<std::uint32_t> pes, hbm;
    std::uint32_t sram = kNone, m_cpu = kNone;
    std::array<std::vector<std::uint32_t>, 4> ucie;  // by side
    std::array<std::uint32_t, 4> edge{kNone, kNone, kNone, kNone};
  };
  struct Sip {
    std::vector<Cube> cubes;
    std::uint32_t pcie_ep = kNone, ual_ep = kNone, io_cpu = kNone, io_noc = kNone, inter_sip = kNone;
    std::vector<std::vector<std::uint32_t>> phys;
    std::array<std::uint32_t, 4> fabric_port{kNone, kNone, kNone, kNone};  // of ual_ep: +x, -x, +y, -y; switch: [0]
  };

  std::uint32_t add(TopologyNode node);
  void join(std::uint32_t a, std::uint32_t b, double bw_gbs, double mm, Ps overhead = 0);
  void build_cube(std::uint32_t sip, std::uint32_t cube);
  void build_io(std::uint32_t sip);
  void join_cubes(std::uint32_t sip);
  void join_sips();
  const Cube& at(std::uint32_t sip, std::uint32_t cube) const { return sips_[sip].cubes[cube]; }

  SystemConfig config_;
  std::vector<TopologyNode> nodes_;
  std::vector<Sip> sips_;
  std::vector<std::vector<std::uint32_t>> edges_;
  std::uint32_t switch_ = kNone;
};

/// One line of a printed route: what a component and the link behind it cost a message.
struct RouteStep {
  std::string name;
  Ps overhead = 0;
  double bw_gbs = 0;  // 0 at the end of the route, which has no link behind it
  Ps prop = 0;
};

/// All routes, each computed once when it is first asked for.
class RouteTable {
 public:
  explicit RouteTable(const Topology& topology) : topology_(&topology) {}

  /// Null when the two are not joined (SIPs apart because of open ports). `lane` is taken modulo the number of
  /// UCIe connections.
  const Route* route(std::uint32_t from, std::uint32_t to, std::uint32_t lane);

  /// Lane of a message by the rule of spec 1.4: that of the issuing PE, else of the target.
  std::uint32_t lane(std::uint32_t from, std::uint32_t to) const;

  std::vector<RouteStep> steps(const Route& route) const;
  /// Hop by hop with times and bandwidths, for people.
  std::string describe(const Route& route) const;

 private:
  struct Walk;
  std::unique_ptr<Route> build(std::uint32_t from, std::uint32_t to, std::uint32_t lane) const;

  const Topology* topology_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;  // looked up only, never iterated
  std::vector<std::unique_ptr<Route>> routes_;
};

}  // namespace kb
