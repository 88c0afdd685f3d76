#include "attention_bench.h"
#include "benches.h"

#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {

/// Puts the name of a case before the names of its tensors.
class CaseTensors : public InputSource, public OutputSink {
 public:
  CaseTensors(std::string prefix, const BenchContext::Options& outer) : prefix_(std::move(prefix)), outer_(outer) {}
  std::optional<LogicalTensor> find(const std::string& name) override {
    return outer_.inputs == nullptr ? std::nullopt : outer_.inputs->find(prefix_ + name);
  }
  void write(const std::string& name, const LogicalTensor& tensor) override {
    if (outer_.outputs != nullptr) outer_.outputs->write(prefix_ + name, tensor);
  }

 private:
  std::string prefix_;
  const BenchContext::Options& outer_;
};

class HeadlineBench : public Bench {
 public:
  std::string name() const override { return "gqa-headline"; }

  std::string doc() const override {
    return "GQA attention: the four cases decode and prefill, short and long, as one table\n"
           "Parameters that a case does not have are left out there; placements are each case's default. Tensors are "
           "named CASE.q and so on. The latency is the sum of the four.";
  }

  std::vector<ParamSpec> params() const override {
    // All parameters of prefill but the placement, whose default differs between cases.
    std::vector<ParamSpec> all = make_prefill_long_bench()->params();
    all.erase(std::remove_if(all.begin(), all.end(), [](const ParamSpec& s) { return s.name == "placement"; }),
              all.end());
    return all;
  }

  BenchResult run(BenchContext& ctx) const override {
    std::vector<std::unique_ptr<Bench>> cases;
    cases.push_back(make_decode_short_bench());
    cases.push_back(make_decode_long_bench());
    cases.push_back(make_prefill_short_bench());
    cases.push_back(make_prefill_long_bench());

    BenchResult all;
    ResultTable table;
    table.name = "gqa-headline";
    table.columns = {"case",          "latency_ns",          "bound_by",
                     "bound_ratio",   "commands_per_pe_max", "dispatch_cycles_max_pe",
                     "dma_read_bytes"};
    if (ctx.with_data()) table.columns.insert(table.columns.end(), {"rel_rmse", "pass"});
    ResultTable breakdown{"latency_breakdown_ns", {"case", "latency"}, {}};
    breakdown.columns.insert(breakdown.columns.end(), attention::kPartNames.begin(), attention::kPartNames.end());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Bench& bench = *cases[i];
      ctx.progress(bench.name(), static_cast<double>(i) / static_cast<double>(cases.size()));
      std::map<std::string, std::string> given;
      for (const auto& spec : bench.params())
        for (const auto& item : ctx.params().items())
          if (item.name == spec.name) given[item.name] = item.value;
      CaseTensors tensors(bench.name() + ".", ctx.options());
      BenchContext::Options options = ctx.options();
      options.inputs = &tensors;
      options.outputs = &tensors;
      const BenchResult one = run_bench(bench, ctx.host(), given, options);

      std::uint64_t read_bytes = 0;
      double cycles = 0;
      const LaunchResult& launch = one.launches.at(0).result;
      for (const auto& pe : launch.pes) {
        read_bytes += pe.dma_read_bytes;
        cycles = std::max(cycles, pe.dispatch.cycles);
      }
      ResultValue commands = std::int64_t{0};
      for (const auto& [key, value] : one.extra) {
        if (key == "commands_per_pe_max") commands = value;
        all.extra.emplace_back(bench.name() + "." + key, value);
      }
      table.rows.push_back({bench.name(), one.latency_ns, launch.bounds.bound_by, launch.bounds.ratio, commands, cycles,
                            static_cast<std::int64_t>(read_bytes)});
      if (ctx.with_data()) {
        table.rows.back().emplace_back(one.numerics.rel_rmse);
        table.rows.back().emplace_back(one.numerics.pass);
      }
      if (ctx.mode() != Mode::emit && !launch.pes.empty()) {
        std::vector<ResultValue> row{bench.name(), one.latency_ns};
        for (const Ps part : attention::critical_pe(launch).split) row.emplace_back(ns_from_ps(part));
        breakdown.rows.push_back(std::move(row));
      }
      all.latency_ns += one.latency_ns;
      all.launches.push_back({bench.name(), launch});
      all.verdict += (all.verdict.empty() ? "" : "; ") + bench.name() + " " + one.verdict;
      // The summary shows the worst case.
      all.numerics.checked = all.numerics.checked || one.numerics.checked;
      all.numerics.pass = all.numerics.pass && one.numerics.pass;
      all.numerics.max_abs_err = std::max(all.numerics.max_abs_err, one.numerics.max_abs_err);
      all.numerics.rel_rmse = std::max(all.numerics.rel_rmse, one.numerics.rel_rmse);
      all.numerics.tolerance = std::max(all.numerics.tolerance, one.numerics.tolerance);
      all.numerics.elements += one.numerics.elements;
    }
    all.tables.push_back(std::move(table));
    if (!breakdown.rows.empty()) all.tables.push_back(std::move(breakdown));
    return all;
  }
};

}  // namespace

std::unique_ptr<Bench> make_headline_bench() {
  return std::make_unique<HeadlineBench>();
}

}  // namespace kb
