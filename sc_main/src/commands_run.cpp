#include "commands.h"

#include <kb/platform/session.h>
#include <kb/tlm_if/text.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

namespace kb::cli {

namespace {

struct RunOptions {
  RunSpec spec;
  std::vector<std::string> settings;
  std::vector<std::string> inputs;
  std::vector<std::string> traces;
  std::string mode = "timing";
  std::string log = "on";
  std::string window;
  bool json = false;
};

extern "C" void on_interrupt(int) { request_interrupt(); }

/// Interrupts end the run cleanly; the previous handler comes back afterwards.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~InterruptGuard() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }

 private:
  struct sigaction old_int_ {}, old_term_ {};
};

/// A line on a terminal that is rewritten a few times a second; silent in a pipe.
class ProgressLine {
 public:
  void operator()(double time_ns, const std::string& what, double fraction) {
    if (!terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (shown_ && now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    if (now - begin_ < std::chrono::seconds(1)) return;
    shown_ = true;
    const double wall = std::chrono::duration<double>(now - begin_).count();
    const std::string percent = fraction >= 0 ? fmt::format(" {:5.1f} %", 100 * fraction) : std::string();
    fmt::print(stderr, "\r\033[K{}{}: {:.3f} us simulated, {:.1f} s", what, percent, time_ns / 1000.0, wall);
    std::fflush(stderr);
  }
  void clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), last_ = begin_;
};

Mode parse_mode(const std::string& text) {
  if (text == "timing") return Mode::timing;
  if (text == "data") return Mode::data;
  if (text == "emit") return Mode::emit;
  throw InputError(fmt::format("--mode: found '{}'; allowed: timing, data, emit", text));
}

std::pair<double, double> parse_window(const std::string& text) {
  const auto colon = text.find(':');
  try {
    if (colon != std::string::npos) {
      std::size_t used0 = 0, used1 = 0;
      const std::string from = text.substr(0, colon), to = text.substr(colon + 1);
      const double t0 = std::stod(from, &used0), t1 = std::stod(to, &used1);
      if (used0 == from.size() && used1 == to.size() && t0 >= 0 && t1 > t0) return {t0, t1};
    }
  } catch (const std::exception&) {
    // Falls through to the message below.
  }
  throw InputError(fmt::format("--trace-window: found '{}'; allowed: T0:T1 in ns with 0 <= T0 < T1", text));
}

RunSpec finish(RunOptions& o) {
  RunSpec& s = o.spec;
  split_settings(o.settings, s.overrides, s.params);
  s.mode = parse_mode(o.mode);
  if (o.log != "on" && o.log != "off") throw InputError(fmt::format("--log: found '{}'; allowed: on, off", o.log));
  s.log = o.log == "on";
  for (const auto& t : o.traces) {
    if (t == "vcd")
      s.traces.vcd = true;
    else if (t == "perfetto")
      s.traces.perfetto = true;
    else if (t == "sqlite")
      s.traces.sqlite = true;
    else
      throw InputError(fmt::format("--trace: found '{}'; {}allowed: vcd, perfetto, sqlite", t,
                                   did_you_mean(t, {"vcd", "perfetto", "sqlite"})));
  }
  if (!o.window.empty()) s.traces.window_ns = parse_window(o.window);
  if (o.traces.empty() && s.traces.window_ns) throw InputError("--trace-window: found no --trace; allowed: with it");
  if (o.traces.empty() && s.traces.scope != "*") throw InputError("--trace-scope: found no --trace; allowed: with it");
  if (!o.traces.empty() && s.out.empty()) throw InputError("--trace: found no --out DIR; allowed: traces need a directory");
  if (s.dump && s.out.empty()) throw InputError("--dump: found no --out DIR; allowed: dumps need a directory");
  // What a mode has no use for is refused: a run that ends well has done what it was asked to do.
  if (!o.traces.empty() && s.mode == Mode::emit)
    throw InputError("--trace: found --mode emit, which simulates no time; allowed: --mode timing or data");
  for (const auto& [option, given] : {std::pair{"--dump", s.dump}, std::pair{"--input", !o.inputs.empty()}})
    if (given && s.mode != Mode::data)
      throw InputError(fmt::format("{}: found --mode {}, which has no values; allowed: --mode data", option, o.mode));
  for (const auto& i : o.inputs) {
    const auto eq = i.find('=');
    if (eq == std::string::npos || eq == 0)
      throw InputError(fmt::format("--input: found '{}'; allowed: NAME=FILE.npy", i));
    s.inputs.emplace_back(i.substr(0, eq), i.substr(eq + 1));
  }
  return s;
}

void show(const RunOutcome& r, bool json) {
  if (json) {
    fmt::print("{}\n", r.summary_json);
  } else {
    fmt::print("{}", r.table);
    if (!r.files.empty()) {
      fmt::print("files:\n");
      for (const auto& f : r.files) fmt::print("  {}\n", f);
    }
    if (!r.view_command.empty()) fmt::print("waveform: {}\n", r.view_command);
  }
  std::fflush(stdout);
  if (!r.message.empty()) fmt::print(stderr, "kernbench: {}\n", r.message);
}

}  // namespace

void add_run(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("run", "Run a bench on a topology");
  auto o = std::make_shared<RunOptions>();
  sub->add_option("--topology", o->spec.topology, "topology file (YAML)")->required();
  sub->add_option("--bench", o->spec.bench, "bench (kernbench list)")->required();
  sub->add_option("--set", o->settings, "KEY=VALUE: a topology key, or bench.NAME; may be repeated");
  sub->add_option("--mode", o->mode, "timing, data (also computes the numbers) or emit (counts commands only)");
  sub->add_option("--seed", o->spec.seed, "seed of generated inputs and random patterns")->check(seed_range());
  sub->add_option("--out", o->spec.out, "directory for summary.json, op_log.jsonl and traces");
  sub->add_option("--log", o->log, "on or off: write op_log.jsonl (needs --out)");
  sub->add_option("--trace", o->traces, "vcd, perfetto, sqlite (comma separated)")->delimiter(',');
  sub->add_option("--trace-scope", o->spec.traces.scope, "only components whose name matches this glob");
  sub->add_option("--trace-window", o->window, "only the simulated time T0:T1, in ns");
  sub->add_option("--input", o->inputs, "NAME=FILE.npy: an input tensor instead of a random one");
  sub->add_flag("--dump", o->spec.dump, "write every input and output to DIR/tensors");
  sub->add_flag("--json", o->json, "print summary.json instead of the table");
  sub->footer(
      "Examples:\n"
      "  kernbench run --topology topologies/one_pe.yaml --bench gemm --set bench.K=4096 --set pe.dma.outstanding=4\n"
      "  kernbench run --topology topologies/one_pe.yaml --bench gqa-decode-long --mode data --dump --out out\n"
      "  kernbench run --topology topologies/eight_cubes.yaml --bench gqa-decode-long --set bench.C=8 --set bench.P=8 "
      "--out out --trace vcd --trace-scope '*.cube0.pe0.*' --trace-window 0:2000\n"
      "  kernbench run --topology topologies/default.yaml --bench allreduce --set bench.world=256 --mode emit");
  sub->callback([o, &ctx] {
    const RunSpec spec = finish(*o);
    ProgressLine line;
    const InterruptGuard guard;
    const RunOutcome r = run_session(spec, ctx.benches, [&line](double t, const std::string& w, double f) { line(t, w, f); });
    line.clear();
    show(r, o->json);
    ctx.exit_code = r.code;
  });
}

void add_replay(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("replay", "Recompute the data pass of a saved run (made with --mode data --dump --out DIR)");
  auto dir = std::make_shared<std::string>();
  sub->add_option("DIR", *dir, "output directory of the run")->required();
  sub->footer("Example: kernbench replay out");
  sub->callback([dir, &ctx] {
    const RunOutcome r = replay_session(*dir, ctx.benches);
    show(r, false);
    ctx.exit_code = r.code;
  });
}

}  // namespace kb::cli
