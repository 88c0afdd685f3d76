// The laws of the model (spec 8) on a user's own topology: each check is a few small runs and a relation between them.
#include "commands.h"
#include "experiment.h"
#include "run_files.h"

#include <kb/platform/machine.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

namespace kb::cli {

namespace {

constexpr double kPsInNs = 0.0015;  // one picosecond, and the rounding of printed times

enum class Verdict { holds, fails, not_applicable };

struct Finding {
  Verdict verdict = Verdict::holds;
  std::string text;  // what was measured, or why not
};

Finding holds(const std::string& text) {
  return {Verdict::holds, text};
}
Finding fails(const std::string& text) {
  return {Verdict::fails, text};
}

using Results = std::vector<const TrialResult*>;

struct Check {
  int law;
  std::string name;
  std::string tried;
  std::vector<std::size_t> runs;
  std::function<Finding(const Results&)> judge;
  Finding finding;
};

std::string ns(double v) {
  return grouped(v);
}

class Selfcheck {
 public:
  Selfcheck(Experiment& experiment, const SystemConfig& config)
      : experiment_(experiment), config_(config), machine_(machine_info(config)) {
    pes_ = machine_.total_pes();
    world_ = std::min<std::uint32_t>(pes_, 8);
  }

  void plan() {
    bounds();
    monotone();
    conservation();
    accounts();
    symmetry();
    independence();
    streams();
    scale();
    liveness();
    numerics();
  }

  void judge() {
    for (auto& c : checks_) {
      Results results;
      for (const auto r : c.runs) results.push_back(&experiment_[r]);
      const auto broken = std::find_if(results.begin(), results.end(), [](const TrialResult* r) { return !r->done(); });
      if (broken == results.end())
        c.finding = c.judge(results);
      else if ((*broken)->code == static_cast<int>(ExitCode::bad_input))
        c.finding = {Verdict::not_applicable, (*broken)->error};
      else
        c.finding = fails((*broken)->error.empty() ? fmt::format("a run ended with exit code {}", (*broken)->code)
                                                   : (*broken)->error);
    }
  }

  std::vector<Check>& checks() { return checks_; }

 private:
  void check(int law, const std::string& name, const std::string& tried, const std::vector<Trial>& trials,
             std::function<Finding(const Results&)> judge) {
    Check c{law, name, tried, {}, std::move(judge), {}};
    for (const auto& t : trials) c.runs.push_back(experiment_.add(t));
    checks_.push_back(std::move(c));
  }

  static Trial bench(const std::string& name, const std::vector<std::pair<std::string, std::string>>& params) {
    Trial t;
    t.bench = name;
    for (const auto& [key, value] : params) t.settings.emplace_back("bench." + key, value);
    return t;
  }
  static Trial gemm(std::int64_t m, std::int64_t k, std::int64_t n) {
    return bench("gemm", {{"M", std::to_string(m)}, {"K", std::to_string(k)}, {"N", std::to_string(n)}});
  }
  static Trial transfers(std::uint64_t bytes, std::uint64_t count, std::uint32_t issuers) {
    return bench("dma-contention", {{"pattern", "own"},
                                    {"issuers", std::to_string(issuers)},
                                    {"bytes", std::to_string(bytes)},
                                    {"count", std::to_string(count)}});
  }
  Trial decode(std::int64_t tokens) const {
    return bench("gqa-decode-long", {{"S_kv", std::to_string(tokens)},
                                     {"C", std::to_string(std::min<std::uint32_t>(2, machine_.cubes_per_sip()))},
                                     {"P", std::to_string(std::min<std::uint32_t>(2, machine_.pes_per_cube))}});
  }
  Trial allreduce(std::int64_t elements, const std::string& algorithm = "ring_1d") const {
    return bench("allreduce",
                 {{"algo", algorithm}, {"n_elem", std::to_string(elements)}, {"world", std::to_string(world_)}});
  }
  /// The small runs that every law about a single run is asked of.
  std::vector<Trial> samples() const {
    std::vector<Trial> list{gemm(1, 1, 1),
                            gemm(8, 256, 64),
                            gemm(64, 64, 64),
                            gemm(129, 200, 65),
                            gemm(64, 256, 64).with("bench.variant", "load_load"),
                            gemm(32, 256, 32).with("bench.issue", "async_tiled"),
                            decode(512),
                            decode(512).with("bench.variant", "primitive"),
                            decode(512).with("bench.variant", "opt2")};
    if (world_ > 1) list.insert(list.end(), {allreduce(1), allreduce(4096)});
    return list;
  }

