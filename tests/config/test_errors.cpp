// Every class of mistake in a topology file or override gives one message with place, key, finding and what is allowed.
#include <kb/modules/params.h>

#include <limits>

#include "config_support.h"

using kb::test::error_of;
using kb::test::error_of_set;
using kb::test::input_error;

BOOST_AUTO_TEST_SUITE(errors)

BOOST_AUTO_TEST_SUITE(file)

BOOST_AUTO_TEST_CASE(missing_file) {
  KB_CHECK_MESSAGE(input_error([] { kb::load_config("/nowhere/machine.yaml"); }),
                   "/nowhere/machine.yaml: the topology file cannot be read: No such file or directory");
}

BOOST_AUTO_TEST_CASE(folder) {
  KB_CHECK_MESSAGE(input_error([] { kb::load_config("/"); }), "/: the topology file cannot be read: it is a folder");
}

BOOST_AUTO_TEST_CASE(empty) {
  const std::string expected =
      "t.yaml: found an empty file; allowed: a map with some of the keys system, sip, cube, pe, fabric, open";
  KB_CHECK_MESSAGE(error_of(""), expected);
  KB_CHECK_MESSAGE(error_of("\n\n# nothing but a comment\n"), expected);
  KB_CHECK_MESSAGE(error_of("---\n"), expected);
  KB_CHECK_MESSAGE(error_of("~\n"), expected);
}

BOOST_AUTO_TEST_CASE(no_map) {
  KB_CHECK_HOLDS(error_of("\njust text\n"), "t.yaml:2: found just text; allowed: a map with some of the keys system");
  KB_CHECK_HOLDS(error_of("- a\n- b\n"), "t.yaml:1: found [a, b]; allowed: a map");
}

BOOST_AUTO_TEST_CASE(syntax) {
  KB_CHECK_HOLDS(error_of("system:\n  sips: 1\n sip: [1\n"), "t.yaml:3: not valid YAML: ");
  KB_CHECK_HOLDS(error_of("pe: {clock_ghz: 1\n"), "not valid YAML");
  KB_CHECK_HOLDS(error_of("system:\n\tsips: 1\n"), "t.yaml:2: not valid YAML");
}

BOOST_AUTO_TEST_CASE(second_document) {
  KB_CHECK_MESSAGE(error_of("system: {sips: 1}\n---\npe: {clock_ghz: 2}\n"),
                   "t.yaml:3: found a second document; allowed: one");
}

