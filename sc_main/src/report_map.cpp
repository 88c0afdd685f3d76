#include "report_map.h"

#include <kb/platform/machine.h>
#include <kb/platform/routing.h>
#include <kb/tlm_if/errors.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

namespace kb::cli {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kMargin = 3.0;    // between cubes, in router pitches
constexpr double kIoHeight = 4.5;  // IO chiplet above the first cube row
constexpr double kAside = 0.09;    // of a line from the middle of its link, so that both directions show
constexpr std::size_t kTop = 12;

struct Use {
  double bw_gbs = 0, busy_ns = 0, use = 0;
  std::uint64_t bytes = 0;
};

struct Point {
  double x = 0, y = 0;
};

/// Where components lie. SIPs in their grid, cubes in theirs, routers in the mesh; one unit is one router.
class Layout {
 public:
  explicit Layout(const SystemConfig& config)
      : config_(config),
        cube_width_(config.cube.mesh_cols + kMargin),
        cube_height_(config.cube.mesh_rows + kMargin),
        sip_width_(config.sip.cube_cols * cube_width_ + 2),
        sip_height_(config.sip.cube_rows * cube_height_ + kIoHeight) {
    const std::uint32_t cols = fabric_shape(config).first;
    // A ring or a switch has no shape of its own: at most four in a row.
    const bool grid = config.fabric.kind == FabricKind::torus_2d || config.fabric.kind == FabricKind::mesh_2d_no_wrap;
    sip_cols_ = grid ? cols : std::min<std::uint32_t>(config.sips, 4);
    sip_rows_ = (config.sips + sip_cols_ - 1) / sip_cols_;
  }

  Point size() const { return {sip_cols_ * sip_width_, sip_rows_ * sip_height_}; }

  Point place(const TopologyNode& n) const {
    const Point sip{n.sip % sip_cols_ * sip_width_, n.sip / sip_cols_ * sip_height_};
    const double middle = config_.sip.cube_cols * cube_width_ / 2 - kMargin / 2;
    switch (n.kind) {
      case NodeKind::pcie_ep: return {sip.x + middle - 3, sip.y};
      case NodeKind::io_cpu: return {sip.x + middle, sip.y};
      case NodeKind::ual_ep: return {sip.x + middle + 3, sip.y};
      case NodeKind::inter_sip: return {sip.x + middle + 5, sip.y};
      case NodeKind::io_noc: return {sip.x + middle, sip.y + 1};
      case NodeKind::sip_switch: return {size().x / 2, -1};
      default: break;
    }
    const Point cube{sip.x + n.cube % config_.sip.cube_cols * cube_width_,
                     sip.y + kIoHeight + n.cube / config_.sip.cube_cols * cube_height_};
    const Point router{cube.x + n.router.col, cube.y + n.router.row};
    const double right = cube.x + config_.cube.mesh_cols - 1, bottom = cube.y + config_.cube.mesh_rows - 1;
    switch (n.kind) {
      case NodeKind::router: return router;
      case NodeKind::pe: return {router.x - 0.3, router.y - 0.4};
      case NodeKind::hbm: return {router.x + 0.3, router.y - 0.4};
      case NodeKind::sram: return {router.x - 0.6, router.y};
      case NodeKind::m_cpu: return {router.x + 0.3, router.y + 0.4};
      case NodeKind::phy: {
        const auto& cols = config_.cube.ucie_cols;
        const double column = n.unit < cols.size() ? cols[n.unit] : n.unit;
        return {cube.x + column, cube.y - 2.2};
      }
      default: break;
    }
    // UCIe: one connection on the cube's edge, or the open end of a whole port.
    const bool open = n.kind == NodeKind::ucie_edge;
    const double out = open ? 1.6 : 0.9;
    switch (n.side) {
      case Side::east: return {right + out, open ? (cube.y + bottom) / 2 : router.y};
      case Side::west: return {cube.x - out, open ? (cube.y + bottom) / 2 : router.y};
      case Side::north: return {open ? (cube.x + right) / 2 : router.x, cube.y - out};
      case Side::south: break;
    }
    return {open ? (cube.x + right) / 2 : router.x, bottom + out};
  }

