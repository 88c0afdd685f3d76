#include "report_timeline.h"

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/run_stats.h>
#include <kb/tlm_if/text.h>
#include <kb/traces/op_log_reader.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

namespace kb::cli {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kDefaultPes = 4;
constexpr std::size_t kBlocks = 60000;  // in one page, over all rows

/// "tray.sip0.cube0.pe3.gemm" -> {"sip0.cube0.pe3", "gemm"}; empty names for what is no part of a PE.
std::pair<std::string, std::string> split_engine(const std::string& component) {
  const auto dot = component.rfind('.');
  if (dot == std::string::npos) return {};
  std::string pe = component.substr(0, dot);
  const auto last = pe.rfind(".pe");
  if (last == std::string::npos || last + 3 == pe.size()) return {};
  if (!std::all_of(pe.begin() + static_cast<std::ptrdiff_t>(last) + 3, pe.end(),
                   [](unsigned char c) { return std::isdigit(c) != 0; }))
    return {};
  if (pe.rfind("tray.", 0) == 0) pe.erase(0, 5);
  return {pe, component.substr(dot + 1)};
}

/// Records that are an engine's work; a command's whole life would cover everything else.
bool shown(const OpRecord& r) {
  return r.name != OpName::command_done && r.name != OpName::launch && r.name != OpName::launch_done;
}

struct Block {
  Ps start = 0, end = 0;
  OpName name = OpName::command;
  std::int64_t command = -1;
  std::int32_t m = -1, n = -1, k = -1;
  std::uint64_t count = 1;
};

/// One engine's operations. When there are too many, those that lie closer than a growing gap become one.
class Row {
 public:
  void add(const Block& b, std::size_t limit) {
    if (gap_ > 0 && !blocks_.empty() && b.start - blocks_.back().end <= gap_) {
      join(blocks_.back(), b);
      return;
    }
    blocks_.push_back(b);
    while (blocks_.size() > limit) coarsen();
  }
  const std::vector<Block>& blocks() const { return blocks_; }
  bool merged() const { return gap_ > 0; }

 private:
  static void join(Block& to, const Block& b) {
    to.start = std::min(to.start, b.start);
    to.end = std::max(to.end, b.end);
    to.count += b.count;
  }
  void coarsen() {
    if (gap_ == 0)
      gap_ = std::max<Ps>(1, (blocks_.back().end - blocks_.front().start) / static_cast<Ps>(64 * blocks_.size()));
    gap_ *= 2;
    std::vector<Block> fewer;
    for (const auto& b : blocks_) {
      if (!fewer.empty() && b.start - fewer.back().end <= gap_)
        join(fewer.back(), b);
      else
        fewer.push_back(b);
    }
    blocks_ = std::move(fewer);
  }

  std::vector<Block> blocks_;
  Ps gap_ = 0;
};

struct Survey {
  std::vector<std::string> pes;  // in topology order
  std::vector<std::string> rows;
  std::string last;  // the PE that finished last
  Ps end = 0;
};

Survey survey(const std::string& path) {
  OpLogReader reader(path);
  OpRecord r;
  std::map<std::uint32_t, std::string> seen;  // component index -> PE
  Survey s;
  while (reader.next(r)) {
    if (!shown(r)) continue;
    auto at = seen.find(r.component);
    if (at == seen.end())
      at = seen.emplace(r.component, split_engine(reader.components().name(r.component)).first).first;
    if (at->second.empty()) continue;
    if (r.t_end > s.end) {
      s.end = r.t_end;
      s.last = at->second;
    }
  }
  for (const auto& [index, pe] : seen)
    if (!pe.empty() && std::find(s.pes.begin(), s.pes.end(), pe) == s.pes.end()) s.pes.push_back(pe);
  return s;
}

}  // namespace

Json timeline_of(const std::string& op_log, std::vector<std::string> pes) {
  const Survey all = survey(op_log);
  if (all.pes.empty()) return nullptr;
  for (auto& pe : pes) {
    if (pe.rfind("tray.", 0) == 0) pe.erase(0, 5);
    if (std::find(all.pes.begin(), all.pes.end(), pe) == all.pes.end())
      throw InputError("--pe: found '" + pe + "'; " + did_you_mean(pe, all.pes) +
                       "allowed: PEs that have records in the op log");
  }
  if (pes.empty()) {
    for (std::size_t i = 0; i < std::min(kDefaultPes, all.pes.size()); ++i) pes.push_back(all.pes[i]);
    if (std::find(pes.begin(), pes.end(), all.last) == pes.end()) pes.back() = all.last;
  }

  OpLogReader reader(op_log);
  OpRecord r;
  std::map<std::uint32_t, Row> rows;
  std::unordered_map<std::uint32_t, std::int64_t> place;  // component -> PE's place in `pes`, or -1
  const std::size_t limit = std::max<std::size_t>(200, kBlocks / (pes.size() * kEngineKinds));
  while (reader.next(r)) {
    if (!shown(r)) continue;
    auto at = place.find(r.component);
    if (at == place.end()) {
      const std::string pe = split_engine(reader.components().name(r.component)).first;
      const auto found = std::find(pes.begin(), pes.end(), pe);
      at = place.emplace(r.component, found == pes.end() ? -1 : found - pes.begin()).first;
    }
    if (at->second < 0) continue;
    Block b;
    b.start = r.t_start;
    b.end = r.t_end;
    b.name = r.name;
    if (r.command) b.command = static_cast<std::int64_t>(r.command->id);
    b.m = r.tile_m;
    b.n = r.tile_n;
    b.k = r.tile_k;
    rows[r.component].add(b, limit);
  }

  std::vector<std::string> names;
  const auto name_index = [&](OpName name) {
    const std::string text = name_of(name);
    const auto at = std::find(names.begin(), names.end(), text);
    if (at != names.end()) return at - names.begin();
    names.push_back(text);
    return static_cast<std::ptrdiff_t>(names.size()) - 1;
  };
  Json list = Json::array();
  bool merged = false;
  for (std::size_t p = 0; p < pes.size(); ++p) {
    Json engines = Json::array();
    for (const auto& [component, row] : rows) {
      if (place[component] != static_cast<std::int64_t>(p)) continue;
      merged = merged || row.merged();
      Json ops = Json::array();
      for (const auto& b : row.blocks()) {
        Json op{b.start, b.end - b.start, name_index(b.name), b.command};
        const bool tile = b.m >= 0 || b.n >= 0 || b.k >= 0;
        if (tile || b.count > 1) op.push_back(tile ? Json{b.m, b.n, b.k} : Json());
        if (b.count > 1) op.push_back(b.count);
        ops.push_back(std::move(op));
      }
      engines.push_back(
          {{"engine", split_engine(reader.components().name(component)).second}, {"ops", std::move(ops)}});
    }
    list.push_back({{"name", pes[p]}, {"rows", std::move(engines)}});
  }
  return {{"pes", std::move(list)}, {"names", names}, {"end_ns", ns_from_ps(all.end)}, {"merged", merged}};
}

}  // namespace kb::cli
