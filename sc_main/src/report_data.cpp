#include "report_data.h"

#include "critical_path.h"
#include "files.h"
#include "report_map.h"
#include "report_timeline.h"

#include <kb/platform/config.h>
#include <kb/platform/machine.h>
#include <kb/traces/metrics.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace kb::cli {

using Json = nlohmann::ordered_json;

namespace {

Json metrics_json() {
  Json list = Json::array();
  for (const auto& m : metric_definitions()) list.push_back({{"name", m.name}, {"unit", m.unit}, {"text", m.text}});
  return list;
}

/// Scalars of an object as one text: "M 512, K 512".
std::string joined_items(const Json& object) {
  std::string text;
  if (!object.is_object()) return text;
  for (const auto& [key, value] : object.items())
    text += (text.empty() ? "" : ", ") + key + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

double number(const Json& object, std::initializer_list<const char*> path) {
  const Json* at = &object;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return 0;
    at = &(*at)[key];
  }
  return at->is_number() ? at->get<double>() : 0;
}

/// PEs of the run: the engines' accounts close over the kernel time of each.
double pes_of(const Json& summary) {
  const auto accounts = engine_accounts(summary);
  const double latency = latency_of(summary);
  return accounts.empty() || latency <= 0 ? 0 : std::max(1.0, std::round(accounts.front().total() / latency));
}

Json roofline_of(const Json& summary, const SystemConfig& config) {
  const double latency = latency_of(summary), useful = number(summary, {"engines", "gemm", "macs_useful"}),
               padded = number(summary, {"engines", "gemm", "macs_padded"}), pes = pes_of(summary);
  const double bytes = number(summary, {"dma", "read_bytes"}) + number(summary, {"dma", "write_bytes"});
  if (latency <= 0 || useful <= 0 || bytes <= 0 || pes <= 0) return nullptr;
  const auto& mac = config.pe.gemm.mac_shape;
  const std::string dtype = summary.contains("params") ? summary["params"].value("dtype", "f16") : "f16";
  const double steps = dtype == "f32" ? 0.5 : 1.0;  // MAC-array steps per cycle (spec 2.1)
  const double peak = 2.0 * mac[0] * mac[1] * mac[2] * steps * config.pe.clock_ghz * pes;
  const auto& hbm = config.cube.hbm;
  const double memory =
      std::min({hbm.pseudo_channels * hbm.pc_bw_gbs, hbm.link_bw_gbs, config.cube.noc.pe_dma_bw_gbs}) * pes;
  return {{"pes", pes},
          {"peak_gflops", peak},
          {"padded_gflops", padded > 0 ? peak * useful / padded : peak},
          {"memory_gbs", memory},
          {"gflops", 2 * useful / latency},
          {"intensity", 2 * useful / bytes}};
}

/// The chain of operations that decided when the run ended: [what, kind of command, ns, steps], largest first. What a
/// bench counts in its latency beside its launches closes it.
Json path_of(const std::string& op_log, double latency_ns) {
  const CriticalPath path = critical_path(op_log);
  if (path.too_long) return "the op log has too many operations";
  if (path.steps.empty()) return "the op log has no operation of a PE";
  auto parts = parts_of(path);
  std::stable_sort(parts.begin(), parts.end(), [](const PathPart& a, const PathPart& b) { return a.time > b.time; });
  Json list = Json::array();
  Ps rest = std::llround(latency_ns * 1000);
  std::size_t steps = 0;
  for (const auto& p : parts) {
    list.push_back(Json::array({p.what, p.command_kind, ns_from_ps(p.time), p.steps}));
    rest -= p.time;
    steps += p.steps;
  }
  if (rest != 0) list.push_back(Json::array({"outside the launches", "", ns_from_ps(rest), 0}));
  return {{"parts", list}, {"steps", steps}, {"latency_ns", latency_ns}};
}

/// The largest operations of the critical path, in a sentence.
std::string path_sentence(const Json& path) {
  std::vector<std::pair<std::string, double>> sums;
  for (const auto& p : path["parts"]) {
    const std::string what = p[0];
    auto at = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == what; });
    if (at == sums.end()) at = sums.insert(sums.end(), {what, 0.0});
    at->second += p[2].get<double>();
  }
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "Its critical path is";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, sums.size()); ++i)
    text += fmt::format("{} {} {:.1f} %", i == 0 ? "" : ",", sums[i].first,
                        100 * sums[i].second / path["latency_ns"].get<double>());
  return text + ".";
}

}  // namespace

