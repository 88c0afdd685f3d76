// What kernels, benches and observers may know of the machine: counts and PE parameters, no modules.
#pragma once

#include <kb/tlm_if/cost_model.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// A PE's place. Ranks count PEs in (sip, cube, pe) order.
struct PeId {
  std::uint32_t sip = 0;
  std::uint32_t cube = 0;
  std::uint32_t pe = 0;
  friend bool operator==(const PeId& a, const PeId& b) { return a.sip == b.sip && a.cube == b.cube && a.pe == b.pe; }
  friend bool operator<(const PeId& a, const PeId& b) {
    return a.sip != b.sip ? a.sip < b.sip : a.cube != b.cube ? a.cube < b.cube : a.pe < b.pe;
  }
};

/// "tray.sip1", "tray.sip1.cube3" and "tray.sip1.cube3.pe5", the SystemC names of spec 1.1.
std::string sip_name(std::uint32_t sip);
std::string cube_name(std::uint32_t sip, std::uint32_t cube);
std::string pe_name(const PeId& id);

enum class SipFabric : std::uint8_t { ring_1d, torus_2d, mesh_2d_no_wrap, sw };

/// The run's mode (spec 7.1).
enum class Mode : std::uint8_t { timing, data, emit };

struct MachineInfo {
  std::uint32_t sips = 1;
  std::uint32_t sip_cols = 1;  // 2-D fabrics between SIPs; otherwise sips x 1
  std::uint32_t sip_rows = 1;
  SipFabric sip_fabric = SipFabric::ring_1d;
  std::uint32_t cube_cols = 1;
  std::uint32_t cube_rows = 1;
  std::uint32_t pes_per_cube = 1;
  std::uint32_t pe_cols = 1;  // logical grid inside a cube, row-major
  double clock_ghz = 1.0;
  std::array<std::uint32_t, 3> tile{32, 64, 32};  // TILE_M, TILE_K, TILE_N
  std::uint32_t tile_buffers = 8;
  std::array<std::uint32_t, 3> mac_shape{16, 16, 16};
  std::uint64_t accumulator_bytes = 64 * 1024;
  std::uint32_t vector_width = 256;
  std::uint32_t queue_depth = 32;
  std::uint64_t tcm_bytes = 16u << 20;
  std::uint64_t scratch_bytes = 1u << 20;
  double tcm_read_bw_gbs = 512;
  double tcm_write_bw_gbs = 512;
  std::uint64_t slice_bytes = 6ull << 30;
  double hbm_slice_bw_gbs = 256;   // pseudo channels x their bandwidth
  std::uint32_t pseudo_channels = 8;
  std::uint32_t burst_bytes = 256;
  double pe_dma_bw_gbs = 256;
  double dma_overhead_ns = 2.0;
  std::uint32_t dma_outstanding = 1;
  std::uint64_t packet_bytes = 4096;
  std::uint32_t ipcq_slots = 4;
  std::uint64_t ipcq_slot_bytes = 4096;
  std::uint64_t ipcq_credit_bytes = 16;
  CostModel cost_model;

  std::uint32_t cubes_per_sip() const { return cube_cols * cube_rows; }
  std::uint32_t total_pes() const { return sips * cubes_per_sip() * pes_per_cube; }
  std::uint32_t rank_of(const PeId& id) const { return (id.sip * cubes_per_sip() + id.cube) * pes_per_cube + id.pe; }
  PeId pe_of(std::uint32_t rank) const {
    return {rank / (cubes_per_sip() * pes_per_cube), rank / pes_per_cube % cubes_per_sip(), rank % pes_per_cube};
  }
};

}  // namespace kb
