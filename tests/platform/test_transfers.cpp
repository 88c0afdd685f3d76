// Data movement on the whole machine: published numbers, shared resources, both granularities, faults.
#include <kb/kernels/context.h>
#include <kb/kernels/launch.h>
#include <kb/platform/path_times.h>
#include <kb/platform/platform.h>
#include <kb/platform/session.h>
#include <kb/platform/transfer_splitter.h>

#include <boost/test/unit_test.hpp>

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "sc_fixture.h"

using namespace kb;
using kb::test::FreshContext;

namespace {

using Settings = std::map<std::string, std::string>;

std::string file(const std::string& machine) { return std::string(KB_SOURCE_DIR) + "/topologies/" + machine + ".yaml"; }

RunOutcome outcome(const std::string& bench, const std::string& machine, const Settings& params,
                   const std::vector<Override>& keys = {}, std::uint64_t seed = 1) {
  BenchRegistry registry;
  add_standard_benches(registry);
  RunSpec spec;
  spec.topology = file(machine);
  spec.overrides = keys;
  spec.bench = bench;
  spec.params = params;
  spec.seed = seed;
  return run_session(spec, registry);
}

BenchResult run(const std::string& bench, const std::string& machine, const Settings& params,
                const std::vector<Override>& keys = {}, std::uint64_t seed = 1) {
  const RunOutcome o = outcome(bench, machine, params, keys, seed);
  BOOST_REQUIRE_MESSAGE(o.code == ExitCode::done, o.message);
  return o.result;
}

double number(const BenchResult& result, const std::string& key) {
  for (const auto& e : result.extra)
    if (e.first == key) return std::get<double>(e.second);
  BOOST_FAIL("no key " << key);
  return 0;
}
std::string word(const BenchResult& result, const std::string& key) {
  for (const auto& e : result.extra)
    if (e.first == key) return std::get<std::string>(e.second);
  BOOST_FAIL("no key " << key);
  return "";
}

BenchResult contention(const std::string& machine, const std::string& pattern, int issuers, std::int64_t bytes,
                       int count = 1, const std::vector<Override>& keys = {}, std::uint64_t seed = 1) {
  return run("dma-contention", machine,
             {{"pattern", pattern}, {"issuers", std::to_string(issuers)}, {"bytes", std::to_string(bytes)}, {"count", std::to_string(count)}},
             keys, seed);
}

bool within(double value, double published, double share) { return std::abs(value - published) <= share * published; }

/// The message of the Error that `f` throws; its exit code must be `code`.
template <typename F>
std::string error_of(ExitCode code, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    BOOST_TEST((e.code() == code), "exit code " << static_cast<int>(e.code()) << " with: " << e.what());
    return e.what();
  }
  BOOST_ERROR("no error");
  return "";
}
bool holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("not '" << part << "' in: " << text);
  return false;
}

const Override kFlit{"fabric.granularity", "flit"};
constexpr std::int64_t kKiB = 1024, kMiB = 1024 * 1024;

/// Notes when each PE entered the kernel.
class EmptyKernel : public KernelProgram {
 public:
  explicit EmptyKernel(const MachineInfo& machine) : machine_(machine), entered(machine.total_pes(), -1) {}
  const char* name() const override { return "empty"; }
  void run(PePort& pe) const override { entered[machine_.rank_of(pe.id())] = now_ps(); }

 private:
  const MachineInfo& machine_;

 public:
  mutable std::vector<Ps> entered;
};

/// Launches an empty kernel on the first `pes` PEs: all must start at the same picosecond.
void check_start_spread(std::uint32_t pes) {
  Platform platform("tray", load_config(file("default")));
  const EmptyKernel kernel(platform.host().machine());
  LaunchOptions options;
  for (std::uint32_t rank = 0; rank < pes; ++rank) options.pes.push_back(rank);
  for (int launch = 0; launch < 2; ++launch) {
    const LaunchResult result = platform.host().launch(kernel, options);
    BOOST_REQUIRE(result.pes.size() == pes);
    BOOST_TEST(result.start > 0);
    for (const PeStats& pe : result.pes) BOOST_TEST(pe.start == result.start);
    for (std::uint32_t rank = 0; rank < pes; ++rank) BOOST_TEST(kernel.entered[rank] == result.start);
  }
  platform.check_conservation();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transfers)

