// probe and route: what the paths of a machine cost, measured on lone transfers and read off the topology.
#include "commands.h"

#include <kb/platform/kernel_scope.h>
#include <kb/platform/path_times.h>
#include <kb/platform/platform.h>
#include <kb/tlm_if/text.h>

#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

namespace kb::cli {

namespace {

const std::vector<std::uint64_t> kSizes{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};

struct ProbeCase {
  std::string name;
  std::string title;
  bool host = false;        // a host copy, else a read by PE 0's DMA
  bool to_device = false;   // of host copies
  std::uint32_t owner = 0;  // rank of the PE whose slice is at the other end
};

std::string known_case_names() {
  return "h2d, d2h, pe_local, pe_same_half, pe_cross_half, pe_next_cube, pe_farthest_cube, pe_other_sip";
}

/// The standard paths that the machine has. PE 0 of cube 0 of SIP 0 reads; halves are the upper and lower rows of a
/// cube's logical grid of PEs; the farthest cube is the opposite corner of the mesh.
std::vector<ProbeCase> cases_of(const SystemConfig& config, const MachineInfo& m) {
  std::vector<ProbeCase> all;
  if (!config.open.host_port) {
    all.push_back({"h2d", "host write", true, true, 0});
    all.push_back({"d2h", "host read", true, false, 0});
  }
  all.push_back({"pe_local", "PE DMA read, own slice", false, false, 0});
  const std::uint32_t rows = m.pes_per_cube / m.pe_cols;
  if (m.pe_cols > 1 && m.pes_per_cube > 1)
    all.push_back({"pe_same_half", "PE DMA read, same half of the cube", false, false, 1});
  if (rows > 1)
    all.push_back({"pe_cross_half", "PE DMA read, other half of the cube", false, false, rows / 2 * m.pe_cols});
  const std::uint32_t cubes = m.cubes_per_sip();
  if (cubes > 1) {
    all.push_back({"pe_next_cube", "PE DMA read, next cube", false, false, m.rank_of({0, 1, 0})});
    // With two cubes the next one is the farthest.
    if (cubes > 2)
      all.push_back({"pe_farthest_cube", "PE DMA read, farthest cube", false, false, m.rank_of({0, cubes - 1, 0})});
  }
  if (m.sips > 1) all.push_back({"pe_other_sip", "PE DMA read, other SIP", false, false, m.rank_of({1, 0, 0})});
  return all;
}

struct ProbePoint {
  std::uint64_t bytes = 0;
  Ps latency = 0;
  PathTimes path;
  double effective_gbs() const { return static_cast<double>(bytes) / ns_from_ps(latency); }
  double utilization() const { return effective_gbs() / path.bottleneck_gbs; }
};

struct ProbeResult {
  ProbeCase what;
  std::string from, to;
  std::vector<ProbePoint> points;
};

class Probe {
 public:
  explicit Probe(const SystemConfig& config)
      : config_(config), topology_(config), routes_(topology_), platform_("tray", config) {}

  std::vector<ProbeCase> cases() {
    auto all = cases_of(config_, platform_.host().machine());
    // Where foreign memory or an open port lies in between there is nothing to measure here.
    all.erase(std::remove_if(all.begin(), all.end(),
                             [this](const ProbeCase& c) { return is_open(slice_of(c)) || route_of(c) == nullptr; }),
              all.end());
    return all;
  }

  ProbeResult measure(const ProbeCase& c) {
    Host& host = platform_.host();
    const Route& route = *route_of(c);
    ProbeResult result;
    result.what = c;
    result.from = topology_.node(route.from).name;
    result.to = topology_.node(route.to).name;
    const Tensor buffer =
        host.allocate("probe", DType::i8, Space::hbm, {{c.owner, Shape{static_cast<std::int64_t>(kSizes.back())}}});
    const std::uint64_t address = buffer.shards.front().addr;
    const auto transfer = [&](std::uint64_t bytes) {
      if (c.host) return host.host_copy(c.to_device, address, bytes);
      return host.run_transfers({{0, false, address, bytes}}).latency();
    };
    // Not timed: channels that the case before left in the other direction turn round.
    if (config_.cube.hbm.switch_penalty_ns > 0) transfer(kSizes.back());
    const PeParams& pe = config_.pe;
    const Ps issue = c.host ? 0 : ps_from_ns(pe.dma.overhead_ns) + ps_from_ns(pe.mmu.tlb_overhead_ns);
    for (const std::uint64_t bytes : kSizes) {
      ProbePoint point;
      point.bytes = bytes;
      point.latency = transfer(bytes);
      point.path = path_times(topology_, route, c.to_device, bytes, issue);
      // What is measured and not explained by the path alone; nothing on a machine of our own components.
      if (const Ps rest = point.latency - point.path.total(); rest != 0)
        point.path.parts.push_back({PathTime::Part::data, "unexplained", rest});
      result.points.push_back(std::move(point));
    }
    host.free(buffer);
    return result;
  }