  // 1. Bounds: max(compute, memory, tcm, dispatch) <= latency <= serial sum.
  void bounds() {
    for (const auto& t : samples())
      check(1, "bounds", t.text(), {t}, [](const Results& r) {
        const double latency = r[0]->latency(), serial = r[0]->number("bounds.serial_ns");
        double bound = 0;
        for (const char* b : {"compute_ns", "memory_ns", "tcm_ns", "dispatch_ns"})
          bound = std::max(bound, r[0]->number(std::string("bounds.") + b));
        const std::string text = fmt::format("{} <= {} <= {} ns", ns(bound), ns(latency), ns(serial));
        return bound <= latency + kPsInNs && latency <= serial + kPsInNs ? holds(text) : fails(text);
      });
  }

  /// Latencies in the order given must not fall.
  void never_faster(const std::string& what, const std::vector<Trial>& trials) {
    check(2, "monotone", what, trials, [](const Results& r) {
      std::string text = ns(r[0]->latency());
      bool rising = true;
      for (std::size_t i = 1; i < r.size(); ++i) {
        rising = rising && r[i]->latency() >= r[i - 1]->latency() - kPsInNs;
        text += " <= " + ns(r[i]->latency());
      }
      return rising ? holds(text + " ns") : fails(text + " ns does not hold");
    });
  }

  static std::string half(double v) { return fmt::format("{}", v / 2); }

