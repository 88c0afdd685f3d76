// Topology files read to the machine that they mean, and the dump reads back to the same machine.
#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "config_support.h"

using kb::test::topology;

namespace {

const char* const kTopologies[] = {"default.yaml", "one_pe.yaml", "one_cube.yaml", "eight_cubes.yaml", "six_sips.yaml"};

kb::SystemConfig parse(const std::string& yaml, const std::vector<kb::Override>& overrides = {}) {
  return kb::parse_config(yaml, "t.yaml", overrides);
}

/// The text with the entries of every block map in reverse order.
std::string reversed_entries(const std::string& yaml) {
  std::vector<std::string> lines;
  std::istringstream in(yaml);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const auto indent = [](const std::string& line) { return line.find_first_not_of(' '); };
  std::function<std::string(std::size_t, std::size_t)> reverse = [&](std::size_t first, std::size_t last) {
    std::string text;
    std::size_t end = last;
    for (std::size_t i = last; i-- > first;) {
      if (indent(lines[i]) != indent(lines[first])) continue;
      text += lines[i] + "\n" + (i + 1 < end ? reverse(i + 1, end) : "");
      end = i;
    }
    return text;
  };
  return reverse(0, lines.size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(config)

BOOST_AUTO_TEST_SUITE(shipped)

BOOST_AUTO_TEST_CASE(default_file_is_the_default_machine) {
  const kb::SystemConfig config = kb::load_config(topology("default.yaml"));
  BOOST_CHECK_EQUAL(kb::dump_config(config), kb::dump_config(kb::SystemConfig{}));
  BOOST_CHECK_EQUAL(config.total_pes(), 256u);
}

BOOST_AUTO_TEST_CASE(small_machines) {
  const kb::SystemConfig one_pe = kb::load_config(topology("one_pe.yaml"));
  BOOST_CHECK_EQUAL(one_pe.total_pes(), 1u);
  BOOST_CHECK_EQUAL(one_pe.cube.mesh_cols * one_pe.cube.mesh_rows, 36u);
  BOOST_CHECK_EQUAL(one_pe.cube.absent_routers.size(), 4u);
  BOOST_CHECK_EQUAL(one_pe.cube.pe_routers.at(0).name(), "r0c0");
  BOOST_CHECK_EQUAL(one_pe.sip.io.phys, 1u);
  BOOST_CHECK_EQUAL(one_pe.cube.pe_grid_cols, 1u);

  const kb::SystemConfig one_cube = kb::load_config(topology("one_cube.yaml"));
  BOOST_CHECK_EQUAL(one_cube.total_pes(), 8u);
  BOOST_CHECK_EQUAL(one_cube.cube.pe_grid_cols, 4u);

  const kb::SystemConfig eight_cubes = kb::load_config(topology("eight_cubes.yaml"));
  BOOST_CHECK_EQUAL(eight_cubes.total_pes(), 64u);
  BOOST_CHECK_EQUAL(eight_cubes.sip.cube_cols, 4u);
  BOOST_CHECK_EQUAL(eight_cubes.sip.cube_rows, 2u);
  BOOST_CHECK_EQUAL(eight_cubes.sip.io.phys, 4u);
}

BOOST_AUTO_TEST_CASE(torus_of_sips) {
  const kb::SystemConfig config = kb::load_config(topology("six_sips.yaml"));
  BOOST_CHECK_EQUAL(config.sips, 6u);
  BOOST_CHECK(config.fabric.kind == kb::FabricKind::torus_2d);
  BOOST_CHECK(kb::fabric_shape(config) == std::make_pair(3u, 2u));
  BOOST_CHECK_EQUAL(config.total_pes(), 768u);
}

BOOST_AUTO_TEST_CASE(dump_reads_back) {
  for (const char* file : kTopologies) {
    BOOST_TEST_CONTEXT(file) {
      const std::string dump = kb::dump_config(kb::load_config(topology(file)));
      BOOST_CHECK_EQUAL(kb::dump_config(parse(dump)), dump);
    }
  }
}

BOOST_AUTO_TEST_CASE(order_of_entries_means_nothing) {
  for (const char* file : kTopologies) {
    BOOST_TEST_CONTEXT(file) {
      const std::string dump = kb::dump_config(kb::load_config(topology(file)));
      const std::string reversed = reversed_entries(dump);
      BOOST_CHECK_NE(reversed, dump);
      BOOST_CHECK_EQUAL(kb::dump_config(parse(reversed)), dump);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(dump)

BOOST_AUTO_TEST_CASE(every_key_is_written_and_read) {
  // Each key by itself gets a value other than its default; the dump must carry exactly that and read back.
  const std::vector<kb::Override> changes = {
      {"system.ns_per_mm", "0.02"},
      {"system.sips", "4"},
      {"system.fabric.kind", "switch"},
      {"system.fabric.shape", "[2, 1]"},
      {"sip.cube_mesh", "[4, 3]"},
      {"cube.mesh", "[8, 8]"},
      {"cube.absent_routers", "[r3c3]"},
      {"cube.pes", "[r0c1, r0c0]"},
      {"cube.pe_grid_cols", "2"},
      {"cube.noc.pitch_mm", "[1.5, 0.25]"},
      {"cube.ucie.rows", "[5, 1, 4, 0]"},
      {"cube.ucie.cols", "[5, 4, 1, 0]"},
      {"cube.hbm.pseudo_channels", "16"},
      {"cube.hbm.burst_bytes", "128"},
      {"sip.io.phys", "2"},
      {"pe.scheduler.tile", "[16, 32, 64]"},
      {"pe.scheduler.prefetch_across_prologue", "on"},
      {"pe.gemm.mac_shape", "[8, 8, 8]"},
      {"pe.mmu.page_bytes", "64KiB"},
      {"pe.ipcq.buffer_kind", "hbm"},
      {"pe.tcm.bytes", "32MiB"},
      {"pe.tcm.scratch_bytes", "2MiB"},
      {"pe.cpu.stack_bytes", "1MiB"},
      {"pe.gemm.accumulator_bytes", "128KiB"},
      {"fabric.granularity", "flit"},
      {"fabric.packet_bytes", "8KiB"},
      {"open.host_port", "on"},
      {"open.hbm", "[tray.sip0.cube1.hbm0]"},
      {"open.ucie_edge", "[tray.sip0.cube0.ucie_w]"},
      {"open.inter_sip", "[tray.sip1.io.ual_ep]"},
      {"cube.hbm.slice_gib", "0.5"},
      {"cube.ucie.connections", "4"},
  };
  for (const kb::ConfigKeyInfo& info : kb::describe_config_keys()) {
    BOOST_TEST_CONTEXT(info.key) {
      const auto listed =
          std::find_if(changes.begin(), changes.end(), [&](const auto& c) { return c.first == info.key; });
      std::string value = "3";  // good for every number without further demands
      if (listed != changes.end()) {
        value = listed->second;
      } else if (info.key.size() > 5 && info.key.compare(info.key.size() - 5, 5, ".impl") == 0) {
        value = "my_model";
      } else if (info.key == "cube.m_cpu.router" || info.key == "cube.sram.router") {
        value = "r5c5";
      }
      const std::string before = kb::dump_config(kb::SystemConfig{});
      const std::string after = kb::dump_config(parse("{}", {{info.key, value}}));
      if (info.key != "cube.ucie.connections") BOOST_CHECK_NE(before, after);
      BOOST_CHECK_EQUAL(kb::dump_config(parse(after)), after);
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_keep_every_bit) {
  for (const char* value : {"0.1", "0.30000000000000004", "1e-300", "333333.33333333331", "123456.789"}) {
    const kb::SystemConfig config = parse(std::string("pe: {dma: {overhead_ns: ") + value + "}}");
    BOOST_CHECK_EQUAL(config.pe.dma.overhead_ns, std::stod(value));
    BOOST_CHECK_EQUAL(parse(kb::dump_config(config)).pe.dma.overhead_ns, config.pe.dma.overhead_ns);
  }
}

BOOST_AUTO_TEST_CASE(sets_are_written_in_order) {
  BOOST_CHECK_EQUAL(kb::dump_config(parse("cube: {absent_routers: [r3c3, r2c3, r3c2, r2c2]}")),
                    kb::dump_config(kb::SystemConfig{}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(values)

BOOST_AUTO_TEST_CASE(sizes) {
  const auto bytes = [](const std::string& text) { return parse("{}", {{"pe.tcm.bytes", text}}).pe.tcm.bytes; };
  BOOST_CHECK_EQUAL(bytes("8388608"), 8 * kb::MiB);
  BOOST_CHECK_EQUAL(bytes("8192KiB"), 8 * kb::MiB);
  BOOST_CHECK_EQUAL(bytes("8MiB"), 8 * kb::MiB);
  BOOST_CHECK_EQUAL(bytes("8 MiB"), 8 * kb::MiB);
  BOOST_CHECK_EQUAL(bytes("1GiB"), kb::GiB);
}

BOOST_AUTO_TEST_CASE(switches) {
  const auto value = [](const std::string& text) {
    return parse("pe: {scheduler: {prefetch_across_prologue: " + text + "}}").pe.scheduler.prefetch_across_prologue;
  };
  BOOST_CHECK(value("on"));
  BOOST_CHECK(value("true"));
  BOOST_CHECK(!value("off"));
  BOOST_CHECK(!value("false"));
}

BOOST_AUTO_TEST_CASE(nested_and_dotted_keys) {
  BOOST_CHECK_EQUAL(kb::dump_config(parse("pe.dma.overhead_ns: 4\npe: {clock_ghz: 2}\n")),
                    kb::dump_config(parse("pe: {clock_ghz: 2, dma: {overhead_ns: 4}}\n")));
}

BOOST_AUTO_TEST_CASE(derived_values) {
  BOOST_CHECK_EQUAL(parse("sip: {cube_mesh: [2, 8]}").sip.io.phys, 2u);
  BOOST_CHECK_EQUAL(parse("sip: {cube_mesh: [8, 2]}").sip.io.phys, 4u);
  BOOST_CHECK_EQUAL(parse("cube: {pes: [r0c0, r0c1, r1c4, r1c5, r4c0, r4c1]}").cube.pe_grid_cols, 3u);
  BOOST_CHECK_EQUAL(parse("cube: {pes: [r0c0, r0c1, r1c4, r1c5, r4c0]}").cube.pe_grid_cols, 1u);
  const auto shape = [](std::uint32_t sips) {
    kb::SystemConfig machine;
    machine.sips = sips;
    return kb::fabric_shape(machine);
  };
  BOOST_CHECK(shape(1) == std::make_pair(1u, 1u));
  BOOST_CHECK(shape(5) == std::make_pair(5u, 1u));
  BOOST_CHECK(shape(12) == std::make_pair(4u, 3u));
  BOOST_CHECK(shape(16) == std::make_pair(4u, 4u));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(overrides)

BOOST_AUTO_TEST_CASE(win_over_the_file_and_over_earlier_ones) {
  const kb::SystemConfig config =
      parse("pe: {clock_ghz: 2}",
            {{"pe.clock_ghz", "3"}, {"pe.cost_model.cycles_per_byte", "0.25"}, {"pe.clock_ghz", "1.5"}});
  BOOST_CHECK_EQUAL(config.pe.clock_ghz, 1.5);
  BOOST_CHECK_EQUAL(config.pe.cost_model.cycles_per_byte, 0.25);
}

BOOST_AUTO_TEST_CASE(take_lists_and_words) {
  const kb::SystemConfig config = parse("{}", {{"pe.scheduler.tile", "[16, 16, 16]"}, {"fabric.granularity", "flit"}});
  BOOST_CHECK_EQUAL(config.pe.scheduler.tile[1], 16u);
  BOOST_CHECK(config.granularity.granularity == kb::Granularity::flit);
}

BOOST_AUTO_TEST_CASE(apply_to_files) {
  BOOST_CHECK_EQUAL(kb::load_config(topology("one_pe.yaml"), {{"system.sips", "2"}}).total_pes(), 2u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(keys_are_listed) {
  BOOST_CHECK(kb::is_config_key("pe.cost_model.cycles_per_byte"));
  BOOST_CHECK(!kb::is_config_key("pe"));
  BOOST_CHECK(!kb::is_config_key("bench.S_kv"));
  const std::vector<std::string> keys = kb::config_keys();
  BOOST_CHECK(std::is_sorted(keys.begin(), keys.end()));
  BOOST_CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == keys.size());
}

BOOST_AUTO_TEST_CASE(every_key_of_the_specification_exists) {
  for (const char* key : {"system.ns_per_mm",
                          "system.fabric.kind",
                          "system.fabric.link_bw_gbs",
                          "system.fabric.overhead_ns",
                          "sip.io.pcie_ep.overhead_ns",
                          "sip.io.pcie_ep.bw_gbs",
                          "sip.io.ual_ep.overhead_ns",
                          "sip.io.ual_ep.bw_gbs",
                          "sip.io.io_cpu.overhead_ns",
                          "cube.m_cpu.overhead_ns",
                          "cube.noc.pitch_mm",
                          "cube.noc.router_overhead_ns",
                          "cube.noc.link_bw_gbs",
                          "cube.noc.pe_dma_bw_gbs",
                          "cube.hbm.link_bw_gbs",
                          "cube.hbm.pseudo_channels",
                          "cube.hbm.pc_bw_gbs",
                          "cube.hbm.burst_bytes",
                          "cube.hbm.access_ns",
                          "cube.hbm.switch_penalty_ns",
                          "cube.hbm.slice_gib",
                          "cube.sram.bytes",
                          "cube.sram.link_bw_gbs",
                          "cube.ucie.connections",
                          "cube.ucie.bw_gbs",
                          "cube.ucie.overhead_ns",
                          "pe.clock_ghz",
                          "pe.cpu.overhead_ns",
                          "pe.scheduler.overhead_ns",
                          "pe.scheduler.queue_depth",
                          "pe.scheduler.tile",
                          "pe.scheduler.tile_buffers",
                          "pe.scheduler.prefetch_across_prologue",
                          "pe.dma.read_engines",
                          "pe.dma.write_engines",
                          "pe.dma.outstanding",
                          "pe.dma.overhead_ns",
                          "pe.tcm.bytes",
                          "pe.tcm.scratch_bytes",
                          "pe.tcm.read_bw_gbs",
                          "pe.tcm.write_bw_gbs",
                          "pe.gemm.mac_shape",
                          "pe.gemm.accumulator_bytes",
                          "pe.math.vector_width",
                          "pe.gemm.overhead_ns",
                          "pe.math.overhead_ns",
                          "pe.fetch_store.overhead_ns",
                          "pe.ipcq.slots",
                          "pe.ipcq.slot_bytes",
                          "pe.ipcq.credit_bytes",
                          "pe.ipcq.buffer_kind",
                          "pe.mmu.page_bytes",
                          "pe.mmu.tlb_overhead_ns",
                          "pe.cost_model.fixed_per_composite_cycles",
                          "pe.cost_model.fixed_per_single_op_cycles",
                          "pe.cost_model.cycles_per_byte",
                          "pe.cost_model.max_command_bytes",
                          "fabric.granularity",
                          "fabric.packet_bytes"})
    BOOST_CHECK_MESSAGE(kb::is_config_key(key), key);
}

BOOST_AUTO_TEST_CASE(nearest) {
  const std::vector<std::string> names = {"gemm", "allreduce", "gqa-decode-long", "gqa-decode-short"};
  BOOST_CHECK_EQUAL(kb::nearest_name("gem", names), "gemm");
  BOOST_CHECK_EQUAL(kb::nearest_name("gqa-decode-lnog", names), "gqa-decode-long");
  BOOST_CHECK_EQUAL(kb::nearest_name("gemm", names), "gemm");
  BOOST_CHECK_EQUAL(kb::nearest_name("zzzzzzzzzz", names), "");
  BOOST_CHECK_EQUAL(kb::nearest_name("", names), "");
  BOOST_CHECK_EQUAL(kb::nearest_name("gemm", {}), "");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
