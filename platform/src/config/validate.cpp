// Checks of a configuration before elaboration: every value by itself, then what the values must be to one another.
#include <kb/modules/params.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/machine_info.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "codec.h"
#include "keys.h"
#include "sources.h"

namespace kb::config_detail {

namespace {

constexpr std::uint32_t kMaxCubes = 16;                        // dies 0..15 of the address map (spec 1.3)
constexpr std::uint64_t kCubeWindow = std::uint64_t{1} << 42;  // bytes of a cube's address window

class Checker {
 public:
  Checker(const SystemConfig& config, const Sources& sources) : c_(config), sources_(sources) {}

  void run() {
    ranges();
    system();
    mesh();
    placements();
    ucie();
    memory();
    pe();
    open_ends();
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& found, const std::string& allowed) const {
    const auto place = sources_.places.find(key);
    if (place != sources_.places.end()) refuse(place->second, key, found, allowed);
    refuse({sources_.origin, 0}, key, sources_.complete ? found + " (the default)" : found, allowed);
  }

  /// As above, showing the key's value.
  [[noreturn]] void fail(const std::string& key, const std::string& allowed) const {
    fail(key, find_key(key)->write(c_), allowed);
  }

  void require(bool good, const std::string& key, const std::string& allowed) const {
    if (!good) fail(key, allowed);
  }

  /// A value is in range if the text that it is written as would be accepted from a file. Catches what was filled in
  /// C++: NaN, negative numbers, zeros, empty lists, names that cannot be written.
  void ranges() const {
    SystemConfig copy;
    for (const Key& key : key_table()) {
      const YamlNode node = parse_yaml(key.write(c_), sources_.origin);
      if (!key.read(node, copy)) fail(key.name, key.allowed_text());
    }
  }

  void system() const {
    require(c_.cubes_per_sip() <= kMaxCubes, "sip.cube_mesh",
            "at most " + std::to_string(kMaxCubes) + " cubes per SIP, which is what the address map has room for");
    require(c_.sip.io.phys <= c_.sip.cube_cols, "sip.io.phys",
            "at most one PHY per cube of the first row, " + std::to_string(c_.sip.cube_cols));

    if (c_.fabric.kind == FabricKind::torus_2d || c_.fabric.kind == FabricKind::mesh_2d_no_wrap) {
      const auto [cols, rows] = fabric_shape(c_);
      require(cols * rows == c_.sips, "system.fabric.shape",
              "columns x rows equal to the number of SIPs, " + std::to_string(c_.sips) + ", or [0, 0]");
    }
    require(c_.granularity.packet_bytes % c_.cube.hbm.burst_bytes == 0, "fabric.packet_bytes",
            "a multiple of cube.hbm.burst_bytes, " + std::to_string(c_.cube.hbm.burst_bytes));
  }

  /// The hole must be a rectangle with routers all around it: that is what the routes around it rely on, and it keeps
  /// the mesh connected.
  void mesh() const {
    const auto& hole = c_.cube.absent_routers;
    if (hole.empty()) return;
    const std::string allowed =
        "distinct routers that form a rectangle with routers of the " + mesh_text() + " mesh on all sides, or []";
    RouterPos low = hole.front();
    RouterPos high = hole.front();
    for (const RouterPos& r : hole) {
      low = {std::min(low.row, r.row), std::min(low.col, r.col)};
      high = {std::max(high.row, r.row), std::max(high.col, r.col)};
    }
    require(low.row > 0 && low.col > 0 && high.row < c_.cube.mesh_rows - 1 && high.col < c_.cube.mesh_cols - 1,
            "cube.absent_routers", allowed);
    // All are distinct (checked by the key) and inside the bounding box, so their number decides.
    require(hole.size() == std::size_t{high.row - low.row + 1} * (high.col - low.col + 1), "cube.absent_routers",
            allowed);
  }

  std::string mesh_text() const {
    return std::to_string(c_.cube.mesh_cols) + " x " + std::to_string(c_.cube.mesh_rows);
  }

  void placement(const std::string& key, const RouterPos& router) const {
    const auto& hole = c_.cube.absent_routers;
    const bool exists = router.row < c_.cube.mesh_rows && router.col < c_.cube.mesh_cols &&
                        std::find(hole.begin(), hole.end(), router) == hole.end();
    if (!exists) {
      fail(key, router.name(), "a router that exists: of the " + mesh_text() + " mesh and not in cube.absent_routers");
    }
  }

  void placements() const {
    for (const RouterPos& router : c_.cube.pe_routers) placement("cube.pes", router);
    placement("cube.m_cpu.router", c_.cube.m_cpu_router);
    placement("cube.sram.router", c_.cube.sram_router);
    require(c_.pes_per_cube() % c_.cube.pe_grid_cols == 0, "cube.pe_grid_cols",
            "a divisor of the number of PEs per cube, " + std::to_string(c_.pes_per_cube()));
  }