std::string limiting_sentence(const Json& summary) {
  const double latency = latency_of(summary);
  const std::string status = summary.value("status", "done");
  if (status != "done")
    return fmt::format("The run {}: {}", status == "failed" ? "failed" : "was interrupted",
                       summary.value("message", "no reason given"));
  if (latency <= 0) return "No time was simulated: commands were counted only.";
  std::string text = fmt::format("It took {} ns", grouped(latency));
  if (const double pes = pes_of(summary); pes > 0) text += fmt::format(" on {:.0f} PE{}", pes, pes > 1 ? "s" : "");
  const Json bounds = summary.value("bounds", Json::object());
  const std::string by = bounds.value("bound_by", "");
  const double bound = by.empty() || by == "nothing" ? 0 : number(bounds, {(by + "_ns").c_str()});
  if (bound <= 0) return text + ".";
  static const std::vector<std::pair<std::string, std::string>> kMeaning{
      {"compute", "the arithmetic"},
      {"memory", "moving the bytes to and from memory"},
      {"tcm", "the traffic of the TCM"},
      {"dispatch", "issuing the commands"}};
  std::string meaning = by;
  for (const auto& [key, words] : kMeaning)
    if (key == by) meaning = words;
  text += fmt::format(". Limited by {}: {} alone needs {} ns, {:.1f} % of the latency", by, meaning, grouped(bound),
                      100 * bound / latency);

  // The engine that worked most says what the rest of the time was.
  const auto accounts = engine_accounts(summary);
  const auto busiest =
      std::max_element(accounts.begin(), accounts.end(), [](const EngineAccount& a, const EngineAccount& b) {
        return a.part("busy") / a.total() < b.part("busy") / b.total();
      });
  if (busiest == accounts.end() || busiest->part("busy") <= 0) return text + ".";
  text += fmt::format(". The busiest engine, {}, worked {:.1f} % of the time", busiest->engine,
                      100 * busiest->part("busy") / busiest->total());
  std::pair<std::string, double> worst{"", 0};
  for (const auto& p : busiest->parts)
    if (p.first != "busy" && p.second > worst.second) worst = p;
  if (worst.second > 0)
    text +=
        worst.first == "idle"
            ? fmt::format(" and had nothing to do for {:.1f} %", 100 * worst.second / busiest->total())
            : fmt::format(" and waited longest for {} ({:.1f} %)", worst.first, 100 * worst.second / busiest->total());
  return text + ".";
}

Json run_report(const RunFiles& run, const std::vector<std::string>& pes) {
  Json notes = Json::array();
  Json page{{"kind", "run"}};
  const Json summary = run.summary.is_object() ? run.summary : Json::object();
  page["title"] = summary.contains("bench")
                      ? fmt::format("{} on {}", summary.value("bench", ""), summary.value("topology", "?"))
                      : fmt::format("op log {}", std::filesystem::path(run.op_log).filename().string());
  page["sentence"] = summary.empty() ? "There is no summary of this run." : limiting_sentence(summary);
  Json setup = Json::array();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) setup.push_back({name, value});
  };
  add("bench", summary.value("bench", ""));
  add("parameters", joined_items(summary.value("params", Json())));
  add("topology", summary.value("topology", ""));
  add("mode", summary.value("mode", ""));
  if (summary.contains("seed")) add("seed", summary["seed"].dump());
  add("status", summary.value("status", ""));
  add("kernbench", summary.value("version", ""));
  page["setup"] = setup;
  page["summary"] = summary;
  page["metrics"] = metrics_json();

  Json accounts = Json::array();
  for (const auto& a : engine_accounts(summary)) {
    if (a.part("busy") == 0 && a.parts.size() == 2) continue;  // an engine that was never used
    Json parts = Json::array();
    for (const auto& [name, ns] : a.parts) parts.push_back({name, ns});
    accounts.push_back({{"engine", a.engine}, {"total", a.total()}, {"parts", parts}});
  }
  page["accounts"] = accounts;

  const double latency = latency_of(summary);
  page["path"] = nullptr;
  if (!run.op_log.empty() && latency > 0) {
    const Json path = path_of(run.op_log, latency);
    if (path.is_string()) {
      notes.push_back("No critical path: " + path.get<std::string>() + ".");
    } else {
      page["path"] = path;
      if (summary.value("status", "done") == "done")
        page["sentence"] = page["sentence"].get<std::string>() + " " + path_sentence(path);
    }
  }

  page["timeline"] = run.op_log.empty() ? Json() : timeline_of(run.op_log, pes);
  if (run.op_log.empty()) notes.push_back("No timeline: the run wrote no op log (--log off, or --mode emit).");

  page["roofline"] = nullptr;
  page["map"] = nullptr;
  if (run.config.empty()) {
    notes.push_back("No roofline and no map: the folder has no config.yaml that describes the machine.");
  } else {
    const SystemConfig config = load_config(run.config);
    page["roofline"] = roofline_of(summary, config);
    if (page["roofline"].is_null()) notes.push_back("No roofline: the run had no GEMM, or moved no bytes by DMA.");
    if (run.links.empty())
      notes.push_back("No map: the folder has no links.csv (a run without simulation writes none).");
    else
      page["map"] = map_of(config, read_file(run.links), latency_of(summary));
  }
  page["notes"] = notes;
  return page;
}