  // 2. Monotone: more work, less bandwidth, more overhead, fewer slots or buffers never make a run shorter.
  void monotone() {
    const auto sizes = [&](const char* which, const std::vector<std::int64_t>& values,
                           const std::function<Trial(std::int64_t)>& make) {
      std::vector<Trial> trials;
      std::string text;
      for (const auto v : values) {
        trials.push_back(make(v));
        text += (text.empty() ? "" : ", ") + std::to_string(v);
      }
      never_faster(fmt::format("{} {}", which, text), trials);
    };
    sizes("gemm M", {1, 8, 31, 32, 33, 64, 127, 128, 129}, [](std::int64_t v) { return gemm(v, 128, 64); });
    sizes("gemm K", {1, 63, 64, 65, 256, 257}, [](std::int64_t v) { return gemm(64, v, 64); });
    sizes("gemm N", {1, 31, 32, 33, 64, 129}, [](std::int64_t v) { return gemm(64, 128, v); });
    sizes("decode S_kv", {128, 129, 256, 512, 513}, [this](std::int64_t v) { return decode(v); });
    sizes("transfer bytes", {32, 256, 257, 4096, 65536},
          [](std::int64_t v) { return transfers(static_cast<std::uint64_t>(v), 1, 1); });
    if (world_ > 1)
      sizes("all-reduce n_elem", {64, 1024, 4096, 16384}, [this](std::int64_t v) { return allreduce(v); });

    const Trial work = gemm(128, 256, 128);
    const auto& c = config_;
    const std::vector<std::pair<std::string, std::string>> poorer{
        {"cube.hbm.pc_bw_gbs", half(c.cube.hbm.pc_bw_gbs)},
        {"cube.hbm.link_bw_gbs", half(c.cube.hbm.link_bw_gbs)},
        {"cube.noc.pe_dma_bw_gbs", half(c.cube.noc.pe_dma_bw_gbs)},
        {"pe.tcm.read_bw_gbs", half(c.pe.tcm.read_bw_gbs)},
        {"pe.tcm.write_bw_gbs", half(c.pe.tcm.write_bw_gbs)},
        {"cube.hbm.access_ns", fmt::format("{}", c.cube.hbm.access_ns + 10)},
        {"cube.noc.router_overhead_ns", fmt::format("{}", c.cube.noc.router_overhead_ns + 2)},
        {"pe.dma.overhead_ns", fmt::format("{}", c.pe.dma.overhead_ns + 5)},
        {"pe.scheduler.overhead_ns", fmt::format("{}", c.pe.scheduler.overhead_ns + 5)},
        {"pe.gemm.overhead_ns", fmt::format("{}", c.pe.gemm.overhead_ns + 1)},
        {"pe.fetch_store.overhead_ns", fmt::format("{}", c.pe.fetch_store.overhead_ns + 1)},
        {"pe.cost_model.fixed_per_composite_cycles",
         fmt::format("{}", c.pe.cost_model.fixed_per_composite_cycles * 2 + 1)}};
    for (const auto& [key, value] : poorer)
      never_faster(fmt::format("{}, then {} {}", work.text(), key, value), {work, work.with(key, value)});
    for (const char* key : {"pe.scheduler.queue_depth", "pe.scheduler.tile_buffers"}) {
      const Trial t = decode(512).with("bench.variant", "opt2");
      never_faster(fmt::format("{}, then {} 1", t.text(), key), {t, t.with(key, "1")});
    }
    never_faster("16 reads of 4 KiB, then pe.dma.outstanding 1",
                 {transfers(4096, 16, 1), transfers(4096, 16, 1).with("pe.dma.outstanding", "1")});
    if (world_ > 1)
      never_faster("all-reduce of 16384, then pe.ipcq.slots 1",
                   {allreduce(16384), allreduce(16384).with("pe.ipcq.slots", "1")});
  }

  // 3. Conservation: bytes and MACs equal the closed formulas.
  void conservation() {
    const auto& tile = machine_.tile;
    const std::int64_t m = tile[0], k = 3 * static_cast<std::int64_t>(tile[1]) + 1, n = tile[2];
    const Trial one = gemm(m, k, n);
    check(3, "conservation", one.text() + ": bytes and MACs", {one}, [m, k, n](const Results& r) {
      const double reads = 2.0 * static_cast<double>(m * k + k * n), writes = 2.0 * static_cast<double>(m * n),
                   macs = static_cast<double>(m * n * k);
      const std::string text = fmt::format("read {:.0f} of {:.0f} B, written {:.0f} of {:.0f} B, {:.0f} of {:.0f} MACs",
                                           r[0]->number("dma.read_bytes"), reads, r[0]->number("dma.write_bytes"),
                                           writes, r[0]->number("engines.gemm.macs_useful"), macs);
      return r[0]->number("dma.read_bytes") == reads && r[0]->number("dma.write_bytes") == writes &&
                     r[0]->number("engines.gemm.macs_useful") == macs
                 ? holds(text)
                 : fails(text);
    });
    const Trial attention = decode(500);
    check(3, "conservation", attention.text() + ": each cache byte read once", {attention}, [](const Results& r) {
      // K and V of one head; the queries are G x d.
      const double cache = 2.0 * 500 * 128 * 2, queries = 8.0 * 128 * 2;
      const double read = r[0]->number("dma.read_bytes");
      const std::string text = fmt::format("read {:.0f} B for a cache of {:.0f} B", read, cache);
      // Every PE may read the queries for itself.
      return read >= cache && read <= cache + 64 * queries ? holds(text) : fails(text);
    });
    if (world_ > 1)
      check(3, "conservation", allreduce(4096).text() + ": messages", {allreduce(4096)},
            [n = world_](const Results& r) {
              const double sends = r[0]->number("ipcq.sends"), recvs = r[0]->number("ipcq.recvs"),
                           least = 2.0 * (n - 1) * n;
              const std::string text =
                  fmt::format("{:.0f} sent, {:.0f} received, at least {:.0f} needed", sends, recvs, least);
              return sends == recvs && sends >= least ? holds(text) : fails(text);
            });
  }