 private:
  std::uint32_t slice_of(const ProbeCase& c) {
    const PeId id = platform_.host().machine().pe_of(c.owner);
    return topology_.hbm(id.sip, id.cube, id.pe);
  }
  const Route* route_of(const ProbeCase& c) {
    const std::uint32_t to = slice_of(c);
    const std::uint32_t from = c.host ? topology_.pcie_ep(topology_.node(to).sip) : topology_.pe(0);
    return routes_.route(from, to, routes_.lane(from, to));
  }
  bool is_open(std::uint32_t slice) const {
    const auto& open = config_.open.hbm;
    return std::find(open.begin(), open.end(), topology_.node(slice).name) != open.end();
  }

  const SystemConfig& config_;
  KernelScope kernel_;
  Topology topology_;
  RouteTable routes_;
  Platform platform_;
};

std::string size_text(std::uint64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

void print_text(const ProbeResult& r) {
  fmt::print("{}: {}, {} -> {}\n", r.what.name, r.what.title, r.from, r.to);
  fmt::print("  {:>8}  {:>12}  {:>13}  {:>14}  {:>5}  bottleneck\n", "size", "latency_ns", "effective_gbs",
             "bottleneck_gbs", "use");
  for (const ProbePoint& p : r.points)
    fmt::print("  {:>8}  {:>12.3f}  {:>13.2f}  {:>14g}  {:>4.1f}%  {}\n", size_text(p.bytes), ns_from_ps(p.latency),
               p.effective_gbs(), p.path.bottleneck_gbs, 100 * p.utilization(), p.path.bottleneck);
  std::size_t width = 9;
  for (const PathTime& t : r.points.front().path.parts) width = std::max(width, t.component.size());
  fmt::print("\n  {:<8}  {:<{}}", "part", "component", width);
  for (const ProbePoint& p : r.points) fmt::print("  {:>12}", size_text(p.bytes));
  fmt::print("   ns\n");
  for (std::size_t i = 0; i < r.points.front().path.parts.size(); ++i) {
    const PathTime& first = r.points.front().path.parts[i];
    fmt::print("  {:<8}  {:<{}}", name_of(first.part), first.component, width);
    for (const ProbePoint& p : r.points)
      fmt::print("  {:>12.3f}", i < p.path.parts.size() ? ns_from_ps(p.path.parts[i].time) : 0.0);
    fmt::print("\n");
  }
  fmt::print("  {:<8}  {:<{}}", "sum", "", width);
  for (const ProbePoint& p : r.points) fmt::print("  {:>12.3f}", ns_from_ps(p.path.total()));
  fmt::print("\n\n");
}

nlohmann::ordered_json json_of(const ProbeResult& r) {
  nlohmann::ordered_json j{{"case", r.what.name}, {"title", r.what.title}, {"from", r.from}, {"to", r.to}};
  j["points"] = nlohmann::ordered_json::array();
  for (const ProbePoint& p : r.points) {
    nlohmann::ordered_json point{{"bytes", p.bytes},
                                 {"latency_ns", ns_from_ps(p.latency)},
                                 {"effective_gbs", p.effective_gbs()},
                                 {"bottleneck_gbs", p.path.bottleneck_gbs},
                                 {"bottleneck", p.path.bottleneck},
                                 {"utilization", p.utilization()}};
    point["breakdown"] = nlohmann::ordered_json::array();
    for (const PathTime& t : p.path.parts)
      point["breakdown"].push_back({{"part", name_of(t.part)}, {"component", t.component}, {"ns", ns_from_ps(t.time)}});
    j["points"].push_back(std::move(point));
  }
  return j;
}

/// Topology settings of a command that takes no bench.
SystemConfig load(const std::string& topology, const std::vector<std::string>& settings) {
  std::vector<Override> overrides;
  std::map<std::string, std::string> params;
  split_settings(settings, overrides, params);
  if (!params.empty())
    throw InputError(
        fmt::format("--set bench.{}: found a bench parameter; allowed: topology keys", params.begin()->first));
  return load_config(topology, overrides);
}

}  // namespace

void add_probe(CLI::App& app, CliContext&) {
  struct Options {
    std::string topology, only;
    std::vector<std::string> settings;
    bool json = false;
  };
  auto* sub = app.add_subcommand("probe", "Latency and bandwidth of standard paths");
  auto o = std::make_shared<Options>();
  sub->add_option("--topology", o->topology, "topology file (YAML)")->required();
  sub->add_option("--case", o->only, "only this case: " + known_case_names());
  sub->add_option("--set", o->settings, "topology key=value, may be repeated");
  sub->add_flag("--json", o->json, "print JSON instead of tables");
  sub->footer(
      "Lone transfers of 4 KiB to 1 MiB. Latency as in `describe metrics`; use = effective / bottleneck bandwidth.\n"
      "The breakdown follows the last byte: a component's time ends where its last byte reaches the next one, so the\n"
      "time that a message needs to stream is where it is slowest first. Its parts add up to the latency.");
  sub->callback([o] {
    const SystemConfig config = load(o->topology, o->settings);
    Probe probe(config);
    auto cases = probe.cases();
    if (!o->only.empty()) {
      std::vector<std::string> names;
      for (const auto& c : cases) names.push_back(c.name);
      if (std::find(names.begin(), names.end(), o->only) == names.end())
        throw InputError(fmt::format("--case: found '{}'; {}allowed on this topology: {}", o->only,
                                     did_you_mean(o->only, names), fmt::join(names, ", ")));
      cases.erase(std::remove_if(cases.begin(), cases.end(), [&o](const ProbeCase& c) { return c.name != o->only; }),
                  cases.end());
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& c : cases) {
      const ProbeResult result = probe.measure(c);
      if (o->json)
        all.push_back(json_of(result));
      else
        print_text(result);
    }
    if (o->json)
      fmt::print("{}\n", nlohmann::ordered_json{{"topology", o->topology}, {"cases", std::move(all)}}.dump(2));
  });
}

void add_route(CLI::App& app, CliContext&) {
  struct Options {
    std::string topology, from, to;
    std::vector<std::string> settings;
  };
  auto* sub = app.add_subcommand("route", "The path between two components, hop by hop");
  auto o = std::make_shared<Options>();
  sub->add_option("--topology", o->topology, "topology file (YAML)")->required();
  sub->add_option("A", o->from, "where a message starts: sip0.cube0.pe3, sip0.io.pcie_ep, ...")->required();
  sub->add_option("B", o->to, "where it ends: sip1.cube4.hbm2, sip0.cube0.sram, ...")->required();
  sub->add_option("--set", o->settings, "topology key=value, may be repeated");
  sub->footer("Example: kernbench route --topology topologies/default.yaml sip0.cube0.pe0 sip0.cube5.hbm3");
  sub->callback([o] {
    const Topology topology(load(o->topology, o->settings));
    RouteTable routes(topology);
    const std::uint32_t from = topology.find(o->from), to = topology.find(o->to);
    const std::uint32_t lane = routes.lane(from, to);
    const Route* route = routes.route(from, to, lane);
    if (route == nullptr)
      throw InputError(
          fmt::format("route: found no path from {} to {}; allowed: components that links of the tray join",
                      topology.node(from).name, topology.node(to).name));
    const auto slowest = std::min_element(route->hops.begin(), route->hops.end(),
                                          [](const Hop& a, const Hop& b) { return a.bw_gbs < b.bw_gbs; });
    fmt::print("{} -> {}, UCIe lane {}; the response takes the same links back\n", topology.node(from).name,
               topology.node(to).name, lane);
    fmt::print("{}", routes.describe(*route));
    fmt::print("{} links; without payload {:.3f} ns there, {:.3f} ns back; slowest link {:g} GB/s, {} -> {}\n",
               route->hops.size(), ns_from_ps(route->control_ps()), ns_from_ps(route->reverse->control_ps()),
               slowest->bw_gbs, topology.node(slowest->node).name, topology.node(slowest->next).name);
  });
}

}  // namespace kb::cli
