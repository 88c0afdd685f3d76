#include "commands.h"
#include "files.h"
#include "svg_chart.h"
#include "sweep_store.h"

#include <kb/tlm_if/text.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

namespace kb::cli {

namespace {

using Json = nlohmann::ordered_json;

struct PlotOptions {
  std::vector<std::string> dirs;
  std::string x, series, out, csv, title;
  std::vector<std::string> metrics;
};

/// A swept key, or InputError naming those that there are.
void check_key(const SweepStore& store, const char* option, const std::string& key) {
  const auto& keys = store.spec().keys;
  if (std::find(keys.begin(), keys.end(), key) == keys.end())
    throw InputError(fmt::format("{}: found '{}', which {} does not sweep; {}allowed: {}", option, key, store.dir(),
                                 did_you_mean(key, keys), fmt::join(keys, ", ")));
}

/// "MODE:METRIC" or "METRIC".
struct Metric {
  std::string mode, name;
};
Metric metric_of(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {"", text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string value_of(const SweepStore& store, std::size_t point, const std::string& key) {
  for (const auto& [name, value] : store.spec().points[point])
    if (name == key) return value;
  return "";
}

double number_of(const std::string& option, const std::string& key, const std::string& text) {
  try {
    std::size_t used = 0;
    const double v = std::stod(text, &used);
    if (used == text.size()) return v;
  } catch (const std::exception&) {
    // Falls through to the message below.
  }
  throw InputError(fmt::format("{}: found the value '{}' of {}; allowed: a key with numbers", option, text, key));
}

/// Values of one metric: per series, by x.
using Curves = std::map<std::string, std::map<double, double>>;

class Plot {
 public:
  explicit Plot(const PlotOptions& o) : o_(o) {
    for (const auto& dir : o.dirs) stores_.push_back(SweepStore::open(dir, false));
    for (const auto& store : stores_) {
      check_key(store, "--x", o.x);
      if (!o.series.empty()) check_key(store, "--series", o.series);
    }
  }

  /// The metric from the first sweep of its mode that has it.
  Curves curves(const Metric& metric) {
    std::vector<std::string> known;
    for (const auto& store : stores_) {
      if (!metric.mode.empty() && store.spec().mode != metric.mode) continue;
      Curves found;
      for (std::size_t i = 0; i < store.size(); ++i) {
        const auto record = store.load(i);
        if (!record || !record->has_result()) continue;
        for (const auto& [name, value] : flat_metrics(record->summary)) {
          if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
          if (name != metric.name || !value.is_number()) continue;
          const std::string series = o_.series.empty() ? store.spec().bench : value_of(store, i, o_.series);
          if (std::find(series_.begin(), series_.end(), series) == series_.end()) series_.push_back(series);
          const std::string x = value_of(store, i, o_.x);
          const auto [at, first] = found[series].emplace(number_of("--x", o_.x, x), value.get<double>());
          if (!first && at->second != value.get<double>())
            throw InputError(fmt::format("--y: found several values of {} at {} {}; allowed: one for each value of --x and "
                                         "--series (swept: {})",
                                         name, o_.x, x, fmt::join(store.spec().keys, ", ")));
        }
      }
      if (!found.empty()) return found;
    }
    const std::string whole = (metric.mode.empty() ? "" : metric.mode + ":") + metric.name;
    throw InputError(fmt::format("--y: found '{}', which no finished point has; {}allowed: a metric that is a number",
                                 whole, did_you_mean(metric.name, known)));
  }

  /// In the order of the points.
  const std::vector<std::string>& series() const { return series_; }
  const std::string& bench() const { return stores_.front().spec().bench; }

 private:
  const PlotOptions& o_;
  std::vector<SweepStore> stores_;
  std::vector<std::string> series_;
};

void plot(PlotOptions& o) {
  Plot source(o);
  std::vector<Curves> all;
  for (const auto& text : o.metrics) all.push_back(source.curves(metric_of(text)));

  std::vector<ChartPanel> panels;
  for (std::size_t m = 0; m < all.size(); ++m) {
    const Metric metric = metric_of(o.metrics[m]);
    ChartPanel panel{metric.name + (metric.mode.empty() ? "" : " (" + metric.mode + ")"), o.x, metric.name, {}};
    for (const auto& name : source.series()) {
      const auto curve = all[m].find(name);
      if (curve != all[m].end()) panel.series.push_back({name, {curve->second.begin(), curve->second.end()}});
    }
    panels.push_back(std::move(panel));
  }
  if (o.out.empty()) o.out = o.dirs.front() + "/plot.svg";
  write_atomically(o.out, svg_chart(o.title.empty() ? source.bench() : o.title, panels));

  std::string files = "  " + o.out + "\n";
  if (!o.csv.empty()) {
    std::string csv = (o.series.empty() ? "" : o.series + ",") + o.x;
    for (const auto& metric : o.metrics) csv += "," + metric;
    csv += '\n';
    for (const auto& name : source.series()) {
      std::set<double> places;
      for (const auto& curves : all)
        if (const auto c = curves.find(name); c != curves.end())
          for (const auto& point : c->second) places.insert(point.first);
      for (const double x : places) {
        csv += (o.series.empty() ? "" : name + ",") +
               Json(x == std::floor(x) ? Json(static_cast<std::int64_t>(x)) : Json(x)).dump();
        for (const auto& curves : all) {
          const auto c = curves.find(name);
          const bool there = c != curves.end() && c->second.count(x) != 0;
          csv += "," + (there ? Json(c->second.at(x)).dump() : std::string());
        }
        csv += '\n';
      }
    }
    write_atomically(o.csv, csv);
    files = "  " + o.csv + "\n" + files;
  }
  fmt::print("files:\n{}", files);
}

}  // namespace

void add_plot(CLI::App& app, CliContext&) {
  auto* sub = app.add_subcommand("plot", "Draw metrics of finished sweeps over a swept key, as SVG");
  auto o = std::make_shared<PlotOptions>();
  sub->add_option("DIRS", o->dirs, "folders of sweeps that share the keys of --x and --series")->required();
  sub->add_option("--x", o->x, "swept key with numbers, such as bench.S_kv")->required();
  sub->add_option("--y", o->metrics,
                  "metric as results.csv names it, one picture each; MODE:METRIC takes it from a sweep of that mode")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  sub->add_option("--series", o->series, "swept key that has a curve for each of its values");
  sub->add_option("--out", o->out, "file to write (default: plot.svg in the first DIR)");
  sub->add_option("--csv", o->csv, "also writes what is drawn as a table");
  sub->add_option("--title", o->title, "title (default: the bench)");
  sub->footer(
      "Example: kernbench plot results --x bench.S_kv --y latency_ns --y dispatch.cycles_max_pe --series "
      "bench.variant");
  sub->callback([o] { plot(*o); });
}

}  // namespace kb::cli