  // 4. Closed accounts: busy + stalls + idle is the same for every engine, and utilisations lie in [0, 1].
  void accounts() {
    for (const auto& t : samples())
      check(4, "closed accounts", t.text(), {t}, [](const Results& r) {
        const auto list = engine_accounts(r[0]->summary);
        if (list.empty()) return fails("the summary has no engines");
        const double total = list.front().total(), shares = total / r[0]->latency();
        for (const auto& a : list) {
          const double use = a.part("busy") / a.total();
          if (std::abs(a.total() - total) > kPsInNs * static_cast<double>(a.parts.size() + 1))
            return fails(fmt::format("{} accounts for {} ns, {} for {} ns", a.engine, ns(a.total()),
                                     list.front().engine, ns(total)));
          if (!(use >= 0 && use <= 1)) return fails(fmt::format("utilisation of {} is {}", a.engine, use));
        }
        if (std::abs(shares - std::round(shares)) > 1e-6 * shares)
          return fails(fmt::format("{} ns is no multiple of the latency {} ns", ns(total), ns(r[0]->latency())));
        return holds(fmt::format("{} engines, {} ns each over {:.0f} PEs", list.size(), ns(total), shares));
      });
  }

  /// The same settings with the groups of the file in the opposite order.
  std::string permuted() const {
    const std::string text = dump_config(config_);
    std::vector<std::string> groups;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at) + 1, text.size());
      if (text[at] != ' ' || groups.empty()) groups.emplace_back();
      groups.back() += text.substr(at, end - at);
      at = end;
    }
    std::string reversed;
    for (auto g = groups.rbegin(); g != groups.rend(); ++g) reversed += *g;
    return reversed;
  }

  static Finding same_files(const Results& r) {
    const std::string a = read_file(r[0]->dir + "/op_log.jsonl"), b = read_file(r[1]->dir + "/op_log.jsonl");
    if (a != b) return fails("the op logs differ");
    auto x = r[0]->summary, y = r[1]->summary;
    for (auto* s : {&x, &y})
      for (const char* key : {"wall_s", "sim", "version", "topology"}) s->erase(key);
    return x == y ? holds(fmt::format("{} bytes of op log, the same", a.size())) : fails("the summaries differ");
  }

  // 5. Symmetry.
  void symmetry() {
    Trial t = decode(256);
    t.log = true;
    Trial other = t;
    other.machine = permuted();
    check(5, "symmetry", t.text() + ": entries of the file in the opposite order", {t, other}, same_files);
    if (pes_ > 1) {
      const std::uint32_t many = std::min<std::uint32_t>(pes_, 8);
      check(5, "symmetry", fmt::format("own-slice reads by 1 and by {} PEs: disjoint flows", many),
            {transfers(65536, 2, 1), transfers(65536, 2, many)}, [](const Results& r) {
              const std::string text = fmt::format("{} and {} ns", ns(r[0]->latency()), ns(r[1]->latency()));
              return std::abs(r[0]->latency() - r[1]->latency()) <= kPsInNs ? holds(text) : fails(text);
            });
      const Trial work = gemm(64, 256, 64);
      const Trial alone =
          work.with("cube.pes", "[" + config_.cube.pe_routers.front().name() + "]").with("cube.pe_grid_cols", "1");
      check(5, "symmetry", work.text() + ": the one-PE machine", {work, alone}, [](const Results& r) {
        const std::string text = fmt::format("{} and {} ns", ns(r[0]->latency()), ns(r[1]->latency()));
        return std::abs(r[0]->latency() - r[1]->latency()) <= kPsInNs ? holds(text) : fails(text);
      });
    }
    const Trial lone = transfers(65536, 1, 1);
    check(5, "granularity", lone.text() + ": packets and flits",
          {lone.with("fabric.granularity", "packet"), lone.with("fabric.granularity", "flit")}, [](const Results& r) {
            const std::string text = fmt::format("{} and {} ns", ns(r[0]->latency()), ns(r[1]->latency()));
            return std::abs(r[0]->latency() - r[1]->latency()) <= kPsInNs ? holds(text) : fails(text);
          });
  }

  // 6. Independence of what must not matter.
  void independence() {
    Trial t = world_ > 1 ? allreduce(1024) : gemm(64, 128, 64);
    t.log = true;
    check(6, "independence", t.text() + ": run twice", {t, t}, same_files);
    Trial traced = t;
    traced.traces = "vcd";
    check(6, "independence", t.text() + ": waveform off and on", {t, traced}, same_files);
  }

  // 7. Streams reach the bandwidth of their path and never exceed it.
  void streams() {
    const auto& hbm = config_.cube.hbm;
    const double peak =
        std::min({hbm.pseudo_channels * hbm.pc_bw_gbs, hbm.link_bw_gbs, config_.cube.noc.pe_dma_bw_gbs});
    constexpr double kLarge = 1 << 20, kSmall = 4096, kCount = 16;
    check(7, "streams", "16 reads of 4 KiB and of 1 MiB from the own slice",
          {transfers(4096, 1, 1), transfers(4096, 16, 1), transfers(1 << 20, 16, 1)}, [peak](const Results& r) {
            // What a transfer costs besides its bytes may keep even 1 MiB from the peak, on a machine of high latency.
            const double fixed = r[0]->latency() - kSmall / peak;
            const double small = kSmall * kCount / r[1]->latency(), large = kLarge * kCount / r[2]->latency();
            const double expected = 0.99 * peak * std::min(1.0, 1.01 / (1 + fixed * peak / kLarge));
            const std::string text = fmt::format("{:.1f} and {:.1f} of {:.1f} GB/s ({:.1f} and {:.1f} %)", small, large,
                                                 peak, 100 * small / peak, 100 * large / peak);
            return small <= large && large <= peak * (1 + 1e-9) && large >= expected ? holds(text) : fails(text);
          });
  }

  // 8. Scale: counts at sizes where narrow integers would wrap.
  void scale() {
    Trial t = gemm(65536, 32768, 16);  // 2^31 elements of A
    t.mode = "emit";
    check(8, "scale", t.text() + ", commands only", {t}, [this](const Results& r) {
      const double count = r[0]->number("dispatch.commands.composite"), cycles = r[0]->number("dispatch.cycles_total"),
                   bytes = r[0]->number("dispatch.bytes_total");
      const auto& cost = config_.pe.cost_model;
      const double expected = count * cost.fixed_per_composite_cycles + bytes * cost.cycles_per_byte;
      const std::string text = fmt::format("{:.0f} composite, {:.0f} B, {} cycles", count, bytes, cycles);
      return count >= 1 && std::abs(cycles - expected) < 1e-6 * expected + 1e-9
                 ? holds(text)
                 : fails(text + fmt::format(", expected {}", expected));
    });
  }

  // 9. Liveness: with every resource at its minimum all kernels still finish.
  void liveness() {
    std::vector<Trial> trials{gemm(129, 200, 65),
                              gemm(64, 256, 64).with("bench.issue", "async_tiled"),
                              decode(512),
                              decode(512).with("bench.variant", "primitive"),
                              decode(512).with("bench.variant", "opt2"),
                              decode(512).with("bench.reduce", "chain")};
    if (world_ > 1)
      for (const char* algorithm : {"ring_1d", "mesh", "tree"}) trials.push_back(allreduce(4096, algorithm));
    for (auto& t : trials) {
      const std::string what = t.text();
      for (const char* key :
           {"pe.scheduler.queue_depth", "pe.scheduler.tile_buffers", "pe.dma.outstanding", "pe.ipcq.slots"})
        t = t.with(key, "1");
      check(9, "liveness", what + ", one slot, buffer, command and transfer", {t},
            [](const Results& r) { return holds(fmt::format("ended after {} ns", ns(r[0]->latency()))); });
    }
  }

  // The numbers themselves, within their gates (spec 6.4, 7.3).
  void numerics() {
    std::vector<Trial> trials{gemm(65, 130, 33), decode(300)};
    if (world_ > 1) trials.push_back(allreduce(1000));
    for (auto& t : trials) {
      t.mode = "data";
      check(0, "numerics", t.text(), {t}, [](const Results& r) {
        const std::string text = fmt::format("relative RMSE {:.2g}, allowed {:.2g}", r[0]->number("numerics.rel_rmse"),
                                             r[0]->number("numerics.tolerance"));
        return at_path(r[0]->summary, "numerics.pass") == true ? holds(text) : fails(text);
      });
    }
  }

  Experiment& experiment_;
  const SystemConfig& config_;
  MachineInfo machine_;
  std::uint32_t pes_ = 1, world_ = 1;
  std::vector<Check> checks_;
};

