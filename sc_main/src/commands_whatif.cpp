// Which resource bounds a run: the run again with each of them twice as fast, and the chain of operations that decided
// when it ended.
#include "commands.h"
#include "critical_path.h"
#include "experiment.h"
#include "run_files.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <memory>

namespace kb::cli {

namespace {

/// A resource, and the settings that make it twice as fast.
struct Remedy {
  std::string group, what;
  std::vector<Setting> settings;
};

std::string twice(double v) {
  return fmt::format("{}", v * 2);
}
std::string half(double v) {
  return fmt::format("{}", v / 2);
}

/// The MAC array with one side doubled: the one that halves the steps of a full tile.
std::string wider(const SystemConfig& c) {
  auto shape = c.pe.gemm.mac_shape;
  const auto& tile = c.pe.scheduler.tile;
  const std::array<std::uint32_t, 3> sizes{tile[0], tile[1], tile[2]};
  std::size_t side = 1;  // along K, which costs no padding of the output
  if (2 * shape[1] > sizes[1]) side = 2 * shape[2] <= sizes[2] ? 2 : 0;
  shape[side] *= 2;
  return fmt::format("[{}, {}, {}]", shape[0], shape[1], shape[2]);
}

std::vector<Setting> together(const std::vector<std::vector<Setting>>& parts) {
  std::vector<Setting> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Remedy> remedies(const SystemConfig& c) {
  const auto& hbm = c.cube.hbm;
  const std::vector<Setting> channels{{"cube.hbm.pc_bw_gbs", twice(hbm.pc_bw_gbs)},
                                      {"cube.hbm.access_ns", half(hbm.access_ns)}};
  const std::vector<Setting> controller{{"cube.hbm.link_bw_gbs", twice(hbm.link_bw_gbs)}};
  const std::vector<Setting> dma_link{{"cube.noc.pe_dma_bw_gbs", twice(c.cube.noc.pe_dma_bw_gbs)}};
  const std::vector<Setting> mesh{{"cube.noc.link_bw_gbs", twice(c.cube.noc.link_bw_gbs)},
                                  {"cube.noc.router_overhead_ns", half(c.cube.noc.router_overhead_ns)}};
  const auto& cost = c.pe.cost_model;
  const std::vector<Setting> mac{{"pe.gemm.mac_shape", wider(c)}, {"pe.gemm.overhead_ns", half(c.pe.gemm.overhead_ns)}};
  const std::vector<Setting> tcm_read{{"pe.tcm.read_bw_gbs", twice(c.pe.tcm.read_bw_gbs)}};
  const std::vector<Setting> tcm_write{{"pe.tcm.write_bw_gbs", twice(c.pe.tcm.write_bw_gbs)}};
  const std::vector<Setting> fetch_store{{"pe.fetch_store.overhead_ns", half(c.pe.fetch_store.overhead_ns)}};
  std::vector<Remedy> list{
      {"engine", "MAC array", mac},
      // A machine in balance is bound by its MAC array and by what feeds it, and gains by neither alone.
      {"engine", "MAC array and TCM (these three)", together({mac, tcm_read, tcm_write, fetch_store})},
      {"engine",
       "vector unit",
       {{"pe.math.vector_width", std::to_string(2 * c.pe.math.vector_width)},
        {"pe.math.overhead_ns", half(c.pe.math.overhead_ns)}}},
      {"engine", "TCM read channel (fetch)", together({tcm_read, fetch_store})},
      {"engine", "TCM write channel (store)", together({tcm_write, fetch_store})},
      {"engine", "DMA overhead", {{"pe.dma.overhead_ns", half(c.pe.dma.overhead_ns)}}},
      {"engine", "scheduler overhead", {{"pe.scheduler.overhead_ns", half(c.pe.scheduler.overhead_ns)}}},
      {"dispatch",
       "dispatch cost",
       {{"pe.cost_model.fixed_per_composite_cycles", half(cost.fixed_per_composite_cycles)},
        {"pe.cost_model.fixed_per_single_op_cycles", half(cost.fixed_per_single_op_cycles)},
        {"pe.cost_model.cycles_per_byte", half(cost.cycles_per_byte)}}},
      {"links", "HBM channels", channels},
      {"links", "HBM controller links", controller},
      {"links", "PE DMA links", dma_link},
      {"links", "mesh links", mesh},
      {"links", "whole path to memory (these four)", together({channels, controller, dma_link, mesh})},
      {"capacity", "DMA transfers in flight", {{"pe.dma.outstanding", std::to_string(2 * c.pe.dma.outstanding)}}},
      {"capacity", "tile buffers", {{"pe.scheduler.tile_buffers", std::to_string(2 * c.pe.scheduler.tile_buffers)}}},
      {"capacity",
       "commands in flight",
       {{"pe.scheduler.queue_depth", std::to_string(2 * c.pe.scheduler.queue_depth)}}},
  };
  if (c.total_pes() > 1)
    list.push_back({"capacity", "queue slots", {{"pe.ipcq.slots", std::to_string(2 * c.pe.ipcq.slots)}}});
  if (c.cubes_per_sip() > 1)
    list.push_back(
        {"links",
         "UCIe connections",
         {{"cube.ucie.bw_gbs", twice(c.cube.ucie.bw_gbs)}, {"cube.ucie.overhead_ns", half(c.cube.ucie.overhead_ns)}}});
  if (c.sips > 1)
    list.push_back({"links",
                    "links between SIPs",
                    {{"system.fabric.link_bw_gbs", twice(c.fabric.link_bw_gbs)},
                     {"system.fabric.overhead_ns", half(c.fabric.overhead_ns)},
                     {"sip.io.ual_ep.bw_gbs", twice(c.sip.io.ual_ep_bw_gbs)},
                     {"sip.io.ual_ep.overhead_ns", half(c.sip.io.ual_ep_overhead_ns)}}});
  return list;
}

/// What each engine and kind of command contributed to the chain, largest first.
void print_path(const CriticalPath& path, double latency_ns) {
  if (path.too_long) fmt::print("\nno critical path: the op log has too many operations\n");
  if (path.steps.empty()) return;
  struct Sum {
    Ps time = 0;
    std::size_t steps = 0;
    void add(const PathPart& p) {
      time += p.time;
      steps += p.steps;
    }
  };
  std::map<std::string, Sum> whats, kinds, commands;
  Ps total = 0;
  for (const auto& p : parts_of(path)) {
    total += p.time;
    whats[p.what].add(p);
    if (!p.command_kind.empty()) kinds[p.command_kind].add(p);
  }
  for (const auto& s : path.steps)
    if (s.command >= 0)
      commands[fmt::format("{} command {} ({})", s.pe, s.command, s.command_kind)].add({"", "", s.length(), 1});
  const auto show = [total](const std::map<std::string, Sum>& sums, std::size_t limit) {
    std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
    for (std::size_t i = 0; i < std::min(limit, order.size()); ++i)
      fmt::print("  {:<44}{:>16} ns{:>8.1f} %{:>8} steps\n", order[i].first, grouped(ns_from_ps(order[i].second.time)),
                 100.0 * static_cast<double>(order[i].second.time) / static_cast<double>(total), order[i].second.steps);
    if (order.size() > limit) fmt::print("  and {} more\n", order.size() - limit);
  };
  fmt::print("\ncritical path: {} ns in {} steps (latency {} ns)\n", grouped(ns_from_ps(total)), path.steps.size(),
             grouped(latency_ns));
  show(whats, whats.size());
  fmt::print("by kind of command\n");
  show(kinds, kinds.size());
  fmt::print("by command\n");
  show(commands, 5);
}

struct WhatifOptions {
  std::string topology;
  Trial base;
  std::vector<std::string> settings;
  std::size_t jobs = 0;
};

void whatif(WhatifOptions& o, CliContext& ctx) {
  std::vector<Override> overrides;
  std::map<std::string, std::string> params;
  split_settings(o.settings, overrides, params);
  ctx.benches.get(o.base.bench);  // names the nearest one
  const SystemConfig config = load_config(o.topology, overrides);
  for (const auto& [name, value] : params) o.base.settings.emplace_back("bench." + name, value);

  Experiment experiment(program_path(ctx.program), config, o.jobs == 0 ? available_processors() : o.jobs);
  Trial base = o.base;
  base.log = true;
  const std::size_t first = experiment.add(base);
  const auto list = remedies(config);
  std::vector<std::size_t> runs;
  for (const auto& r : list) {
    Trial t = o.base;
    for (const auto& [key, value] : r.settings) t = t.with(key, value);
    runs.push_back(experiment.add(t));
  }
  experiment.run("whatif");
  const TrialResult& now = experiment[first];
  if (!now.done()) throw Error(static_cast<ExitCode>(now.code), now.error);
  const double latency = now.latency();
  // Benches that start the engines or the host port directly have no bounds.
  const auto bound = at_path(now.summary, "bounds.bound_by").get<std::string>();
  fmt::print("{}: {} ns{}\n\n", o.base.text(), grouped(latency),
             bound.empty() ? "" : fmt::format(", bound by {} ({:.3f} x the bound)", bound, now.number("bounds.ratio")));

  std::vector<std::size_t> order(list.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto gain = [&](std::size_t i) {
    return experiment[runs[i]].done() ? latency - experiment[runs[i]].latency() : 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return gain(a) > gain(b); });
  fmt::print("{:<9} {:<36}{:>18}{:>18}{:>9}   {}\n", "", "twice as fast, or twice as many", "latency ns", "saved ns",
             "", bound.empty() ? "" : "then bound by");
  for (const auto i : order) {
    const TrialResult& r = experiment[runs[i]];
    if (!r.done()) {
      fmt::print("{:<9} {:<36}  {}\n", list[i].group, list[i].what, r.error);
      continue;
    }
    const auto by = at_path(r.summary, "bounds.bound_by");
    fmt::print("{:<9} {:<36}{:>18}{:>18}{:>7.1f} %   {}\n", list[i].group, list[i].what, grouped(r.latency()),
               grouped(gain(i)), 100 * gain(i) / latency, by.is_string() ? by.get<std::string>() : "");
  }
  const std::size_t best = order.front();
  if (gain(best) > 0.005 * latency)
    fmt::print("\n{} bounds this run most: twice as much of it saves {} ns ({:.1f} %).\n", list[best].what,
               grouped(gain(best)), 100 * gain(best) / latency);
  else
    fmt::print("\nNo single resource bounds this run: doubling any one of them saves less than 0.5 %.\n");

  if (file_exists(now.dir + "/op_log.jsonl")) print_path(critical_path(now.dir + "/op_log.jsonl"), latency);
}

}  // namespace

void add_whatif(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("whatif", "Run a bench again with each resource doubled: which one bounds it");
  auto o = std::make_shared<WhatifOptions>();
  sub->add_option("--topology", o->topology, "topology file (YAML)")->required();
  sub->add_option("--bench", o->base.bench, "bench (kernbench list)")->required();
  sub->add_option("--set", o->settings, "KEY=VALUE: a topology key, or bench.NAME; may be repeated");
  sub->add_option("--seed", o->base.seed, "seed of random patterns")->check(seed_range());
  sub->add_option("--jobs", o->jobs, "runs side by side (default: the processors of this machine)")
      ->check(CLI::Range(1, 4096));
  sub->footer(
      "Every line is a run of its own, not an estimate.\n"
      "Example: kernbench whatif --topology topologies/one_pe.yaml --bench gqa-decode-long --set "
      "bench.variant=primitive");
  sub->callback([o, &ctx] { whatif(*o, ctx); });
}

}  // namespace kb::cli
