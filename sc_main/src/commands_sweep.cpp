#include "commands.h"
#include "files.h"
#include "progress.h"
#include "sweep_store.h"
#include "workers.h"

#include <kb/platform/sweep.h>
#include <kb/tlm_if/text.h>

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

namespace kb::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSlurmTasks = 1000;  // Slurm's default MaxArraySize allows 1001
constexpr int kUnknownCommand = 127;

struct SweepOptions {
  std::string spec;
  std::string out;
  std::size_t jobs = 0;
  bool resume = false;
  std::string engine = "local";
  std::vector<std::string> slurm_options;
};

/// Without the program's name, in front of the first line, and the line break at the end.
std::string error_text(std::string text) {
  static const std::string kName = "kernbench: ";
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.rfind(kName, 0) == 0) text.erase(0, kName.size());
  return text;
}

PointRecord record_of(const SweepStore& store, const JobResult& job) {
  PointRecord r;
  r.index = job.id;
  r.identity = store.identity(job.id);
  r.code = job.code;
  r.summary = Json::parse(job.out.substr(std::min(job.out.find('{'), job.out.size())), nullptr, false);
  if (!r.summary.is_object()) r.summary = nullptr;
  if (r.code == 0 && r.summary.is_null()) r.code = static_cast<int>(ExitCode::io_error);
  r.settled = r.code >= 0 && r.code <= static_cast<int>(ExitCode::model_error) && !job.signalled;
  if (r.code != 0) {
    r.error = error_text(job.err);
    if (job.signalled)
      r.error = fmt::format("ended by signal {}{}{}", job.code - 128, r.error.empty() ? "" : ": ", r.error);
    if (r.error.empty()) r.error = fmt::format("ended with exit code {}", r.code);
  }
  return r;
}

/// Runs points and records each as it ends.
void run_points(const SweepStore& store, const std::string& program, const std::vector<std::size_t>& points,
                std::size_t jobs, const std::function<void(const PointRecord&)>& recorded,
                const std::function<void(const WorkerPool::State&)>& tick = {}) {
  std::size_t at = 0;
  WorkerPool pool(jobs);
  pool.run(
      [&](Job& job) {
        if (at == points.size()) return false;
        job.id = points[at++];
        job.argv = store.run_arguments(job.id);
        job.argv.insert(job.argv.begin(), program);
        job.directory = store.dir();
        return true;
      },
      [&](const JobResult& result) {
        const PointRecord r = record_of(store, result);
        store.save(r);
        recorded(r);
      },
      tick);
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  throw InputError(
      fmt::format("--engine slurm: found no {} in PATH; allowed: on a machine that submits to Slurm", name));
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// One job array for all points; each task runs a line of DIR/slurm/tasks.txt with `sweep-points`.
void run_slurm(const SweepStore& store, const std::string& program, const std::vector<std::size_t>& points,
               const SweepOptions& o, const std::function<void(const WorkerPool::State&)>& tick) {
  const std::string sbatch = find_program("sbatch");
  const std::string dir = std::filesystem::absolute(store.dir()).lexically_normal().string(), folder = dir + "/slurm";
  make_directories(folder);
  const std::size_t tasks = std::min(points.size(), kSlurmTasks);
  std::string lines;
  for (std::size_t t = 0; t < tasks; ++t) {
    for (std::size_t i = t; i < points.size(); i += tasks) lines += fmt::format("{}{}", i == t ? "" : " ", points[i]);
    lines += '\n';
  }
  write_atomically(folder + "/tasks.txt", lines);
  write_atomically(folder + "/array.sh",
                   fmt::format("#!/bin/sh\n# One task of the sweep's job array.\n"
                               "exec {} sweep-points {} $(sed -n \"${{SLURM_ARRAY_TASK_ID}}p\" {})\n",
                               shell_quoted(program), shell_quoted(dir), shell_quoted(folder + "/tasks.txt")));
  const std::string name = "kernbench-" + store.identity(0);
  Job job;
  job.argv = {sbatch,
              "--wait",
              "--job-name=" + name,
              "--chdir=" + dir,
              "--output=" + folder + "/task-%a.log",
              fmt::format("--array=1-{}%{}", tasks, std::max<std::size_t>(1, o.jobs))};
  job.argv.insert(job.argv.end(), o.slurm_options.begin(), o.slurm_options.end());
  job.argv.push_back(folder + "/array.sh");
  WorkerPool pool(1);
  try {
    const JobResult r = pool.run_all({job}, tick).front();
    // A task that recorded a failed point ends with 1, and so does sbatch: only what could not be submitted counts.
    if (r.out.find("Submitted batch job") == std::string::npos || r.code == kUnknownCommand)
      throw IoError("--engine slurm: " + (r.err.empty() ? r.out : error_text(r.err)));
  } catch (const Interrupted&) {
    Job cancel;
    cancel.argv = {find_program("scancel"), "--name=" + name};
    WorkerPool(1).run_all({cancel});
    throw;
  }
}

void sweep(SweepOptions& o, CliContext& ctx) {
  if (o.engine != "local" && o.engine != "slurm")
    throw InputError(fmt::format("--engine: found '{}'; {}allowed: local, slurm", o.engine,
                                 did_you_mean(o.engine, {"local", "slurm"})));
  if (!o.slurm_options.empty() && o.engine != "slurm")
    throw InputError("--slurm-option: found without --engine slurm; allowed: with it");
  if (o.jobs == 0) o.jobs = available_processors();
  const SweepSpec spec = load_sweep(o.spec, ctx.benches);
  if (o.out.empty()) o.out = std::filesystem::path(o.spec).stem().string() + "-sweep";
  const SweepStore store = SweepStore::create(o.out, spec, o.resume);
  const std::string program = program_path(ctx.program);

  std::size_t failed = 0, settled = 0;
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const auto r = store.load(i);
    if (r && r->settled)
      ++settled, failed += r->code != 0;
    else
      pending.push_back(i);
  }
  const std::size_t kept = settled;

  CountedProgress line("sweep", store.size(), kept);
  try {
    if (o.engine == "slurm" && !pending.empty()) {
      run_slurm(store, program, pending, o, [&](const WorkerPool::State&) {
        if (!line.due()) return;
        std::size_t recorded = kept;
        for (const auto i : pending) recorded += store.load(i).has_value();
        line.show(recorded, failed);
      });
    } else {
      run_points(
          store, program, pending, o.jobs,
          [&](const PointRecord& r) {
            ++settled;
            failed += r.code != 0;
          },
          [&](const WorkerPool::State&) { line.show(settled, failed); });
    }
  } catch (const Interrupted& e) {
    line.clear();
    throw Interrupted(
        fmt::format("{}; finished points are kept in {}: run the same command with --resume", e.what(), o.out));
  }
  line.clear();

  store.write_results();
  std::map<std::string, std::size_t> by_status;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const auto r = store.load(i);
    ++by_status[r ? r->status() : "missing"];
    if (r && r->code == 0) continue;
    if (++shown > 10) continue;
    std::string where;
    for (const auto& [key, value] : spec.points[i]) where += (where.empty() ? "" : " ") + key + "=" + value;
    fmt::print(stderr, "kernbench: point {} ({}): {}\n", i, where, r ? r->error : "no result was recorded");
  }
  if (shown > 10) fmt::print(stderr, "kernbench: {} more failed points; see results.csv\n", shown - 10);
  fmt::print("{} points, {} of them from before:", store.size(), kept);
  const char* separator = " ";
  for (const auto& [status, count] : by_status) {
    fmt::print("{}{} {}", separator, count, status);
    separator = ", ";
  }
  fmt::print("\nfiles:\n  {0}/results.csv\n  {0}/results.sqlite\n", o.out);
  if (by_status["done"] != store.size()) ctx.exit_code = ExitCode::wrong_result;
}

}  // namespace