// ---- published numbers -------------------------------------------------------------------------------------------

// 2 DMA overhead, 8 first burst, 64 stream, 1 last flit on the DMA's link; published: 77 ns, 8 %.
BOOST_AUTO_TEST_CASE(n1_own_slice) {
  for (const char* machine : {"one_pe", "default"}) {
    const double ns = contention(machine, "own", 1, 16 * kKiB).latency_ns;
    BOOST_TEST(ns == 75.0);
    BOOST_TEST(within(ns, 77, 0.08));
  }
}

BOOST_AUTO_TEST_CASE(n2_hotspot_of_one_two_three) {
  const double published[] = {82, 158, 230};
  for (int issuers = 1; issuers <= 3; ++issuers) {
    const double ns = contention("default", "hotspot", issuers, 16 * kKiB).latency_ns;
    BOOST_TEST_MESSAGE(issuers << " issuers: " << ns << " ns, published " << published[issuers - 1]);
    BOOST_TEST(within(ns, published[issuers - 1], 0.15), issuers << " issuers: " << ns << " ns");
  }
}

BOOST_AUTO_TEST_CASE(n3_host_write) {
  const double ns = run("h2d", "default", {}).latency_ns;
  BOOST_TEST_MESSAGE("64 KiB: " << ns << " ns");
  BOOST_TEST(within(ns, 545, 0.06), ns << " ns");
}

BOOST_FIXTURE_TEST_CASE(n4_start_spread_of_128, FreshContext) { check_start_spread(128); }
BOOST_FIXTURE_TEST_CASE(n4_start_spread_of_256, FreshContext) { check_start_spread(256); }

// ---- shared resources --------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(hotspot_keeps_the_link_of_the_slice_busy) {
  for (const int issuers : {8, 128}) {
    const BenchResult r = contention("default", "hotspot", issuers, 16 * kKiB);
    const double gbs = 16.0 * kKiB * issuers / r.latency_ns;
    BOOST_TEST_MESSAGE(issuers << " issuers: " << gbs << " GB/s");
    BOOST_TEST(gbs >= 0.94 * 256);
    BOOST_TEST(gbs <= 256);
    BOOST_TEST(number(r, "effective_gbs") == gbs, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(holds(word(r, "hot_link"), "tray.sip0.cube0.hbm0->sip0.cube0.r0c0"));
    BOOST_TEST(number(r, "hot_link_utilization") == gbs / 256, boost::test_tools::tolerance(1e-9));
    // The last one is served last; nobody is done before a message can have travelled alone.
    BOOST_TEST(number(r, "issuer_max_ns") == r.latency_ns);
    BOOST_TEST(number(r, "issuer_min_ns") >= 75);
  }
}

BOOST_AUTO_TEST_CASE(own_slices_do_not_disturb_each_other) {
  const BenchResult one = contention("default", "own", 1, 16 * kKiB, 3);
  for (const int issuers : {8, 128, 256}) {
    const BenchResult many = contention("default", "own", issuers, 16 * kKiB, 3);
    BOOST_TEST(many.latency_ns == one.latency_ns);
    BOOST_TEST(number(many, "issuer_min_ns") == one.latency_ns);
  }
}

BOOST_AUTO_TEST_CASE(cube_to_cube_fills_the_ucie_port) {
  const BenchResult r = contention("default", "cube_to_cube", 8, kMiB);
  BOOST_TEST_MESSAGE(number(r, "effective_gbs") << " GB/s");
  BOOST_TEST(number(r, "effective_gbs") >= 0.95 * 512);
  BOOST_TEST(number(r, "effective_gbs") <= 512);
}

