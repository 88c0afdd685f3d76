// The typed configuration of a machine: filled from a topology file or by hand in C++, checked before
// elaboration, dumped back to YAML.
#pragma once

#include <kb/modules/params.h>
#include <kb/tlm_if/text.h>

#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// A router's place in the cube's mesh, written r<row>c<col>.
struct RouterPos {
  std::uint32_t row = 0;
  std::uint32_t col = 0;
  friend bool operator==(const RouterPos& a, const RouterPos& b) { return a.row == b.row && a.col == b.col; }
  friend bool operator<(const RouterPos& a, const RouterPos& b) {
    return a.row != b.row ? a.row < b.row : a.col < b.col;
  }
  std::string name() const { return "r" + std::to_string(row) + "c" + std::to_string(col); }
};

struct CubeConfig {
  std::uint32_t mesh_rows = 6;
  std::uint32_t mesh_cols = 6;
  std::vector<RouterPos> absent_routers{{2, 2}, {2, 3}, {3, 2}, {3, 3}};  // the hole; a rectangle or empty
  std::vector<RouterPos> pe_routers{{0, 0}, {0, 1}, {1, 4}, {1, 5}, {4, 0}, {4, 1}, {5, 4}, {5, 5}};
  std::uint32_t pe_grid_cols = 4;  // the logical grid of PEs is row-major, pe_grid_cols wide
  RouterPos m_cpu_router{0, 2};
  RouterPos sram_router{3, 0};
  double m_cpu_overhead_ns = 5.0;
  double m_cpu_link_mm = 0.0;
  std::string m_cpu_impl = kBuiltin;
  std::vector<std::uint32_t> ucie_rows{0, 1, 4, 5};  // rows of the E and W connections, connection i at entry i
  std::vector<std::uint32_t> ucie_cols{0, 1, 4, 5};  // columns of the N and S connections
  NocParams noc;
  HbmParams hbm;
  SramParams sram;
  UcieParams ucie;
};

struct IoConfig {
  double pcie_ep_overhead_ns = 5.0;
  double pcie_ep_bw_gbs = 128;  // link pcie_ep - io_noc
  double pcie_ep_link_mm = 0.0;
  double ual_ep_overhead_ns = 5.0;
  double ual_ep_bw_gbs = 128;  // link ual_ep - io_noc
  double ual_ep_link_mm = 0.0;
  double io_cpu_overhead_ns = 10.0;
  double io_cpu_link_mm = 0.0;
  double io_noc_overhead_ns = 0.0;
  std::uint32_t phys = 4;  // PHY p joins cube p of the first cube row
  double phy_link_mm = 0.0;  // io_noc to the cube's UCIe port
  std::string pcie_ep_impl = kBuiltin;
  std::string ual_ep_impl = kBuiltin;
  std::string io_cpu_impl = kBuiltin;
};

struct SipConfig {
  std::uint32_t cube_cols = 4;  // mesh of cubes
  std::uint32_t cube_rows = 4;
  IoConfig io;
};

struct FabricConfig {  // between SIPs
  FabricKind kind = FabricKind::ring_1d;
  std::uint32_t cols = 0;  // torus_2d and mesh_2d_no_wrap; 0: derived (cols * rows = SIPs)
  std::uint32_t rows = 0;
  double link_bw_gbs = 128;
  double overhead_ns = 5.0;
  double link_mm = 0.0;
};

/// Sockets that are left to the user's own IP, by hierarchical name.
struct OpenEnds {
  bool host_port = false;
  std::vector<std::string> hbm;        // "tray.sip0.cube0.hbm3"
  std::vector<std::string> ucie_edge;  // "tray.sip0.cube0.ucie_w"
  std::vector<std::string> inter_sip;  // "tray.sip0.io.ual_ep"
};

/// The whole machine.
struct SystemConfig {
  double ns_per_mm = 0.01;
  std::uint32_t sips = 2;
  FabricConfig fabric;
  SipConfig sip;
  CubeConfig cube;
  PeParams pe;
  FabricParams granularity;
  OpenEnds open;

  std::uint32_t pes_per_cube() const { return static_cast<std::uint32_t>(cube.pe_routers.size()); }
  std::uint32_t cubes_per_sip() const { return sip.cube_cols * sip.cube_rows; }
  std::uint32_t total_pes() const { return sips * cubes_per_sip() * pes_per_cube(); }
};

/// One "key=value" of the command line.
using Override = std::pair<std::string, std::string>;

/// Reads a topology file, applies the overrides in order, checks everything.
/// Throws InputError with file, line, key, the value found and what is allowed.
SystemConfig load_config(const std::string& path, const std::vector<Override>& overrides = {});

/// As load_config, from text; `origin` stands for the file in messages.
SystemConfig parse_config(const std::string& yaml, const std::string& origin,
                          const std::vector<Override>& overrides = {});

/// Checks a configuration filled in C++ (also called by load_config). Throws InputError.
void validate_config(const SystemConfig& config, const std::string& origin = "configuration");

/// Writes the effective configuration as YAML that load_config reads back to the same machine.
std::string dump_config(const SystemConfig& config);

/// The effective configuration as dotted keys and values (as YAML), in the order of the dump.
std::vector<std::pair<std::string, std::string>> config_items(const SystemConfig& config);

/// One topology key, for messages, documentation and shell completion.
struct ConfigKeyInfo {
  std::string key;            // dotted
  std::string default_value;  // as YAML
  std::string allowed;
  std::string unit;  // "" where there is none
  std::string doc;
};
/// All topology keys in the order of the dump.
std::vector<ConfigKeyInfo> describe_config_keys();

/// Columns and rows of the mesh or torus of SIPs; where the configuration leaves them open, the most
/// square grid that is at least as wide as high.
std::pair<std::uint32_t, std::uint32_t> fabric_shape(const SystemConfig& config);

/// Whether `key` (dotted) names a topology key, for telling `--set` targets apart.
bool is_config_key(const std::string& key);
/// All dotted topology keys, sorted.
std::vector<std::string> config_keys();

}  // namespace kb
