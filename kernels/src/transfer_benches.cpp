// Benches that only move data: reads by the PEs' DMA engines that meet each other or not, and host copies.
#include "benches.h"

#include <kb/tlm_if/errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace kb {

namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 20;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
constexpr std::size_t kHotLinks = 8;  // rows of the table of links

/// Who reads from whose slice.
struct Flow {
  std::uint32_t issuer = 0;  // rank
  std::uint32_t owner = 0;   // rank of the PE whose slice is read
};

std::vector<std::uint32_t> ranks(std::uint32_t count) {
  std::vector<std::uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

/// The flows of a pattern, in the order in which issuers join (spec 7.3). Throws InputError for more issuers than
/// the pattern has on this machine.
std::vector<Flow> flows_of(const std::string& pattern, std::int64_t issuers, const MachineInfo& m, std::uint64_t seed) {
  std::vector<Flow> all;
  const std::uint32_t pes = m.total_pes();
  if (pattern == "own") {
    for (const std::uint32_t rank : ranks(pes)) all.push_back({rank, rank});
  } else if (pattern == "hotspot") {
    for (std::uint32_t first = 0; first < pes; first += m.pes_per_cube) {
      for (std::uint32_t pe = 1; pe < m.pes_per_cube; ++pe) all.push_back({first + pe, 0});
      all.push_back({first, 0});
    }
  } else if (pattern == "cube_to_cube") {
    if (m.cubes_per_sip() < 2)
      throw InputError("bench dma-contention, parameter pattern: found cube_to_cube; allowed on this topology: own, "
                       "hotspot, random (a SIP has one cube)");
    for (std::uint32_t pe = 0; pe < std::min(m.pes_per_cube, 8u); ++pe)
      all.push_back({m.rank_of({0, 0, pe}), m.rank_of({0, 1, pe})});
  } else {
    std::mt19937_64 random(seed);
    // Fisher-Yates written out: std::shuffle differs between libraries.
    const auto shuffled = [&random, pes] {
      std::vector<std::uint32_t> order = ranks(pes);
      for (std::uint32_t i = pes; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
      return order;
    };
    const std::vector<std::uint32_t> sources = shuffled(), slices = shuffled();
    for (std::uint32_t i = 0; i < pes; ++i) all.push_back({sources[i], slices[i]});
  }
  if (issuers > static_cast<std::int64_t>(all.size()))
    throw InputError(fmt::format("bench dma-contention, parameter issuers: found {}; allowed: 1 .. {} with pattern {} on "
                                 "this topology",
                                 issuers, all.size(), pattern));
  all.resize(static_cast<std::size_t>(issuers));
  return all;
}

/// Share of [0, latency] that the link's bytes take at its bandwidth.
double use_of(const LinkStats& link, double latency_ns) {
  return latency_ns > 0 ? static_cast<double>(link.bytes) / link.bw_gbs / latency_ns : 0.0;
}

/// The busiest link and the table of those behind it.
void add_links(BenchResult& result, const std::vector<LinkStats>& links) {
  std::vector<const LinkStats*> used;
  for (const LinkStats& l : links)
    if (l.bytes > 0) used.push_back(&l);
  std::stable_sort(used.begin(), used.end(), [](const LinkStats* a, const LinkStats* b) {
    return static_cast<double>(a->bytes) / a->bw_gbs > static_cast<double>(b->bytes) / b->bw_gbs;
  });
  if (used.empty()) return;
  const LinkStats& hot = *used.front();
  result.extra.emplace_back("hot_link", hot.name);
  result.extra.emplace_back("hot_link_gbs", hot.bw_gbs);
  result.extra.emplace_back("hot_link_utilization", use_of(hot, result.latency_ns));
  ResultTable table{"hot_links", {"link", "gbs", "bytes", "utilization"}, {}};
  for (std::size_t i = 0; i < std::min(kHotLinks, used.size()); ++i)
    table.rows.push_back({used[i]->name, used[i]->bw_gbs, static_cast<std::int64_t>(used[i]->bytes),
                          use_of(*used[i], result.latency_ns)});
  result.tables.push_back(std::move(table));
  result.verdict = fmt::format("{} is busy for {:.1f} % of the makespan", hot.name, 100 * use_of(hot, result.latency_ns));
}

class DmaContentionBench : public Bench {
 public:
  std::string name() const override { return "dma-contention"; }

  std::string doc() const override {
    return "reads by the DMA engines of several PEs at once, without cpu, scheduler or dispatch\n"
           "own: every issuer its own slice; issuers are taken cube after cube, pe0 first\n"
           "hotspot: all from sip0.cube0.hbm0; cube after cube, in each pe1, pe2 .., then pe0\n"
           "cube_to_cube: pe i of cube 0 from slice i of cube 1\n"
           "random: distinct issuers and slices, drawn with --seed\n"
           "Every issuer reads `bytes` `count` times, one after the other, all from the same time on. Makespan and "
           "latency: first issue to last completion; an issuer's time: first issue of all to its own last completion.";
  }

  std::vector<ParamSpec> params() const override {
    return {word_param("pattern", "own", {"own", "hotspot", "cube_to_cube", "random"}, "who reads from whose slice"),
            int_param("issuers", 1, 1, kMaxCount, "PEs that read"),
            int_param("bytes", 16384, 1, kMaxBytes, "size of a message"),
            int_param("count", 1, 1, kMaxCount, "messages of each issuer, one after the other")};
  }

  BenchResult run(BenchContext& ctx) const override {
    const Params& p = ctx.params();
    const std::int64_t bytes = p.integer("bytes");
    const std::int64_t count = p.integer("count");
    const std::vector<Flow> flows = flows_of(p.word("pattern"), p.integer("issuers"), ctx.machine(), ctx.seed());

    // One buffer per slice: nothing caches, so reading it again costs what reading another would.
    std::vector<std::pair<std::uint32_t, Shape>> shards;
    std::vector<std::size_t> shard_of(ctx.machine().total_pes(), 0);
    std::vector<bool> used(ctx.machine().total_pes(), false);
    for (const Flow& f : flows) {
      if (used[f.owner]) continue;
      used[f.owner] = true;
      shard_of[f.owner] = shards.size();
      shards.emplace_back(f.owner, Shape{bytes});
    }
    const Tensor source = ctx.host().allocate("source", DType::i8, Space::hbm, shards);
    std::vector<Host::DirectTransfer> transfers;
    transfers.reserve(flows.size() * static_cast<std::size_t>(count));
    for (const Flow& f : flows)
      for (std::int64_t i = 0; i < count; ++i)
        transfers.push_back({f.issuer, false, source.shards[shard_of[f.owner]].addr, static_cast<std::uint64_t>(bytes)});

    ctx.progress("dma-contention");
    BenchResult result;
    result.launches.push_back({"transfers", ctx.host().run_transfers(transfers)});
    const LaunchResult& r = result.launches.back().result;
    ctx.host().free(source);

    result.latency_ns = ns_from_ps(r.latency());
    const double total = static_cast<double>(bytes) * static_cast<double>(count) * static_cast<double>(flows.size());
    result.extra.emplace_back("makespan_ns", result.latency_ns);
    result.extra.emplace_back("effective_gbs", result.latency_ns > 0 ? total / result.latency_ns : 0.0);
    double first = result.latency_ns, last = 0, sum = 0;
    for (const PeStats& pe : r.pes) {
      const double own = ns_from_ps(pe.done - r.start);
      first = std::min(first, own);
      last = std::max(last, own);
      sum += own;
    }
    result.extra.emplace_back("issuer_min_ns", first);
    result.extra.emplace_back("issuer_mean_ns", r.pes.empty() ? 0.0 : sum / static_cast<double>(r.pes.size()));
    result.extra.emplace_back("issuer_max_ns", last);
    add_links(result, r.links);
    return result;
  }
};

class HostCopyBench : public Bench {
 public:
  explicit HostCopyBench(bool to_device) : to_device_(to_device) {}

  std::string name() const override { return to_device_ ? "h2d" : "d2h"; }

  std::string doc() const override {
    return to_device_ ? "one copy from the host to sip0.cube0.hbm0\n"
                        "latency: message at the host port to its write response there; no processor takes part"
                      : "one copy from sip0.cube0.hbm0 to the host\n"
                        "latency: request at the host port to the last byte there; no processor takes part";
  }

  std::vector<ParamSpec> params() const override {
    return {int_param("bytes", 65536, 1, kMaxBytes, "size of the copy")};
  }

  BenchResult run(BenchContext& ctx) const override {
    const std::int64_t bytes = ctx.params().integer("bytes");
    const Tensor buffer = ctx.host().allocate("buffer", DType::i8, Space::hbm, {{0, Shape{bytes}}});
    ctx.progress(name());
    BenchResult result;
    result.latency_ns =
        ns_from_ps(ctx.host().host_copy(to_device_, buffer.shards.front().addr, static_cast<std::uint64_t>(bytes)));
    ctx.host().free(buffer);
    const double gbs = result.latency_ns > 0 ? static_cast<double>(bytes) / result.latency_ns : 0.0;
    result.extra.emplace_back("effective_gbs", gbs);
    result.verdict = fmt::format("{} bytes at {:.1f} GB/s; kernbench probe shows where the time goes", bytes, gbs);
    return result;
  }

 private:
  bool to_device_;
};

}  // namespace

std::unique_ptr<Bench> make_dma_contention_bench() {
  return std::make_unique<DmaContentionBench>();
}
std::unique_ptr<Bench> make_h2d_bench() {
  return std::make_unique<HostCopyBench>(true);
}
std::unique_ptr<Bench> make_d2h_bench() {
  return std::make_unique<HostCopyBench>(false);
}

}  // namespace kb
