#include "commands.h"

#include <kb/tlm_if/text.h>
#include <kb/traces/metrics.h>

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <system_error>

namespace kb::cli {

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void describe_bench(const Bench& bench) {
  fmt::print("{}: {}\n\nparameters (--set bench.NAME=VALUE)\n", bench.name(), bench.doc());
  for (const auto& p : bench.params())
    fmt::print("  {:<14} default {:<12} allowed {:<44} {}\n", p.name, p.default_value, p.allowed(), p.doc);
}

void describe_metrics() {
  for (const auto& m : metric_definitions()) fmt::print("{:<26} [{}]\n    {}\n", m.name, m.unit, m.text);
}

}  // namespace

void add_list(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("list", "List the benches");
  sub->callback([&ctx] {
    for (const auto* b : ctx.benches.list()) fmt::print("{:<20} {}\n", b->name(), first_line(b->doc()));
  });
}

void add_describe(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("describe", "Describe a bench with its parameters, or `metrics`");
  auto what = std::make_shared<std::string>();
  sub->add_option("WHAT", *what, "a bench's name, or `metrics`")->required();
  sub->callback([&ctx, what] {
    if (*what == "metrics")
      describe_metrics();
    else
      describe_bench(ctx.benches.get(*what));
  });
}

void add_validate(CLI::App& app, CliContext&) {
  struct Options {
    std::string topology;
    std::vector<std::string> settings;
    bool dump = false;
  };
  auto* sub = app.add_subcommand("validate", "Check a topology file");
  auto o = std::make_shared<Options>();
  sub->add_option("--topology", o->topology, "topology file (YAML)")->required();
  sub->add_option("--set", o->settings, "topology key=value, may be repeated");
  sub->add_flag("--dump", o->dump, "print the effective configuration");
  sub->callback([o] {
    std::vector<Override> overrides;
    std::map<std::string, std::string> params;
    split_settings(o->settings, overrides, params);
    if (!params.empty())
      throw InputError(fmt::format("--set bench.{}: found a bench parameter; allowed: topology keys", params.begin()->first));
    const SystemConfig config = load_config(o->topology, overrides);
    if (o->dump) {
      fmt::print("{}", dump_config(config));
      return;
    }
    const double peak = 2.0 * config.pe.gemm.mac_shape[0] * config.pe.gemm.mac_shape[1] * config.pe.gemm.mac_shape[2] *
                        config.pe.clock_ghz / 1000.0;
    fmt::print("{}: valid: {} SIPs x {} cubes x {} PEs = {} PEs; peak per PE {:.3f} TFLOP/s f16; HBM {} GB/s per slice\n",
               o->topology, config.sips, config.cubes_per_sip(), config.pes_per_cube(), config.total_pes(), peak,
               config.cube.hbm.pseudo_channels * config.cube.hbm.pc_bw_gbs);
  });
}

void split_settings(const std::vector<std::string>& settings, std::vector<Override>& topology,
                    std::map<std::string, std::string>& params) {
  for (const auto& s : settings) {
    const auto eq = s.find('=');
    if (eq == std::string::npos || eq == 0)
      throw InputError(fmt::format("--set {}: found no key=value; allowed: TOPOLOGY.KEY=VALUE or bench.NAME=VALUE", s));
    const std::string key = s.substr(0, eq), value = s.substr(eq + 1);
    if (key.rfind("bench.", 0) == 0)
      params[key.substr(6)] = value;
    else
      topology.emplace_back(key, value);
  }
}

CLI::Validator seed_range() {
  const auto check = [](std::string& text) -> std::string {
    std::uint64_t seed = 0;
    const char* const end = text.data() + text.size();
    const auto [used, error] = std::from_chars(text.data(), end, seed);
    if (error == std::errc() && used == end) return {};
    return fmt::format("found '{}'; allowed: a whole number from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
  };
  return CLI::Validator(check, std::string());
}

}  // namespace kb::cli
