#include "keys.h"

#include <algorithm>
#include <set>

#include "codec.h"

namespace kb::config_detail {

namespace {

// Bounds that keep every computed time far inside 64 bits of picoseconds while leaving room for any machine.
Codec<double> time_ns() {
  return real_in(0, 1e6);
}
Codec<double> bandwidth() {
  return real_in(0.001, 1e6);
}
Codec<double> length_mm() {
  return real_in(0, 1e4);
}
Codec<double> cycles() {
  return real_in(0, 1e6);
}
Codec<std::uint32_t> count(std::uint64_t high) {
  return whole_in<std::uint32_t>(1, high);
}

/// A key of one member. `member` maps a (const) SystemConfig& to the (const) member.
template <typename T, typename Member>
Key key(const char* name, Member member, Codec<T> codec, const char* unit, const char* doc) {
  return {name,
          codec.allowed,
          unit,
          doc,
          [=](const YamlNode& node, SystemConfig& config) { return codec.read(node, member(config)); },
          [=](const SystemConfig& config) { return codec.write(member(config)); }};
}

/// A key of two members that are written together, [columns, rows].
template <typename Cols, typename Rows>
Key shape_key(const char* name, Cols cols, Rows rows, Codec<std::uint32_t> element, const char* doc) {
  const auto codec = tuple_of<std::uint32_t, 2>("[columns, rows]", element);
  return {name,
          codec.allowed,
          "",
          doc,
          [=](const YamlNode& node, SystemConfig& config) {
            std::array<std::uint32_t, 2> shape{};
            if (!codec.read(node, shape)) return false;
            cols(config) = shape[0];
            rows(config) = shape[1];
            return true;
          },
          [=](const SystemConfig& config) {
            return codec.write(std::array<std::uint32_t, 2>{cols(config), rows(config)});
          }};
}

// Accessor of a member, for const and other configurations alike.
#define KB_AT(member)         \
  [](auto& config) -> auto& { \
    return config.member;     \
  }

std::vector<Key> build_table() {
  const auto impl = [](const char* key_name, auto member) {
    return key(key_name, member, name(), "", "registered implementation");
  };
  const auto fabric_kinds = one_of<FabricKind>({{"ring_1d", FabricKind::ring_1d},
                                                {"torus_2d", FabricKind::torus_2d},
                                                {"mesh_2d_no_wrap", FabricKind::mesh_2d_no_wrap},
                                                {"switch", FabricKind::sw}});
  const auto buffer_kinds =
      one_of<BufferKind>({{"tcm", BufferKind::tcm}, {"sram", BufferKind::sram}, {"hbm", BufferKind::hbm}});
  const auto granularities = one_of<Granularity>({{"packet", Granularity::packet}, {"flit", Granularity::flit}});
  // A flit's length on links and in memory is rounded up to 32 B sectors, so a burst is at least one.
  const auto burst = power_of_two(whole_in<std::uint32_t>(32, 65536));
  const auto page = power_of_two(bytes_in<std::uint64_t>(4 * KiB, 1 * GiB));
  const auto window = bytes_in<std::uint64_t>(1, 4096 * GiB);  // at most the cube's address window
  const auto dims = tuple_of<std::uint32_t, 3>("[M, K, N]", count(65536));
  const auto connection_list = distinct_list(whole_in<std::uint32_t>(0, 63), 1, Order::matters);
  const auto names = distinct_list(name(), 0, Order::sorted);

  return {
      key("system.ns_per_mm", KB_AT(ns_per_mm), real_in(0, 1e3), "ns/mm", "signal propagation"),
      key("system.sips", KB_AT(sips), count(16), "", "SIPs of the tray"),
      key("system.fabric.kind", KB_AT(fabric.kind), fabric_kinds, "", "how the ual_eps of the SIPs are joined"),
      shape_key("system.fabric.shape", KB_AT(fabric.cols), KB_AT(fabric.rows), whole_in<std::uint32_t>(0, 16),
                "grid of SIPs of torus_2d and mesh_2d_no_wrap; [0, 0]: the most square one"),
      key("system.fabric.link_bw_gbs", KB_AT(fabric.link_bw_gbs), bandwidth(), "GB/s", "each link between SIPs"),
      key("system.fabric.overhead_ns", KB_AT(fabric.overhead_ns), time_ns(), "ns", "per hop between SIPs"),
      key("system.fabric.link_mm", KB_AT(fabric.link_mm), length_mm(), "mm", "length of a link between SIPs"),

      shape_key("sip.cube_mesh", KB_AT(sip.cube_cols), KB_AT(sip.cube_rows), count(16),
                "mesh of cubes; at most 16 cubes"),
      key("sip.io.phys", KB_AT(sip.io.phys), count(16), "",
          "UCIe PHYs of the IO chiplet, PHY p joins cube p of the first row; absent: min(4, cube columns)"),
      key("sip.io.phy_link_mm", KB_AT(sip.io.phy_link_mm), length_mm(), "mm", "io_noc to the cube's UCIe port"),
      key("sip.io.pcie_ep.overhead_ns", KB_AT(sip.io.pcie_ep_overhead_ns), time_ns(), "ns", "per message"),
      key("sip.io.pcie_ep.bw_gbs", KB_AT(sip.io.pcie_ep_bw_gbs), bandwidth(), "GB/s", "link to io_noc"),
      key("sip.io.pcie_ep.link_mm", KB_AT(sip.io.pcie_ep_link_mm), length_mm(), "mm", "link to io_noc"),
      impl("sip.io.pcie_ep.impl", KB_AT(sip.io.pcie_ep_impl)),
      key("sip.io.ual_ep.overhead_ns", KB_AT(sip.io.ual_ep_overhead_ns), time_ns(), "ns", "per message"),
      key("sip.io.ual_ep.bw_gbs", KB_AT(sip.io.ual_ep_bw_gbs), bandwidth(), "GB/s", "link to io_noc"),
      key("sip.io.ual_ep.link_mm", KB_AT(sip.io.ual_ep_link_mm), length_mm(), "mm", "link to io_noc"),
      impl("sip.io.ual_ep.impl", KB_AT(sip.io.ual_ep_impl)),
      key("sip.io.io_cpu.overhead_ns", KB_AT(sip.io.io_cpu_overhead_ns), time_ns(), "ns", "per launch"),
      key("sip.io.io_cpu.link_mm", KB_AT(sip.io.io_cpu_link_mm), length_mm(), "mm", "link to io_noc"),
      impl("sip.io.io_cpu.impl", KB_AT(sip.io.io_cpu_impl)),
      key("sip.io.io_noc.overhead_ns", KB_AT(sip.io.io_noc_overhead_ns), time_ns(), "ns", "per message"),

      shape_key("cube.mesh", KB_AT(cube.mesh_cols), KB_AT(cube.mesh_rows), count(64), "mesh of routers"),
      key("cube.absent_routers", KB_AT(cube.absent_routers), distinct_list(router(), 0, Order::sorted), "",
          "the hole: a rectangle of routers inside the mesh, or none"),
      key("cube.pes", KB_AT(cube.pe_routers), distinct_list(router(), 1, Order::matters), "",
          "the router of each PE and of its HBM slice, pe0 first"),
      key("cube.pe_grid_cols", KB_AT(cube.pe_grid_cols), count(4096), "",
          "width of the logical, row-major grid of PEs; absent: the largest divisor of their number up to 4"),
      key("cube.m_cpu.router", KB_AT(cube.m_cpu_router), router(), "", "placement"),
      key("cube.m_cpu.overhead_ns", KB_AT(cube.m_cpu_overhead_ns), time_ns(), "ns", "per launch"),
      key("cube.m_cpu.link_mm", KB_AT(cube.m_cpu_link_mm), length_mm(), "mm", "link to its router"),
      impl("cube.m_cpu.impl", KB_AT(cube.m_cpu_impl)),
      key("cube.noc.pitch_mm", KB_AT(cube.noc.pitch_mm), tuple_of<double, 2>("[x, y]", length_mm()), "mm",
          "distance of neighbouring routers"),
      key("cube.noc.router_overhead_ns", KB_AT(cube.noc.router_overhead_ns), time_ns(), "ns", "per message and router"),
      key("cube.noc.link_bw_gbs", KB_AT(cube.noc.link_bw_gbs), bandwidth(), "GB/s", "each link between routers"),
      key("cube.noc.pe_dma_bw_gbs", KB_AT(cube.noc.pe_dma_bw_gbs), bandwidth(), "GB/s", "PE DMA to its router"),
      key("cube.noc.pe_link_mm", KB_AT(cube.noc.pe_link_mm), length_mm(), "mm", "PE DMA to its router"),
      impl("cube.noc.impl", KB_AT(cube.noc.impl)),
      key("cube.hbm.link_bw_gbs", KB_AT(cube.hbm.link_bw_gbs), bandwidth(), "GB/s", "controller to its router"),
      key("cube.hbm.pseudo_channels", KB_AT(cube.hbm.pseudo_channels), power_of_two(count(1024)), "", "per slice"),
      key("cube.hbm.pc_bw_gbs", KB_AT(cube.hbm.pc_bw_gbs), bandwidth(), "GB/s", "each pseudo channel"),
      key("cube.hbm.burst_bytes", KB_AT(cube.hbm.burst_bytes), burst, "bytes",
          "channel interleave, commit unit and flit size"),
      key("cube.hbm.access_ns", KB_AT(cube.hbm.access_ns), time_ns(), "ns", "latency added to every access"),
      key("cube.hbm.switch_penalty_ns", KB_AT(cube.hbm.switch_penalty_ns), time_ns(), "ns",
          "read/write turnaround per channel"),
      key("cube.hbm.slice_gib", KB_AT(cube.hbm.slice_gib), real_in(1e-6, 4096), "GiB", "capacity per slice"),
      key("cube.hbm.link_mm", KB_AT(cube.hbm.link_mm), length_mm(), "mm", "controller to its router"),
      impl("cube.hbm.impl", KB_AT(cube.hbm.impl)),
      key("cube.sram.router", KB_AT(cube.sram_router), router(), "", "placement"),
      key("cube.sram.bytes", KB_AT(cube.sram.bytes), window, "", "capacity"),
      key("cube.sram.link_bw_gbs", KB_AT(cube.sram.link_bw_gbs), bandwidth(), "GB/s", "link to its router"),
      key("cube.sram.link_mm", KB_AT(cube.sram.link_mm), length_mm(), "mm", "link to its router"),
      impl("cube.sram.impl", KB_AT(cube.sram.impl)),
      key("cube.ucie.connections", KB_AT(cube.ucie.connections), count(64), "", "per port"),
      key("cube.ucie.rows", KB_AT(cube.ucie_rows), connection_list, "", "row of each connection of the E and W ports"),
      key("cube.ucie.cols", KB_AT(cube.ucie_cols), connection_list, "",
          "column of each connection of the N and S ports"),
      key("cube.ucie.bw_gbs", KB_AT(cube.ucie.bw_gbs), bandwidth(), "GB/s", "each connection"),
      key("cube.ucie.overhead_ns", KB_AT(cube.ucie.overhead_ns), time_ns(), "ns", "per port; a crossing passes two"),
      key("cube.ucie.link_mm", KB_AT(cube.ucie.link_mm), length_mm(), "mm", "between the ports of two cubes"),
      impl("cube.ucie.impl", KB_AT(cube.ucie.impl)),

      key("pe.clock_ghz", KB_AT(pe.clock_ghz), real_in(0.001, 1e3), "GHz", "of cpu and engines"),
      key("pe.cpu.overhead_ns", KB_AT(pe.cpu.overhead_ns), time_ns(), "ns", "once per launch, before the common start"),
      key("pe.cpu.stack_bytes", KB_AT(pe.cpu.stack_bytes), bytes_in<std::uint64_t>(64 * KiB, 1 * GiB), "",
          "host stack of a kernel's thread"),
      impl("pe.cpu.impl", KB_AT(pe.cpu.impl)),
      key("pe.scheduler.overhead_ns", KB_AT(pe.scheduler.overhead_ns), time_ns(), "ns", "once per command"),
      key("pe.scheduler.queue_depth", KB_AT(pe.scheduler.queue_depth), count(65536), "", "commands in flight"),
      key("pe.scheduler.tile", KB_AT(pe.scheduler.tile), dims, "", "TILE_M, TILE_K, TILE_N"),
      key("pe.scheduler.tile_buffers", KB_AT(pe.scheduler.tile_buffers), count(65536), "",
          "TCM tiles per streamed operand"),
      key("pe.scheduler.prefetch_across_prologue", KB_AT(pe.scheduler.prefetch_across_prologue), boolean(), "",
          "stream the head's operand while the prologue still runs"),
      impl("pe.scheduler.impl", KB_AT(pe.scheduler.impl)),
      key("pe.dma.read_engines", KB_AT(pe.dma.read_engines), count(64), "", "of the PE"),
      key("pe.dma.write_engines", KB_AT(pe.dma.write_engines), count(64), "", "of the PE"),
      key("pe.dma.outstanding", KB_AT(pe.dma.outstanding), count(65536), "", "transfers in flight per engine"),
      key("pe.dma.overhead_ns", KB_AT(pe.dma.overhead_ns), time_ns(), "ns", "once per transfer, at issue"),
      impl("pe.dma.impl", KB_AT(pe.dma.impl)),
      key("pe.fetch_store.overhead_ns", KB_AT(pe.fetch_store.overhead_ns), time_ns(), "ns", "per stage"),
      impl("pe.fetch_store.impl", KB_AT(pe.fetch_store.impl)),
      key("pe.gemm.overhead_ns", KB_AT(pe.gemm.overhead_ns), time_ns(), "ns", "per stage"),
      key("pe.gemm.mac_shape", KB_AT(pe.gemm.mac_shape), dims, "", "of one step of the MAC array"),
      key("pe.gemm.accumulator_bytes", KB_AT(pe.gemm.accumulator_bytes), window, "",
          "f32 accumulators, at least one tile"),
      impl("pe.gemm.impl", KB_AT(pe.gemm.impl)),
      key("pe.math.overhead_ns", KB_AT(pe.math.overhead_ns), time_ns(), "ns", "per stage"),
      key("pe.math.vector_width", KB_AT(pe.math.vector_width), count(1048576), "", "elements per cycle"),
      impl("pe.math.impl", KB_AT(pe.math.impl)),
      key("pe.tcm.bytes", KB_AT(pe.tcm.bytes), window, "", "capacity"),
      key("pe.tcm.scratch_bytes", KB_AT(pe.tcm.scratch_bytes), window, "", "the kernel's arena, inside the capacity"),
      key("pe.tcm.read_bw_gbs", KB_AT(pe.tcm.read_bw_gbs), bandwidth(), "GB/s", "read channel"),
      key("pe.tcm.write_bw_gbs", KB_AT(pe.tcm.write_bw_gbs), bandwidth(), "GB/s", "write channel"),
      impl("pe.tcm.impl", KB_AT(pe.tcm.impl)),
      key("pe.mmu.page_bytes", KB_AT(pe.mmu.page_bytes), page, "", "page size"),
      key("pe.mmu.tlb_overhead_ns", KB_AT(pe.mmu.tlb_overhead_ns), time_ns(), "ns", "per translation"),
      impl("pe.mmu.impl", KB_AT(pe.mmu.impl)),
      key("pe.ipcq.slots", KB_AT(pe.ipcq.slots), count(65536), "", "per direction"),
      key("pe.ipcq.slot_bytes", KB_AT(pe.ipcq.slot_bytes), bytes_in<std::uint64_t>(1, 1 * GiB), "",
          "payload of one slot"),
      key("pe.ipcq.credit_bytes", KB_AT(pe.ipcq.credit_bytes), bytes_in<std::uint64_t>(0, 1 * MiB), "",
          "size of a credit message"),
      key("pe.ipcq.buffer_kind", KB_AT(pe.ipcq.buffer_kind), buffer_kinds, "", "the memory that holds the slots"),
      key("pe.ipcq.tcm.bw_gbs", KB_AT(pe.ipcq.tcm.bw_gbs), bandwidth(), "GB/s", "slots in TCM"),
      key("pe.ipcq.tcm.access_ns", KB_AT(pe.ipcq.tcm.access_ns), time_ns(), "ns", "slots in TCM"),
      key("pe.ipcq.sram.bw_gbs", KB_AT(pe.ipcq.sram.bw_gbs), bandwidth(), "GB/s", "slots in SRAM"),
      key("pe.ipcq.sram.access_ns", KB_AT(pe.ipcq.sram.access_ns), time_ns(), "ns", "slots in SRAM"),
      key("pe.ipcq.hbm.bw_gbs", KB_AT(pe.ipcq.hbm.bw_gbs), bandwidth(), "GB/s", "slots in HBM"),
      key("pe.ipcq.hbm.access_ns", KB_AT(pe.ipcq.hbm.access_ns), time_ns(), "ns", "slots in HBM"),
      impl("pe.ipcq.impl", KB_AT(pe.ipcq.impl)),
      key("pe.cost_model.fixed_per_composite_cycles", KB_AT(pe.cost_model.fixed_per_composite_cycles), cycles(),
          "cycles", "dispatch of a composite command"),
      key("pe.cost_model.fixed_per_single_op_cycles", KB_AT(pe.cost_model.fixed_per_single_op_cycles), cycles(),
          "cycles", "dispatch of any other command"),
      key("pe.cost_model.cycles_per_byte", KB_AT(pe.cost_model.cycles_per_byte), cycles(), "cycles/byte",
          "dispatch, per byte of logical size"),
      key("pe.cost_model.max_command_bytes", KB_AT(pe.cost_model.max_command_bytes),
          bytes_in<std::uint32_t>(1, 1 * GiB), "", "logical size that a command must not exceed"),

      key("fabric.granularity", KB_AT(granularity.granularity), granularities, "", "unit in which messages move"),
      key("fabric.packet_bytes", KB_AT(granularity.packet_bytes), bytes_in<std::uint64_t>(32, 1 * GiB), "",
          "largest packet of granularity packet"),

      key("open.host_port", KB_AT(open.host_port), boolean(), "", "leave the host port to the user's own IP"),
      key("open.hbm", KB_AT(open.hbm), names, "", "HBM slices left to the user's own IP, such as tray.sip0.cube0.hbm3"),
      key("open.ucie_edge", KB_AT(open.ucie_edge), names, "", "open UCIe edges, such as tray.sip0.cube0.ucie_w"),
      key("open.inter_sip", KB_AT(open.inter_sip), names, "", "open inter-SIP ports, such as tray.sip0.io.ual_ep"),
  };
}

#undef KB_AT

std::vector<std::string> groups() {
  std::set<std::string> found;
  for (const Key& k : key_table())
    for (std::size_t dot = k.name.find('.'); dot != std::string::npos; dot = k.name.find('.', dot + 1))
      found.insert(k.name.substr(0, dot));
  return {found.begin(), found.end()};
}

std::string parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string last_segment(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = build_table();
  return table;
}

const Key* find_key(const std::string& name) {
  const auto& table = key_table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const Key& k) { return k.name == name; });
  return it == table.end() ? nullptr : &*it;
}