Json sweep_report(const SweepStore& store) {
  const SweepSpec& spec = store.spec();
  std::size_t done = 0, recorded = 0;
  Json points = Json::array();
  std::pair<double, std::size_t> fastest{0, 0};
  for (std::size_t i = 0; i < store.size(); ++i) {
    const auto r = store.load(i);
    Json settings = Json::object();
    for (const auto& [key, value] : spec.points[i]) {
      const Json parsed = Json::parse(value, nullptr, false);
      settings[key] = parsed.is_number() ? parsed : Json(value);
    }
    Json point{
        {"index", i}, {"status", r ? r->status() : "missing"}, {"settings", settings}, {"error", r ? r->error : ""}};
    if (r) ++recorded;
    if (r && r->has_result()) {
      const Json& s = r->summary;
      Json kept;
      for (const char* key : {"latency_ns", "bounds", "dma", "dispatch"})
        if (s.contains(key)) kept[key] = s[key];
      for (const char* key : {"macs_useful", "macs_padded", "utilization"})
        kept["engines"]["gemm"][key] = number(s, {"engines", "gemm", key});
      point["summary"] = kept;
      const double latency = latency_of(s);
      if (r->code == 0 && (done == 0 || latency < fastest.first)) fastest = {latency, i};
      done += r->code == 0;
    }
    points.push_back(std::move(point));
  }
  std::string keys, best;
  for (const auto& k : spec.keys) keys += (keys.empty() ? "" : ", ") + k;
  for (const auto& [key, value] : done > 0 ? spec.points[fastest.second] : SweepPoint{})
    best += (best.empty() ? "" : ", ") + key + " " + value;
  Json fixed;
  for (const auto& [key, value] : spec.fixed) fixed[key] = value;
  std::string sentence = fmt::format("{} points over {}: {} done", store.size(), keys, done);
  if (recorded > done) sentence += fmt::format(", {} failed", recorded - done);
  if (recorded < store.size()) sentence += fmt::format(", {} not run yet", store.size() - recorded);
  if (done > 0 && fastest.first > 0)
    sentence += fmt::format(". The shortest latency is {} ns, at {}", grouped(fastest.first), best);
  return {
      {"kind", "sweep"},
      {"title", fmt::format("Sweep of {} on {}", spec.bench, std::filesystem::path(spec.topology).filename().string())},
      {"sentence", sentence + "."},
      // Pairs of texts would be taken for an object.
      {"setup", Json::array({Json::array({"bench", spec.bench}), Json::array({"mode", spec.mode}),
                             Json::array({"seed", std::to_string(spec.seed)}),
                             Json::array({"the same for all", joined_items(fixed)}), Json::array({"swept", keys})})},
      {"metrics", metrics_json()},
      {"notes", Json::array()},
      {"sweep", {{"keys", spec.keys}, {"points", points}}}};
}

}  // namespace kb::cli