// One after the other: n messages take n times as long as one, since `outstanding` is 1.
BOOST_AUTO_TEST_CASE(messages_of_an_issuer_follow_each_other) {
  const double one = contention("one_pe", "own", 1, 4 * kKiB).latency_ns;
  BOOST_TEST(contention("one_pe", "own", 1, 4 * kKiB, 10).latency_ns == 10 * one);
}

BOOST_AUTO_TEST_CASE(random_is_a_matching_and_follows_the_seed) {
  const BenchResult a = contention("default", "random", 64, 16 * kKiB, 1, {}, 5);
  BOOST_TEST(contention("default", "random", 64, 16 * kKiB, 1, {}, 5).latency_ns == a.latency_ns);
  BOOST_TEST(contention("default", "random", 64, 16 * kKiB, 1, {}, 6).latency_ns != a.latency_ns);
  const LaunchResult& l = a.launches.front().result;
  BOOST_TEST(l.pes.size() == 64u);
  int slices = 0;
  for (const LinkStats& link : l.links)
    if (link.name.find(".hbm") != std::string::npos && link.name.find("->") != std::string::npos &&
        link.name.find("->") > link.name.find(".hbm") && link.bytes > 0) {
      ++slices;
      BOOST_TEST(link.bytes == static_cast<std::uint64_t>(16 * kKiB));  // read once each
    }
  BOOST_TEST(slices == 64);
}

BOOST_AUTO_TEST_CASE(transfers_reach_their_bound_and_not_less) {
  const BenchResult r = contention("default", "hotspot", 8, 64 * kKiB);
  const Bounds& b = r.launches.front().result.bounds;
  BOOST_TEST(b.bound_by == "memory");
  BOOST_TEST(b.memory_ns == 8 * 64.0 * kKiB / 256);
  BOOST_TEST(b.ratio >= 1.0);
  BOOST_TEST(b.ratio < 1.05);
}

// ---- granularity and paths ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(packets_and_flits_agree_on_lone_messages) {
  const auto same = [](const std::string& bench, const Settings& params, std::uint64_t seed) {
    const double packet = run(bench, "default", params, {}, seed).latency_ns;
    const double flit = run(bench, "default", params, {kFlit}, seed).latency_ns;
    BOOST_TEST(packet == flit, bench << ", seed " << seed << ": " << packet << " and " << flit << " ns");
  };
  for (const char* bytes : {"1", "300", "70001"}) {
    same("h2d", {{"bytes", bytes}}, 1);
    same("d2h", {{"bytes", bytes}}, 1);
    same("dma-contention", {{"pattern", "own"}, {"bytes", bytes}}, 1);
    same("dma-contention", {{"pattern", "cube_to_cube"}, {"bytes", bytes}}, 1);
    same("dma-contention", {{"pattern", "random"}, {"bytes", bytes}}, 11);
    same("dma-contention", {{"pattern", "random"}, {"bytes", bytes}}, 12);
  }
}

