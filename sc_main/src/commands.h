// The commands of kernbench. Each function adds one subcommand; its callback returns the exit code.
#pragma once

#include <kb/kernels/bench.h>
#include <kb/platform/config.h>
#include <kb/tlm_if/errors.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace kb::cli {

/// What commands share. `exit_code` is set by the command that ran.
struct CliContext {
  const BenchRegistry& benches;
  std::string program;
  ExitCode exit_code = ExitCode::done;
};

void add_run(CLI::App& app, CliContext& ctx);
void add_list(CLI::App& app, CliContext& ctx);
void add_describe(CLI::App& app, CliContext& ctx);
void add_validate(CLI::App& app, CliContext& ctx);
void add_probe(CLI::App& app, CliContext& ctx);
void add_route(CLI::App& app, CliContext& ctx);
void add_replay(CLI::App& app, CliContext& ctx);
void add_sweep(CLI::App& app, CliContext& ctx);
void add_plot(CLI::App& app, CliContext& ctx);
void add_sweep_points(CLI::App& app, CliContext& ctx);
void add_diff(CLI::App& app, CliContext& ctx);
void add_report(CLI::App& app, CliContext& ctx);
void add_selfcheck(CLI::App& app, CliContext& ctx);
void add_whatif(CLI::App& app, CliContext& ctx);
void add_completion(CLI::App& app, CliContext& ctx);
void add_manual(CLI::App& app, CliContext& ctx);

/// Splits `--set` arguments: "bench.NAME=V" are bench parameters, all others topology keys.
/// Throws InputError for an argument without '='.
void split_settings(const std::vector<std::string>& settings, std::vector<Override>& topology,
                    std::map<std::string, std::string>& params);

/// Check of `--seed`: CLI11 itself would take the largest seed for one that is larger.
CLI::Validator seed_range();

}  // namespace kb::cli