BOOST_AUTO_TEST_CASE(aliases_and_odd_keys) {
  KB_CHECK_HOLDS(error_of("pe: &p {clock_ghz: 1}\nsip: *p\n"), "t.yaml:2: found an alias (*name); allowed: ");
  KB_CHECK_HOLDS(error_of("[1, 2]: 3\n"), "t.yaml:1: found a list or map as key; allowed: the name of a key");
  KB_CHECK_HOLDS(error_of("~: 3\n"), "t.yaml:1: found an empty key");
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_an_error_not_a_crash) {
  const std::string message = error_of("pe: " + std::string(20000, '[') + std::string(20000, ']'));
  KB_CHECK_HOLDS(message, "t.yaml:1: not valid YAML");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(keys)

BOOST_AUTO_TEST_CASE(unknown_key_names_the_nearest) {
  KB_CHECK_MESSAGE(error_of("pe:\n  cpu: {overhead_ns: 1}\n  clok_ghz: 2\n"),
                   "t.yaml:3: key 'pe.clok_ghz': found an unknown key; nearest known key: 'pe.clock_ghz'");
  KB_CHECK_HOLDS(error_of("pe: {dma: {overhead: 1}}"), "nearest known key: 'pe.dma.overhead_ns'");
}

BOOST_AUTO_TEST_CASE(unknown_group_names_the_nearest) {
  KB_CHECK_MESSAGE(error_of("pe:\n  gem:\n    overhead_ns: 1\n"),
                   "t.yaml:2: key 'pe.gem': found an unknown key; nearest known key: 'pe.gemm'");
  KB_CHECK_HOLDS(error_of("sistem: {sips: 1}"), "nearest known key: 'system'");
}

BOOST_AUTO_TEST_CASE(right_name_in_the_wrong_group) {
  KB_CHECK_HOLDS(error_of("cube: {burst_bytes: 512}"), "nearest known key: 'cube.hbm.burst_bytes'");
}

BOOST_AUTO_TEST_CASE(nothing_near_lists_the_group) {
  KB_CHECK_MESSAGE(error_of("pe: {gemm: {zzzzzzzzzzzzzzzzzzzzzzz: 1}}"),
                   "t.yaml:1: key 'pe.gemm.zzzzzzzzzzzzzzzzzzzzzzz': found an unknown key; known keys of 'pe.gemm': "
                   "overhead_ns, mac_shape, accumulator_bytes, impl");
  KB_CHECK_HOLDS(error_of("xxxxxxxxxxxxxxxxxxxxxxxxx: 1"), "known keys: system, sip, cube, pe, fabric, open");
}

BOOST_AUTO_TEST_CASE(duplicate_key) {
  KB_CHECK_MESSAGE(error_of("pe:\n  clock_ghz: 1\n  cpu: {overhead_ns: 1}\n  clock_ghz: 2\n"),
                   "t.yaml:4: key 'pe.clock_ghz': found a duplicate of line 2; allowed: each key once");
}

BOOST_AUTO_TEST_CASE(duplicate_group) {
  KB_CHECK_MESSAGE(error_of("pe:\n  clock_ghz: 1\nsystem: {sips: 1}\npe:\n  cpu: {overhead_ns: 1}\n"),
                   "t.yaml:4: key 'pe': found a duplicate of line 1; allowed: each key once");
}

BOOST_AUTO_TEST_CASE(duplicate_in_another_notation) {
  KB_CHECK_MESSAGE(error_of("pe:\n  clock_ghz: 1\npe.clock_ghz: 1\n"),
                   "t.yaml:3: key 'pe.clock_ghz': found a duplicate of line 2; allowed: each key once");
}

BOOST_AUTO_TEST_CASE(group_without_map) {
  KB_CHECK_MESSAGE(error_of("pe:\n  mmu: 4096\n"),
                   "t.yaml:2: key 'pe.mmu': found 4096; allowed: a map with some of the keys page_bytes, "
                   "tlb_overhead_ns, impl");
  KB_CHECK_HOLDS(error_of("pe:\nsystem: {sips: 1}\n"), "t.yaml:1: key 'pe': found nothing; allowed: a map");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(values)

BOOST_AUTO_TEST_CASE(number) {
  const std::string allowed = "; allowed: a number from 0 to 1000000 (ns)";
  const auto message = [](const std::string& value) { return error_of("pe:\n  dma: {overhead_ns: " + value + "}\n"); };
  const std::string place = "t.yaml:2: key 'pe.dma.overhead_ns': found ";
  KB_CHECK_MESSAGE(message("-1"), place + "-1" + allowed);
  KB_CHECK_MESSAGE(message("fast"), place + "fast" + allowed);
  KB_CHECK_MESSAGE(message("\"2.0\""), place + "'2.0' (a string)" + allowed);
  KB_CHECK_MESSAGE(message("!!str 2"), place + "'2' (a string)" + allowed);
  KB_CHECK_MESSAGE(message("[1]"), place + "[1]" + allowed);
  KB_CHECK_MESSAGE(message("{a: 1}"), place + "a map" + allowed);
  KB_CHECK_MESSAGE(message(""), place + "nothing" + allowed);
  KB_CHECK_MESSAGE(message("on"), place + "on" + allowed);
  KB_CHECK_MESSAGE(message("2 ns"), place + "2 ns" + allowed);
  KB_CHECK_MESSAGE(message("0x10"), place + "0x10" + allowed);
  KB_CHECK_MESSAGE(message("2e6"), place + "2e6" + allowed);
}

BOOST_AUTO_TEST_CASE(not_finite) {
  for (const char* value : {"nan", "NaN", ".nan", "inf", ".inf", "-inf", "1e999"})
    KB_CHECK_HOLDS(error_of_set("pe.dma.overhead_ns", value), std::string("found ") + value + "; allowed: a number");
}

BOOST_AUTO_TEST_CASE(bandwidth) {
  KB_CHECK_MESSAGE(error_of("cube: {noc: {link_bw_gbs: 0}}"),
                   "t.yaml:1: key 'cube.noc.link_bw_gbs': found 0; allowed: a number from 0.001 to 1000000 (GB/s)");
  for (const char* key : {"system.fabric.link_bw_gbs", "sip.io.pcie_ep.bw_gbs", "cube.noc.pe_dma_bw_gbs",
                          "cube.hbm.link_bw_gbs", "cube.hbm.pc_bw_gbs", "cube.sram.link_bw_gbs", "cube.ucie.bw_gbs",
                          "pe.tcm.read_bw_gbs", "pe.tcm.write_bw_gbs"}) {
    KB_CHECK_HOLDS(error_of_set(key, "0"), "found 0; allowed: ");
    KB_CHECK_HOLDS(error_of_set(key, "-128"), "found -128; allowed: ");
  }
}

BOOST_AUTO_TEST_CASE(whole_number) {
  const std::string allowed = "; allowed: a whole number from 1 to 65536";
  const std::string place = "--set: key 'pe.scheduler.queue_depth': found ";
  for (const char* value : {"0", "-1", "1.5", "4.0", "1e3", "65537", "99999999999999999999999", "many", "true"})
    KB_CHECK_MESSAGE(error_of_set("pe.scheduler.queue_depth", value), place + value + allowed);
}

BOOST_AUTO_TEST_CASE(minimum_is_one) {
  for (const char* key : {"pe.ipcq.slots", "pe.dma.outstanding", "pe.dma.read_engines", "pe.scheduler.tile_buffers",
                          "pe.math.vector_width", "system.sips", "cube.ucie.connections", "cube.pe_grid_cols"})
    KB_CHECK_HOLDS(error_of_set(key, "0"), "found 0; allowed: a whole number from 1 to ");
  KB_CHECK_HOLDS(error_of_set("pe.scheduler.tile", "[32, 0, 32]"), "found [32, 0, 32]; allowed: [M, K, N], each ");
  KB_CHECK_HOLDS(error_of_set("pe.gemm.mac_shape", "[16, 16]"), "found [16, 16]; allowed: [M, K, N], each ");
  KB_CHECK_HOLDS(error_of_set("sip.cube_mesh", "[0, 4]"), "found [0, 4]; allowed: [columns, rows], each ");
}

BOOST_AUTO_TEST_CASE(size) {
  const std::string expected = "; allowed: a size from 1 to 4TiB, in bytes or with the suffix KiB, MiB, GiB";
  for (const char* value : {"0", "-5", "16MB", "1.5MiB", "MiB", "16 M", "99999999999GiB", "18446744073709551615KiB"})
    KB_CHECK_HOLDS(error_of_set("pe.tcm.bytes", value), std::string("found ") + value + expected);
}

BOOST_AUTO_TEST_CASE(boolean) {
  const std::string place = "--set: key 'pe.scheduler.prefetch_across_prologue': found ";
  const std::string allowed = "; allowed: on, off, true, false";
  for (const char* value : {"yes", "1", "0", "True", "ON", "maybe"})
    KB_CHECK_MESSAGE(error_of_set("pe.scheduler.prefetch_across_prologue", value), place + value + allowed);
  KB_CHECK_MESSAGE(error_of_set("pe.scheduler.prefetch_across_prologue", "'on'"), place + "'on' (a string)" + allowed);
}

BOOST_AUTO_TEST_CASE(word) {
  KB_CHECK_MESSAGE(
      error_of("system: {fabric: {kind: ring}}"),
      "t.yaml:1: key 'system.fabric.kind': found ring; allowed: ring_1d, torus_2d, mesh_2d_no_wrap, switch");
  KB_CHECK_HOLDS(error_of("fabric: {granularity: flits}"), "found flits; allowed: packet, flit");
  KB_CHECK_HOLDS(error_of("pe: {ipcq: {buffer_kind: dram}}"), "found dram; allowed: tcm, sram, hbm");
}

BOOST_AUTO_TEST_CASE(implementation_name) {
  for (const char* value : {"true", "off", "no", "3", "a b", "''", "'null'", "[x]"})
    KB_CHECK_HOLDS(error_of_set("pe.gemm.impl", value), "allowed: a name of letters");
}

BOOST_AUTO_TEST_CASE(router) {
  for (const char* value : {"r0", "c0r0", "r-1c0", "r0c0x", "R0c0", "r0c99999999999", "0"})
    KB_CHECK_HOLDS(error_of_set("cube.sram.router", value),
                   std::string("found ") + value + "; allowed: a router, written r<row>c<col>");
}

BOOST_AUTO_TEST_CASE(power_of_two) {
  KB_CHECK_MESSAGE(error_of("cube: {hbm: {pseudo_channels: 6}}"),
                   "t.yaml:1: key 'cube.hbm.pseudo_channels': found 6; allowed: a power of two, a whole number from 1 "
                   "to 1024");
  KB_CHECK_HOLDS(error_of_set("cube.hbm.burst_bytes", "300"), "allowed: a power of two");
  KB_CHECK_HOLDS(error_of_set("cube.hbm.burst_bytes", "16"), "a whole number from 32 to 65536");
  KB_CHECK_HOLDS(error_of_set("pe.mmu.page_bytes", "3MiB"), "allowed: a power of two");
}

BOOST_AUTO_TEST_CASE(long_values_are_shortened) {
  const std::string message = error_of_set("pe.clock_ghz", std::string(5000, 'x'));
  KB_CHECK_HOLDS(message, "xxx...; allowed: ");
  BOOST_CHECK_LT(message.size(), 200u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(combinations)

BOOST_AUTO_TEST_CASE(no_pes) {
  KB_CHECK_MESSAGE(error_of("cube:\n  pes: []\n"),
                   "t.yaml:2: key 'cube.pes': found []; allowed: a list of at least 1 distinct entries, each a router, "
                   "written r<row>c<col>");
}

BOOST_AUTO_TEST_CASE(placement_on_no_router) {
  KB_CHECK_MESSAGE(error_of("cube:\n  pes: [r0c0, r9c0]\n"),
                   "t.yaml:2: key 'cube.pes': found r9c0; allowed: a router that exists: of the 6 x 6 mesh and not in "
                   "cube.absent_routers");
  KB_CHECK_HOLDS(error_of("cube: {pes: [r2c2]}"), "key 'cube.pes': found r2c2; allowed: a router that exists");
  KB_CHECK_HOLDS(error_of("cube: {m_cpu: {router: r3c3}}"), "key 'cube.m_cpu.router': found r3c3; allowed: ");
  KB_CHECK_HOLDS(error_of("cube: {sram: {router: r0c6}}"), "key 'cube.sram.router': found r0c6; allowed: ");
}

BOOST_AUTO_TEST_CASE(a_default_that_does_not_fit_says_so) {
  KB_CHECK_MESSAGE(
      error_of("cube:\n  mesh: [3, 3]\n  absent_routers: []\n  pes: [r0c0]\n"),
      "t.yaml: key 'cube.sram.router': found r3c0 (the default); allowed: a router that exists: of the 3 x "
      "3 mesh and not in cube.absent_routers");
}

BOOST_AUTO_TEST_CASE(duplicate_placement) {
  KB_CHECK_HOLDS(error_of("cube: {pes: [r0c0, r0c1, r0c0]}"),
                 "found [r0c0, r0c1, r0c0]; allowed: a list of at least 1");
  KB_CHECK_HOLDS(error_of("cube: {absent_routers: [r2c2, r2c2]}"), "found [r2c2, r2c2]; allowed: a list of distinct");
  KB_CHECK_HOLDS(error_of("cube: {ucie: {rows: [0, 1, 1, 5]}}"), "found [0, 1, 1, 5]; allowed: a list of at least 1");
}

BOOST_AUTO_TEST_CASE(hole_is_an_inner_rectangle) {
  const std::string allowed =
      "; allowed: distinct routers that form a rectangle with routers of the 6 x 6 mesh on all sides, or []";
  for (const char* hole : {"[r2c2, r3c3]", "[r2c2, r2c3, r3c2]", "[r0c2]", "[r2c5]", "[r5c3]", "[r3c0]", "[r7c7]"})
    KB_CHECK_MESSAGE(error_of("cube:\n  absent_routers: " + std::string(hole)),
                     "t.yaml:2: key 'cube.absent_routers': found " + std::string(hole) + allowed);
  KB_CHECK_HOLDS(error_of("cube: {mesh: [3, 1], pes: [r0c0], absent_routers: [r0c1]}"),
                 "of the 3 x 1 mesh on all sides");
}

BOOST_AUTO_TEST_CASE(ucie_lines) {
  KB_CHECK_HOLDS(error_of("cube: {ucie: {rows: [0, 1, 4, 6]}}"),
                 "key 'cube.ucie.rows': found [0, 1, 4, 6]; allowed: entries from 0 to 5, inside cube.mesh");
  KB_CHECK_HOLDS(error_of("cube: {ucie: {cols: [0, 1]}}"),
                 "key 'cube.ucie.cols': found [0, 1]; allowed: as many entries as cube.ucie.connections, 4");
  KB_CHECK_HOLDS(error_of("cube: {ucie: {connections: 2}}"), "key 'cube.ucie.rows': found [0, 1, 4, 5] (the default)");
}

BOOST_AUTO_TEST_CASE(address_map) {
  KB_CHECK_HOLDS(error_of("sip: {cube_mesh: [5, 4]}"), "key 'sip.cube_mesh': found [5, 4]; allowed: at most 16 cubes");
  KB_CHECK_HOLDS(error_of("system: {sips: 17}"), "key 'system.sips': found 17; allowed: a whole number from 1 to 16");
  KB_CHECK_HOLDS(error_of("cube: {hbm: {slice_gib: 600}}"),
                 "key 'cube.hbm.slice_gib': found 600; allowed: slices, TCMs and SRAM of a cube within its address "
                 "window of 4TiB; they take ");
}

BOOST_AUTO_TEST_CASE(slice_of_whole_bursts) {
  KB_CHECK_HOLDS(error_of_set("cube.hbm.slice_gib", "0.1"),
                 "found 0.1; allowed: a whole number of bursts of 256 bytes");
  BOOST_CHECK_NO_THROW(kb::parse_config("cube: {hbm: {slice_gib: 0.5}}", "t.yaml"));
}

BOOST_AUTO_TEST_CASE(fabric_of_sips) {
  KB_CHECK_HOLDS(error_of("system: {sips: 6, fabric: {kind: torus_2d, shape: [2, 2]}}"),
                 "key 'system.fabric.shape': found [2, 2]; allowed: columns x rows equal to the number of SIPs, 6");
  KB_CHECK_HOLDS(error_of("system: {sips: 6, fabric: {kind: mesh_2d_no_wrap, shape: [6, 0]}}"),
                 "found [6, 0]; allowed:");
}

BOOST_AUTO_TEST_CASE(packets_of_whole_bursts) {
  KB_CHECK_HOLDS(error_of("fabric: {packet_bytes: 1000}"),
                 "key 'fabric.packet_bytes': found 1000; allowed: a multiple of cube.hbm.burst_bytes, 256");
  KB_CHECK_HOLDS(error_of("cube: {hbm: {burst_bytes: 8192}}"),
                 "t.yaml: key 'fabric.packet_bytes': found 4KiB (the default); allowed: a multiple of");
}

BOOST_AUTO_TEST_CASE(phys) {
  KB_CHECK_HOLDS(error_of("sip: {cube_mesh: [2, 2], io: {phys: 4}}"),
                 "key 'sip.io.phys': found 4; allowed: at most one PHY per cube of the first row, 2");
}

BOOST_AUTO_TEST_CASE(tcm_and_accumulators) {
  KB_CHECK_HOLDS(error_of("pe: {tcm: {bytes: 512KiB}}"),
                 "key 'pe.tcm.scratch_bytes': found 1MiB (the default); allowed: at most pe.tcm.bytes, 512KiB");
  KB_CHECK_HOLDS(error_of("pe: {scheduler: {tile: [256, 64, 256]}}"),
                 "key 'pe.gemm.accumulator_bytes': found 64KiB (the default); allowed: at least one f32 output tile of "
                 "pe.scheduler.tile, 256KiB");
}

BOOST_AUTO_TEST_CASE(pe_grid) {
  KB_CHECK_HOLDS(error_of("cube: {pe_grid_cols: 3}"), "found 3; allowed: a divisor of the number of PEs per cube, 8");
}

BOOST_AUTO_TEST_CASE(open_ends) {
  KB_CHECK_HOLDS(
      error_of("open: {hbm: [tray.sip0.cube0.hbm8]}"),
      "key 'open.hbm': found tray.sip0.cube0.hbm8; allowed: an HBM slice of this machine, such as tray.sip0");
  KB_CHECK_HOLDS(error_of("open: {ucie_edge: [tray.sip0.cube0.ucie_e]}"),
                 "allowed: a UCIe port that is joined to nothing");
  KB_CHECK_HOLDS(error_of("open: {ucie_edge: [tray.sip0.cube0.ucie_n]}"),
                 "allowed: a UCIe port that is joined to nothing");
  KB_CHECK_HOLDS(error_of("open: {inter_sip: [tray.sip2.io.ual_ep]}"), "allowed: the ual_ep of a SIP");
  BOOST_CHECK_NO_THROW(
      kb::parse_config("open: {host_port: on, hbm: [tray.sip1.cube15.hbm7], ucie_edge: "
                       "[tray.sip0.cube0.ucie_w], inter_sip: [tray.sip1.io.ual_ep]}",
                       "t.yaml"));
}

BOOST_AUTO_TEST_CASE(filled_in_code) {
  const auto message = [](auto change) {
    kb::SystemConfig config;
    change(config);
    return input_error([&] { kb::validate_config(config); });
  };
  BOOST_CHECK_NO_THROW(kb::validate_config(kb::SystemConfig{}));
  KB_CHECK_HOLDS(message([](auto& c) { c.pe.clock_ghz = std::numeric_limits<double>::quiet_NaN(); }),
                 "configuration: key 'pe.clock_ghz': found nan; allowed: a number from 0.001 to 1000 (GHz)");
  KB_CHECK_HOLDS(message([](auto& c) { c.pe.dma.overhead_ns = -1; }), "found -1; allowed: ");
  KB_CHECK_HOLDS(message([](auto& c) { c.ns_per_mm = std::numeric_limits<double>::infinity(); }),
                 "found inf; allowed: ");
  KB_CHECK_HOLDS(message([](auto& c) { c.pe.ipcq.slots = 0; }), "found 0; allowed: ");
  KB_CHECK_HOLDS(message([](auto& c) { c.cube.pe_routers.clear(); }), "key 'cube.pes': found []; allowed: ");
  KB_CHECK_HOLDS(message([](auto& c) { c.cube.hbm.impl = "it's: a {mess"; }), "key 'cube.hbm.impl': found ");
  KB_CHECK_HOLDS(message([](auto& c) { c.fabric.kind = static_cast<kb::FabricKind>(9); }), "key 'system.fabric.kind'");
  KB_CHECK_HOLDS(message([](auto& c) { c.cube.hbm.pseudo_channels = 12; }), "found 12; allowed: a power of two");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(overrides)

BOOST_AUTO_TEST_CASE(unknown) {
  KB_CHECK_MESSAGE(error_of_set("pe.tcm.byte", "1MiB"),
                   "--set: key 'pe.tcm.byte': found an unknown key; nearest known key: 'pe.tcm.bytes'");
}

BOOST_AUTO_TEST_CASE(group) {
  KB_CHECK_MESSAGE(error_of_set("pe.mmu", "1"),
                   "--set: key 'pe.mmu': found 1; allowed: one of the group's keys, page_bytes, tlb_overhead_ns, impl");
}

BOOST_AUTO_TEST_CASE(no_value_or_no_yaml) {
  KB_CHECK_HOLDS(error_of_set("pe.clock_ghz", ""), "--set: key 'pe.clock_ghz': found nothing; allowed: ");
  KB_CHECK_HOLDS(error_of_set("pe.scheduler.tile", "[1, 2"), "--set: key 'pe.scheduler.tile': found [1, 2; allowed: ");
}

BOOST_AUTO_TEST_CASE(combination_names_the_override) {
  KB_CHECK_HOLDS(error_of("cube: {hbm: {burst_bytes: 256}}", {{"fabric.packet_bytes", "128"}}),
                 "--set: key 'fabric.packet_bytes': found 128; allowed: a multiple of cube.hbm.burst_bytes, 256");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