const char* verdict_text(Verdict v) {
  switch (v) {
    case Verdict::holds: return "holds";
    case Verdict::fails: return "FAILS";
    case Verdict::not_applicable: break;
  }
  return "n/a";
}

}  // namespace

void add_selfcheck(CLI::App& app, CliContext& ctx) {
  struct Options {
    std::string topology;
    std::vector<std::string> settings;
    std::size_t jobs = 0;
  };
  auto* sub = app.add_subcommand("selfcheck", "Check the model's own laws on a topology");
  auto o = std::make_shared<Options>();
  sub->add_option("--topology", o->topology, "topology file (YAML)")->required();
  sub->add_option("--set", o->settings, "topology key=value, may be repeated");
  sub->add_option("--jobs", o->jobs, "runs side by side (default: the processors of this machine)")
      ->check(CLI::Range(1, 4096));
  sub->footer(
      "Runs small benches and compares them: bounds, monotony, conservation, closed accounts, symmetry, independence,\n"
      "streams, scale, liveness and numerics. Exit code 1 when a law does not hold.\n"
      "Example: kernbench selfcheck --topology my.yaml");
  sub->callback([o, &ctx] {
    std::vector<Override> overrides;
    std::map<std::string, std::string> params;
    split_settings(o->settings, overrides, params);
    if (!params.empty())
      throw InputError(
          fmt::format("--set bench.{}: found a bench parameter; allowed: topology keys", params.begin()->first));
    const SystemConfig config = load_config(o->topology, overrides);
    Experiment experiment(program_path(ctx.program), config, o->jobs == 0 ? available_processors() : o->jobs);
    Selfcheck selfcheck(experiment, config);
    selfcheck.plan();
    experiment.run("selfcheck");
    selfcheck.judge();

    std::size_t width = 0, counts[3] = {};
    for (const auto& c : selfcheck.checks()) width = std::max(width, c.tried.size());
    fmt::print("{:<4}{:<17}{:<{}}  {:<7}{}\n", "law", "", "tried", width, "", "measured");
    for (const auto& c : selfcheck.checks()) {
      ++counts[static_cast<std::size_t>(c.finding.verdict)];
      fmt::print("{:<4}{:<17}{:<{}}  {:<7}{}\n", c.law == 0 ? "" : std::to_string(c.law), c.name, c.tried, width,
                 verdict_text(c.finding.verdict), c.finding.text);
    }
    fmt::print("{} checks in {} runs: {} hold, {} fail, {} do not apply to this topology\n", selfcheck.checks().size(),
               experiment.size(), counts[0], counts[1], counts[2]);
    if (counts[1] > 0) ctx.exit_code = ExitCode::wrong_result;
  });
}

}  // namespace kb::cli