// The breakdown that probe prints adds up to what is simulated, for any pair, size and direction.
BOOST_FIXTURE_TEST_CASE(path_times_explain_every_lone_transfer, FreshContext) {
  const SystemConfig config = load_config(file("default"), {{"cube.noc.router_overhead_ns", "0.7"},
                                                             {"cube.hbm.access_ns", "3.25"},
                                                             {"cube.ucie.bw_gbs", "96"},
                                                             {"pe.mmu.tlb_overhead_ns", "1.5"}});
  TransferTimes split;
  TransferSplitter splitter([&](const TransferTimes& t) { split = t; });
  PlatformOptions options;
  options.messages = &splitter;
  Platform platform("tray", config, options);
  Host& host = platform.host();
  const Topology topology(config);
  RouteTable routes(topology);
  const MachineInfo& m = host.machine();
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto from = static_cast<std::uint32_t>(random() % m.total_pes()), owner = static_cast<std::uint32_t>(random() % m.total_pes());
    const bool write = random() % 2 == 0;
    const std::uint64_t bytes = 1 + random() % (random() % 2 == 0 ? 2000 : 100'000);
    const PeId id = m.pe_of(owner);
    const Tensor t = host.allocate("t", DType::i8, Space::hbm, {{owner, Shape{static_cast<std::int64_t>(bytes)}}});
    const LaunchResult r = host.run_transfers({{from, write, t.shards[0].addr, bytes}});
    host.free(t);
    const std::uint32_t slice = topology.hbm(id.sip, id.cube, id.pe);
    const Route* route = routes.route(topology.pe(from), slice, routes.lane(topology.pe(from), slice));
    const PathTimes path = path_times(topology, *route, write, bytes, 3'500);
    BOOST_TEST(r.latency() == path.total(), (write ? "write of " : "read of ") << bytes << " bytes by " << from << " at " << owner << ": "
                                                                               << r.latency() << " and " << path.total() << " ps");
    BOOST_TEST(static_cast<double>(bytes) / ns_from_ps(r.latency()) <= path.bottleneck_gbs);

    // What was simulated has the same parts, to the picosecond: but for the issue, and for the controller's own link,
    // whose transmission a read's memory part includes.
    std::vector<Ps> expected;
    for (std::size_t p = 1; p < path.parts.size(); ++p) expected.push_back(path.parts[p].time);
    std::vector<Ps> parts(split.parts.begin() + (write ? 1 : 0), split.parts.end());
    if (write) BOOST_TEST(split.parts.front() == 0);
    for (auto* list : {&expected, &parts}) {
      if (write) continue;
      const auto memory = static_cast<std::ptrdiff_t>(routes.route(topology.pe(from), slice, routes.lane(topology.pe(from), slice))->hops.size());
      (*list)[static_cast<std::size_t>(memory)] += (*list)[static_cast<std::size_t>(memory) + 1];
      list->erase(list->begin() + memory + 1);
    }
    BOOST_TEST(parts == expected, boost::test_tools::per_element());
    BOOST_TEST(split.parts.size() == transfer_parts(*split.forth, split.write).size());
    BOOST_TEST(std::accumulate(split.parts.begin(), split.parts.end(), Ps{0}) == split.end - split.begin);
    BOOST_TEST(split.end - split.begin == r.latency() - 3'500);
    BOOST_TEST(split.alone == split.end - split.begin);
  }
  platform.check_conservation();
}

// Where transfers wait for one another, no part is shorter than its overhead and propagation, one waits at the memory or
// a link, and the parts still add up, in both granularities.
BOOST_AUTO_TEST_CASE(contended_transfers_are_split_to_the_picosecond) {
  for (const char* granularity : {"packet", "flit"}) {
    FreshContext context;
    const SystemConfig config = load_config(file("one_cube"), {{"fabric.granularity", granularity}});
    std::vector<TransferTimes> splits;
    TransferSplitter splitter([&](const TransferTimes& t) { splits.push_back(t); });
    PlatformOptions options;
    options.messages = &splitter;
    Platform platform("tray", config, options);
    Host& host = platform.host();
    const Tensor t = host.allocate("t", DType::i8, Space::hbm, {{0, Shape{8 * 20'000}}});
    std::vector<Host::DirectTransfer> transfers;
    for (std::uint32_t pe = 0; pe < 8; ++pe) transfers.push_back({pe, pe % 2 == 1, t.shards[0].addr + pe * 20'000, 20'000});
    const LaunchResult r = host.run_transfers(transfers);
    BOOST_REQUIRE(splits.size() == 8);
    Ps longest = 0;
    int delayed = 0;
    for (const TransferTimes& s : splits) {
      BOOST_TEST(s.bytes == 20'000);
      BOOST_TEST(std::accumulate(s.parts.begin(), s.parts.end(), Ps{0}) == s.end - s.begin);
      const std::vector<TransferPart> parts = transfer_parts(*s.forth, s.write);
      BOOST_REQUIRE(parts.size() == s.parts.size());
      for (std::size_t i = 0; i < parts.size(); ++i) BOOST_TEST(s.parts[i] >= parts[i].fixed);
      BOOST_TEST(s.end - s.begin >= s.alone);
      longest = std::max(longest, s.end - s.begin);
      delayed += s.end - s.begin > s.alone;
    }
    BOOST_TEST(delayed >= 7);
    BOOST_TEST(longest == r.latency() - ps_from_ns(config.pe.dma.overhead_ns + config.pe.mmu.tlb_overhead_ns));
    host.free(t);
    platform.check_conservation();
  }
}

BOOST_FIXTURE_TEST_CASE(host_copies_follow_their_path_too, FreshContext) {
  const SystemConfig config = load_config(file("default"));
  Platform platform("tray", config);
  Host& host = platform.host();
  const Topology topology(config);
  RouteTable routes(topology);
  for (const std::uint32_t owner : {0u, 9u, 127u, 128u, 255u})
    for (const bool to_device : {true, false}) {
      const PeId id = host.machine().pe_of(owner);
      const Tensor t = host.allocate("t", DType::i8, Space::hbm, {{owner, Shape{50'000}}});
      const Ps latency = host.host_copy(to_device, t.shards[0].addr, 50'000);
      host.free(t);
      const std::uint32_t slice = topology.hbm(id.sip, id.cube, id.pe), port = topology.pcie_ep(id.sip);
      BOOST_TEST(latency == path_times(topology, *routes.route(port, slice, routes.lane(port, slice)), to_device, 50'000, 0).total());
    }
}

// ---- faults ------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(values_outside_the_topology_are_refused) {
  const auto refused = [](const std::string& machine, const Settings& params) {
    return error_of(ExitCode::bad_input, [&] { outcome("dma-contention", machine, params); });
  };
  BOOST_TEST(holds(refused("default", {{"issuers", "257"}}), "parameter issuers: found 257; allowed: 1 .. 256 with pattern own"));
  BOOST_TEST(holds(refused("one_cube", {{"pattern", "hotspot"}, {"issuers", "9"}}), "allowed: 1 .. 8 with pattern hotspot"));
  BOOST_TEST(holds(refused("default", {{"pattern", "cube_to_cube"}, {"issuers", "9"}}), "allowed: 1 .. 8 with pattern cube_to_cube"));
  BOOST_TEST(holds(refused("one_cube", {{"pattern", "cube_to_cube"}}), "parameter pattern: found cube_to_cube; allowed on this topology"));
  BOOST_TEST(holds(refused("one_pe", {{"issuers", "0"}}), "issuers"));
  BOOST_TEST(holds(refused("one_pe", {{"pattern", "all"}}), "pattern"));
  BOOST_TEST(holds(refused("one_pe", {{"bytes", "10737418240"}}),
                   "tensor source [10737418240] i8: found 10737418240 bytes asked of tray.sip0.cube0.hbm0"));
  BOOST_TEST(holds(error_of(ExitCode::bad_input, [] { outcome("h2d", "one_pe", {{"bytes", "10737418240"}}); }), "tensor buffer"));
}

// An address that decodes to nothing, met by a DMA: the run ends with initiator, address and the nearest region.
BOOST_FIXTURE_TEST_CASE(address_of_nothing, FreshContext) {
  Platform platform("tray", load_config(file("one_cube")));
  Host& host = platform.host();
  const Tensor t = host.allocate("k", DType::i8, Space::hbm, {{2, Shape{4096}}});
  const std::uint64_t bad = t.shards[0].addr + (std::uint64_t{1} << 40);
  const std::string text = error_of(ExitCode::model_error, [&] { host.run_transfers({{3, false, bad, 64}}); });
  BOOST_TEST(holds(text, "tray.sip0.cube0.pe3.dma"));
  BOOST_TEST(holds(text, std::to_string(bad)));
  BOOST_TEST(holds(text, "tensor k"));
}

// A range that begins in memory and runs over its end.
BOOST_FIXTURE_TEST_CASE(range_over_the_end_of_its_region, FreshContext) {
  const SystemConfig config = load_config(file("one_cube"));
  Platform platform("tray", config);
  Host& host = platform.host();
  const Tensor t = host.allocate("k", DType::i8, Space::hbm, {{2, Shape{4096}}});
  const std::string text = error_of(ExitCode::model_error, [&] {
    host.run_transfers({{0, true, t.shards[0].addr, 2 * config.pe.mmu.page_bytes}});
  });
  BOOST_TEST(holds(text, "tray.sip0.cube0.pe0.dma"));
  BOOST_TEST(holds(text, "tensor k"));
}

BOOST_FIXTURE_TEST_CASE(host_copy_of_what_is_not_mapped, FreshContext) {
  Platform platform("tray", load_config(file("one_cube")));
  Host& host = platform.host();
  const Tensor t = host.allocate("k", DType::i8, Space::hbm, {{2, Shape{4096}}});
  BOOST_TEST(holds(error_of(ExitCode::bad_input, [&] { host.host_copy(true, std::uint64_t{1} << 45, 64); }), "host copy: found 64 bytes"));
  BOOST_TEST(holds(error_of(ExitCode::bad_input, [&] { host.host_copy(false, t.shards[0].addr, 1u << 30); }), "tensor k"));
  BOOST_TEST(holds(error_of(ExitCode::bad_input, [&] { host.run_transfers({{8, false, t.shards[0].addr, 64}}); }), "found PE rank 8; allowed: 0 to 7"));
}

// The same address from a kernel.
BOOST_FIXTURE_TEST_CASE(kernel_that_loads_from_nowhere, FreshContext) {
  Platform platform("tray", load_config(file("one_pe")));
  const auto body = [](tl::Context& tl) { tl.load(std::uint64_t{1} << 45, Shape{64, 64}, DType::f16); };
  const std::string text = error_of(ExitCode::model_error, [&] { platform.host().launch(tl::bind_kernel("stray", body)); });
  BOOST_TEST(holds(text, "tray.sip0.cube0.pe0"));
  BOOST_TEST(holds(text, std::to_string(std::uint64_t{1} << 45)));
}

// Machines that cannot be: found before elaboration, naming the key.
BOOST_AUTO_TEST_CASE(impossible_machines) {
  const auto refused = [](const std::vector<Override>& keys) {
    return error_of(ExitCode::bad_input, [&] { outcome("dma-contention", "default", {}, keys); });
  };
  const std::string seven = "[r0c0, r0c1, r1c4, r1c5, r4c0, r4c1, r5c4]";
  BOOST_TEST(holds(refused({{"cube.noc.link_bw_gbs", "0"}}), "cube.noc.link_bw_gbs"));
  BOOST_TEST(holds(refused({{"cube.hbm.pseudo_channels", "12"}}), "cube.hbm.pseudo_channels"));
  BOOST_TEST(holds(refused({{"cube.pes", seven}}), "cube.pe"));
  BOOST_TEST(holds(refused({{"cube.pes", "[r0c0, r0c1, r1c4, r1c5, r4c0, r4c1, r5c4, r5c4]"}}), "cube.pes"));
  BOOST_TEST(holds(refused({{"cube.pes", "[r0c0, r0c1, r1c4, r1c5, r4c0, r4c1, r5c4, r2c2]"}}), "r2c2"));
  // Routes cannot be formed: a hole that is no rectangle, or one at the rim.
  BOOST_TEST(holds(refused({{"cube.absent_routers", "[r2c2, r3c3]"}}), "cube.absent_routers"));
  BOOST_TEST(holds(refused({{"cube.absent_routers", "[r0c3]"}}), "cube.absent_routers"));
}

BOOST_AUTO_TEST_SUITE_END()