bool is_group(const std::string& name) {
  const std::string prefix = name + ".";
  const auto& table = key_table();
  return std::any_of(table.begin(), table.end(),
                     [&](const Key& k) { return k.name.compare(0, prefix.size(), prefix) == 0; });
}

std::string children_of(const std::string& group) {
  const std::string prefix = group.empty() ? "" : group + ".";
  std::string text;
  std::string last;
  for (const Key& k : key_table()) {
    if (k.name.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string child = k.name.substr(prefix.size(), k.name.find('.', prefix.size()) - prefix.size());
    if (child == last) continue;
    text += (text.empty() ? "" : ", ") + child;
    last = child;
  }
  return text;
}

std::string hint_for_unknown(const std::string& name) {
  // A right name under a wrong group is likelier than a misspelling, so keys with the same last segment go first.
  std::vector<std::string> same_end;
  std::vector<std::string> all = groups();
  for (const Key& k : key_table()) {
    all.push_back(k.name);
    if (last_segment(k.name) == last_segment(name)) same_end.push_back(k.name);
  }
  std::string nearest = nearest_name(name, same_end);
  if (nearest.empty()) nearest = nearest_name(name, all);
  if (!nearest.empty()) return "nearest known key: '" + nearest + "'";
  std::string group = parent_of(name);
  while (!group.empty() && !is_group(group)) group = parent_of(group);
  return group.empty() ? "known keys: " + children_of("") : "known keys of '" + group + "': " + children_of(group);
}

}  // namespace kb::config_detail