 private:
  const SystemConfig& config_;
  double cube_width_, cube_height_, sip_width_, sip_height_;
  std::uint32_t sip_cols_ = 1, sip_rows_ = 1;
};

const char* kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::router: return "router";
    case NodeKind::pe: return "pe";
    case NodeKind::hbm: return "hbm";
    case NodeKind::ucie: return "ucie";
    default: return "other";
  }
}

std::map<std::string, Use> read_links(const std::string& text, double time_ns) {
  std::map<std::string, Use> links;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string name, bw, bytes, busy;
    if (!std::getline(fields, name, ',') || !std::getline(fields, bw, ',') || !std::getline(fields, bytes, ',') ||
        !std::getline(fields, busy, ','))
      throw IoError("links.csv: found the line '" + line + "'; allowed: name,bw_gbs,bytes,busy_ns");
    Use u;
    u.bw_gbs = std::strtod(bw.c_str(), nullptr);
    u.bytes = std::strtoull(bytes.c_str(), nullptr, 10);
    u.busy_ns = std::strtod(busy.c_str(), nullptr);
    u.use = time_ns > 0 ? std::min(1.0, u.busy_ns / time_ns) : 0;
    links[name] = u;
  }
  return links;
}

double rounded(double v) {
  return std::round(v * 1000) / 1000;
}

}  // namespace

Json map_of(const SystemConfig& config, const std::string& links_text, double time_ns) {
  const Topology topology(config);
  const Layout layout(config);
  const auto links = read_links(links_text, time_ns);
  const auto use_of = [&](const std::string& name) {
    const auto at = links.find(name);
    return at == links.end() ? Use{} : at->second;
  };

  Json nodes = Json::array(), lines = Json::array();
  for (const TopologyNode& n : topology.nodes()) {
    const Point p = layout.place(n);
    Json node{rounded(p.x), rounded(p.y), kind_name(n.kind), n.name};
    if (n.kind == NodeKind::hbm) {
      double sum = 0;
      for (std::uint32_t c = 0; c < config.cube.hbm.pseudo_channels; ++c)
        sum += use_of(fmt::format("{}.pc{}", n.name, c)).use;
      node.push_back(rounded(sum / config.cube.hbm.pseudo_channels));
    }
    nodes.push_back(std::move(node));
    for (const TopologyPort& port : n.ports) {
      const TopologyNode& to = topology.node(port.peer);
      const Point q = layout.place(to);
      const double dx = q.x - p.x, dy = q.y - p.y, length = std::max(1e-9, std::hypot(dx, dy));
      const double sx = -dy / length * kAside, sy = dx / length * kAside;
      const std::string name = link_name(n.name, to.name);
      const Use u = use_of(name);
      lines.push_back({rounded(p.x + sx), rounded(p.y + sy), rounded(q.x + sx), rounded(q.y + sy), rounded(u.use), name,
                       u.bytes, port.bw_gbs});
    }
  }

  std::vector<std::pair<std::string, Use>> order(links.begin(), links.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.use > b.second.use; });
  Json top = Json::array();
  for (std::size_t i = 0; i < std::min(kTop, order.size()); ++i) {
    const auto& [name, u] = order[i];
    top.push_back({{"name", name}, {"bw_gbs", u.bw_gbs}, {"bytes", u.bytes}, {"busy_ns", u.busy_ns}, {"use", u.use}});
  }
  const std::string busiest =
      order.empty() ? "none carried anything"
                    : fmt::format("{}, {:.1f} % of the time", order.front().first, 100 * order.front().second.use);
  return {{"size", {layout.size().x, layout.size().y}},
          {"nodes", nodes},
          {"links", lines},
          {"top", top},
          {"busiest", busiest}};
}

}  // namespace kb::cli