void add_sweep(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("sweep", "Run a bench at many points of topology keys and bench parameters");
  auto o = std::make_shared<SweepOptions>();
  sub->add_option("SPEC", o->spec, "sweep file (YAML): topology, bench, mode, seed, set, grid, list, random")
      ->required();
  sub->add_option("--jobs", o->jobs, "runs side by side (default: the processors of this machine)")
      ->check(CLI::Range(1, 4096));
  sub->add_flag("--resume", o->resume, "keep the points that DIR holds already and run the others");
  sub->add_option("--out", o->out, "folder for the results (default: SPEC's name with -sweep)");
  sub->add_option("--engine", o->engine, "local, or slurm: as one job array of Slurm");
  sub->add_option("--slurm-option", o->slurm_options, "handed to sbatch, such as --partition=NAME; may be repeated");
  sub->footer(
      "Example of a sweep file:\n"
      "  topology: one_pe.yaml          # from the folder of this file\n"
      "  bench: gemm\n"
      "  set: {bench.K: 4096}\n"
      "  grid:                          # every combination\n"
      "    bench.M: [32, 64, 128]\n"
      "    pe.dma.outstanding: [1, 4]\n"
      "  random:\n"
      "    samples: 20\n"
      "    keys: {bench.N: {min: 1, max: 4096, scale: log}, bench.dtype: [f16, f32]}\n"
      "Examples:\n"
      "  kernbench sweep sweep.yaml --jobs 2 --out results\n"
      "  kernbench sweep sweep.yaml --out results --resume        after an interruption\n"
      "  kernbench sweep sweep.yaml --engine slurm --slurm-option=--partition=batch --jobs 64");
  sub->callback([o, &ctx] { sweep(*o, ctx); });
}

void add_sweep_points(CLI::App& app, CliContext& ctx) {
  struct Options {
    std::string dir;
    std::vector<std::size_t> points;
  };
  auto* sub = app.add_subcommand("sweep-points", "Run some points of a sweep that was prepared by `sweep`");
  sub->group("");  // used by the tasks of a job array, not by people
  auto o = std::make_shared<Options>();
  sub->add_option("DIR", o->dir, "folder of the sweep")->required();
  sub->add_option("POINTS", o->points, "their numbers")->required();
  sub->callback([o, &ctx] {
    const SweepStore store = SweepStore::open(o->dir, false);
    for (const auto p : o->points)
      if (p >= store.size()) throw InputError(fmt::format("POINTS: found {}; allowed: 0 to {}", p, store.size() - 1));
    run_points(store, program_path(ctx.program), o->points, 1, [&](const PointRecord& r) {
      if (r.code != 0) ctx.exit_code = ExitCode::wrong_result;
    });
  });
}

}  // namespace kb::cli
