#include <kb/platform/machine.h>

namespace kb {

CostModel cost_model(const CostModelParams& p) {
  return {p.fixed_per_composite_cycles, p.fixed_per_single_op_cycles, p.cycles_per_byte, p.max_command_bytes};
}

std::array<std::uint32_t, 2> sip_grid(const SystemConfig& c) {
  if (c.fabric.kind != FabricKind::torus_2d && c.fabric.kind != FabricKind::mesh_2d_no_wrap) return {c.sips, 1};
  const auto shape = fabric_shape(c);
  return {shape.first, shape.second};
}

MachineInfo machine_info(const SystemConfig& c) {
  MachineInfo m;
  m.sips = c.sips;
  const auto grid = sip_grid(c);
  m.sip_cols = grid[0];
  m.sip_rows = grid[1];
  m.sip_fabric = static_cast<SipFabric>(c.fabric.kind);
  m.cube_cols = c.sip.cube_cols;
  m.cube_rows = c.sip.cube_rows;
  m.pes_per_cube = c.pes_per_cube();
  m.pe_cols = c.cube.pe_grid_cols;
  m.clock_ghz = c.pe.clock_ghz;
  m.tile = c.pe.scheduler.tile;
  m.tile_buffers = c.pe.scheduler.tile_buffers;
  m.mac_shape = c.pe.gemm.mac_shape;
  m.accumulator_bytes = c.pe.gemm.accumulator_bytes;
  m.vector_width = c.pe.math.vector_width;
  m.queue_depth = c.pe.scheduler.queue_depth;
  m.tcm_bytes = c.pe.tcm.bytes;
  m.scratch_bytes = c.pe.tcm.scratch_bytes;
  m.tcm_read_bw_gbs = c.pe.tcm.read_bw_gbs;
  m.tcm_write_bw_gbs = c.pe.tcm.write_bw_gbs;
  m.slice_bytes = static_cast<std::uint64_t>(c.cube.hbm.slice_gib * static_cast<double>(GiB));
  m.hbm_slice_bw_gbs = c.cube.hbm.pseudo_channels * c.cube.hbm.pc_bw_gbs;
  m.pseudo_channels = c.cube.hbm.pseudo_channels;
  m.burst_bytes = c.cube.hbm.burst_bytes;
  m.pe_dma_bw_gbs = c.cube.noc.pe_dma_bw_gbs;
  m.dma_overhead_ns = c.pe.dma.overhead_ns;
  m.dma_outstanding = c.pe.dma.outstanding;
  m.packet_bytes = c.granularity.granularity == Granularity::flit ? c.cube.hbm.burst_bytes : c.granularity.packet_bytes;
  m.ipcq_slots = c.pe.ipcq.slots;
  m.ipcq_slot_bytes = c.pe.ipcq.slot_bytes;
  m.ipcq_credit_bytes = c.pe.ipcq.credit_bytes;
  m.cost_model = cost_model(c.pe.cost_model);
  return m;
}

AddressMap address_map(const SystemConfig& c) {
  AddressMap::Geometry g;
  g.sips = c.sips;
  g.cubes = c.cubes_per_sip();
  g.pes = c.pes_per_cube();
  g.slice_bytes = static_cast<std::uint64_t>(c.cube.hbm.slice_gib * static_cast<double>(GiB));
  g.tcm_bytes = c.pe.tcm.bytes;
  g.sram_bytes = c.cube.sram.bytes;
  return AddressMap(g);
}

}  // namespace kb
