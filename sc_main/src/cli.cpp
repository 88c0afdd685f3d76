#include <kb/cli/cli.h>

#include "commands.h"

#include <kb/platform/version.h>
#include <kb/tlm_if/text.h>

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

namespace kb {

namespace {

/// The first word that is neither an option nor a command, for "unknown command" messages.
std::string unknown_command(int argc, char** argv, const std::vector<std::string>& names) {
  if (argc < 2 || argv[1][0] == '-') return {};
  for (const auto& n : names)
    if (n == argv[1]) return {};
  return argv[1];
}

/// The first long option that the command does not have, with a hint at the nearest that it has.
std::pair<std::string, std::string> unknown_option(int argc, char** argv, const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* o : command.get_options([](const CLI::Option*) { return true; }))
    for (const auto& n : o->get_lnames()) names.push_back("--" + n);
  for (int i = 2; i < argc; ++i) {
    const std::string word(argv[i]);
    const std::string name = word.substr(0, word.find('='));
    if (name == "--") break;  // what follows is no option
    if (name.rfind("--", 0) == 0 && std::find(names.begin(), names.end(), name) == names.end())
      return {name, did_you_mean(name, names)};
  }
  return {};
}

}  // namespace

int run_cli(int argc, char** argv, const BenchRegistry& benches) {
  CLI::App app{"kernbench: a transaction-level model of an accelerator built out of HBM cubes"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  app.footer(
      "Examples:\n"
      "  kernbench run --topology topologies/one_pe.yaml --bench gemm --set bench.M=1024\n"
      "  kernbench run --topology topologies/one_pe.yaml --bench gqa-decode-long --mode data --trace vcd --out out\n"
      "  kernbench describe gqa-decode-long\n"
      "  kernbench validate --topology topologies/default.yaml --dump\n"
      "Exit codes: 0 done; 1 wrong result; 2 bad input; 3 found during simulation; 4 I/O; 130 interrupted.");

  cli::CliContext ctx{benches, argc > 0 ? argv[0] : "kernbench"};
  cli::add_run(app, ctx);
  cli::add_list(app, ctx);
  cli::add_describe(app, ctx);
  cli::add_validate(app, ctx);
  cli::add_probe(app, ctx);
  cli::add_route(app, ctx);
  cli::add_replay(app, ctx);
  cli::add_sweep(app, ctx);
  cli::add_sweep_points(app, ctx);
  cli::add_plot(app, ctx);
  cli::add_diff(app, ctx);
  cli::add_report(app, ctx);
  cli::add_selfcheck(app, ctx);
  cli::add_whatif(app, ctx);
  cli::add_completion(app, ctx);
  cli::add_manual(app, ctx);

  std::vector<std::string> names;
  for (const auto* sub : app.get_subcommands(nullptr)) names.push_back(sub->get_name());
  if (const std::string word = unknown_command(argc, argv, names); !word.empty()) {
    fmt::print(stderr, "kernbench: found command '{}'; {}kernbench --help lists all\n", word,
               did_you_mean(word, names));
    return static_cast<int>(ExitCode::bad_input);
  }
  if (argc > 1 && argv[1][0] != '-') {
    if (const auto [found, hint] = unknown_option(argc, argv, *app.get_subcommand(argv[1])); !found.empty()) {
      fmt::print(stderr, "kernbench {}: found option '{}'; {}kernbench {} --help lists all\n", argv[1], found, hint,
                 argv[1]);
      return static_cast<int>(ExitCode::bad_input);
    }
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  } catch (const Error& e) {
    fmt::print(stderr, "kernbench: {}\n", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    fmt::print(stderr, "kernbench: {}\n", e.what());
    return static_cast<int>(ExitCode::model_error);
  }
  return static_cast<int>(ctx.exit_code);
}

}  // namespace kb