  void ucie() const {
    const auto side = [&](const std::string& key, const std::vector<std::uint32_t>& lines, std::uint32_t size) {
      require(lines.size() == c_.cube.ucie.connections, key,
              "as many entries as cube.ucie.connections, " + std::to_string(c_.cube.ucie.connections));
      require(*std::max_element(lines.begin(), lines.end()) < size, key,
              "entries from 0 to " + std::to_string(size - 1) + ", inside cube.mesh");
    };
    side("cube.ucie.rows", c_.cube.ucie_rows, c_.cube.mesh_rows);
    side("cube.ucie.cols", c_.cube.ucie_cols, c_.cube.mesh_cols);
  }

  void memory() const {
    const HbmParams& hbm = c_.cube.hbm;
    const double slice = hbm.slice_gib * static_cast<double>(GiB);  // at most 2^42, so exact in a double
    require(slice == std::floor(slice) && std::fmod(slice, hbm.burst_bytes) == 0, "cube.hbm.slice_gib",
            "a whole number of bursts of " + std::to_string(hbm.burst_bytes) + " bytes");
    // In 64 bits: at most 4096 PEs of 2^43 bytes.
    const std::uint64_t used =
        c_.pes_per_cube() * (static_cast<std::uint64_t>(slice) + c_.pe.tcm.bytes) + c_.cube.sram.bytes;
    require(used <= kCubeWindow, "cube.hbm.slice_gib",
            "slices, TCMs and SRAM of a cube within its address window of " + text_of_bytes(kCubeWindow) +
                "; they take " + text_of_bytes(used));
    require(c_.pe.mmu.page_bytes >= hbm.burst_bytes, "pe.mmu.page_bytes",
            "at least a burst, " + std::to_string(hbm.burst_bytes));
  }

  void pe() const {
    require(c_.pe.tcm.scratch_bytes <= c_.pe.tcm.bytes, "pe.tcm.scratch_bytes",
            "at most pe.tcm.bytes, " + text_of_bytes(c_.pe.tcm.bytes));
    const auto& tile = c_.pe.scheduler.tile;
    const std::uint64_t accumulator = std::uint64_t{4} * tile[0] * tile[2];
    require(c_.pe.gemm.accumulator_bytes >= accumulator, "pe.gemm.accumulator_bytes",
            "at least one f32 output tile of pe.scheduler.tile, " + text_of_bytes(accumulator));
  }

  void open_ends() const {
    std::vector<std::string> slices;
    std::vector<std::string> edges;
    std::vector<std::string> ual_eps;
    for (std::uint32_t sip = 0; sip < c_.sips; ++sip) {
      ual_eps.push_back(sip_name(sip) + ".io.ual_ep");
      for (std::uint32_t cube = 0; cube < c_.cubes_per_sip(); ++cube) {
        const std::string in_cube = cube_name(sip, cube);
        for (std::uint32_t pe = 0; pe < c_.pes_per_cube(); ++pe) {
          slices.push_back(in_cube + ".hbm" + std::to_string(pe));
        }
        const std::uint32_t row = cube / c_.sip.cube_cols;
        const std::uint32_t col = cube % c_.sip.cube_cols;
        // North of the first row lies the IO chiplet, as far as its PHYs reach.
        if (row == 0 && col >= c_.sip.io.phys) edges.push_back(in_cube + ".ucie_n");
        if (row == c_.sip.cube_rows - 1) edges.push_back(in_cube + ".ucie_s");
        if (col == c_.sip.cube_cols - 1) edges.push_back(in_cube + ".ucie_e");
        if (col == 0) edges.push_back(in_cube + ".ucie_w");
      }
    }
    known_names("open.hbm", c_.open.hbm, slices, "an HBM slice of this machine");
    known_names("open.ucie_edge", c_.open.ucie_edge, edges, "a UCIe port that is joined to nothing");
    known_names("open.inter_sip", c_.open.inter_sip, ual_eps, "the ual_ep of a SIP");
  }

  void known_names(const std::string& key, const std::vector<std::string>& names, const std::vector<std::string>& known,
                   const std::string& allowed) const {
    const std::set<std::string> set(known.begin(), known.end());
    for (const std::string& name : names) {
      if (set.count(name) > 0) continue;
      const std::string nearest = nearest_name(name, known);
      fail(key, name, allowed + (nearest.empty() ? "" : ", such as " + nearest));
    }
  }

  const SystemConfig& c_;
  const Sources& sources_;
};

}  // namespace

void check(const SystemConfig& config, const Sources& sources) {
  Checker(config, sources).run();
}

}  // namespace kb::config_detail
