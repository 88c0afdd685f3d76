#include "benches.h"

#include <kb/kernels/collectives/queue_set.h>
#include <kb/kernels/launch.h>
#include <kb/tlm_if/errors.h>

#include <fmt/format.h>
#include <algorithm>
#include <map>

namespace kb {

namespace {

const std::vector<std::int64_t> kSizes{128, 256, 512, 1024, 2048, 4096, 6144, 8192, 10240};

/// One PE sends `bytes` of its TCM to a neighbour, or writes bytes of its HBM slice into the neighbour's.
struct Pe2peArgs {
  std::uint32_t from = 0, to = 0;  // ranks
  Direction direction = Direction::intra_E, arrives_as = Direction::intra_W;
  enum class How : std::uint8_t { ipcq, ipcq_no_consume, raw } how = How::ipcq;
  Tensor source;       // [bytes] i8 at `from`: TCM, raw: HBM
  Tensor destination;  // [bytes] i8 at `to`: TCM, raw: HBM
};
const std::vector<std::string> kModes{"ipcq", "ipcq_no_consume", "raw"};

void pe2pe(tl::Context& tl, const Pe2peArgs& args) {
  const bool sender = tl.rank() == args.from;
  const Tensor& own = sender ? args.source : args.destination;
  const Shape shape = own.shards.front().shape;
  if (args.how == Pe2peArgs::How::raw) {
    if (!sender) return;
    tl.store(args.destination.shards.front().addr, tl.load(tl.shard_of(own).addr, shape, own.dtype));
    return;
  }
  const tl::Handle h = tl.resident(tl.shard_of(own).addr, shape, own.dtype);
  if (sender)
    tl.send(args.direction, h, h.bytes() > tl.machine().ipcq_slot_bytes);
  else if (args.how == Pe2peArgs::How::ipcq)
    tl.recv(args.arrives_as, shape, own.dtype, tl::into(h));
  else
    tl.recv_no_consume(args.arrives_as, shape, own.dtype, tl::into(h));
}

struct Hop {
  std::string name;
  std::uint32_t from = 0, to = 0;  // ranks
};

class Pe2peBench : public Bench {
 public:
  std::string name() const override { return "pe2pe"; }

  std::string doc() const override {
    return "latency of one message between two PEs, from the common start to the last of them done\n"
           "h1: pe0 to pe1, h2: pe0 to the PE below it, both in cube 0\n"
           "h3: pe0 of cube 0 to pe0 of cube 1, h4: to pe0 of the cube below\n"
           "ipcq: send and recv, TCM to TCM; ipcq_no_consume: the slot read is not charged\n"
           "raw: load from the own HBM slice and store into the peer's\n"
           "all: every hop that the machine has, 128 B to 10 KiB, every mode; the run's latency is the sum";
  }

  std::vector<ParamSpec> params() const override {
    std::vector<std::string> modes = kModes;
    modes.emplace_back("all");
    return {word_param("hop", "h1", {"h1", "h2", "h3", "h4", "all"}, "which pair of PEs"),
            int_or_word_param("bytes", "4096", 1, std::int64_t{1} << 30, {"all"},
                              "size of the message; all: 128 B .. 10 KiB"),
            word_param("mode", "ipcq", modes, "how the message travels")};
  }

  BenchResult run(BenchContext& ctx) const override {
    const Params& p = ctx.params();
    const std::vector<Hop> hops = hops_of(p.word("hop"), ctx.machine());
    const std::vector<std::int64_t> sizes =
        p.word_instead("bytes") ? kSizes : std::vector<std::int64_t>{p.integer("bytes")};
    std::vector<std::string> modes = kModes;
    if (p.word("mode") != "all") modes = {p.word("mode")};

    BenchResult result;
    ResultTable table{"pe2pe", {"hop", "from", "to", "mode", "bytes", "latency_ns", "gbs"}, {}};
    std::map<std::pair<std::string, std::int64_t>, std::map<std::string, double>> latency;  // by hop and size
    double longest = 0;
    const std::size_t points = hops.size() * sizes.size() * modes.size();
    for (const Hop& hop : hops)
      for (const std::int64_t bytes : sizes)
        for (const std::string& mode : modes) {
          ctx.progress("pe2pe", static_cast<double>(table.rows.size()) / static_cast<double>(points));
          const double ns = measure(ctx, hop, bytes, mode, result);
          latency[{hop.name, bytes}][mode] = ns;
          result.latency_ns += ns;
          longest = std::max(longest, ns);
          table.rows.push_back({hop.name, collectives::short_name(ctx.machine(), hop.from),
                                collectives::short_name(ctx.machine(), hop.to), mode, bytes, ns,
                                ns > 0 ? static_cast<double>(bytes) / ns : 0.0});
        }
    result.tables.push_back(std::move(table));
    if (modes.size() == kModes.size()) result.tables.push_back(comparison(hops, sizes, latency));
    const LaunchResult& last = result.launches.back().result;
    result.verdict = points == 1 ? bound_sentence(last)
                                 : fmt::format("{} messages; the longest took {:.3f} ns", points, longest);
    return result;
  }

 private:
  static std::vector<Hop> hops_of(const std::string& word, const MachineInfo& m) {
    std::vector<Hop> hops;
    if (m.pes_per_cube > 1 && m.pe_cols > 1) hops.push_back({"h1", 0, 1});
    if (m.pes_per_cube > m.pe_cols) hops.push_back({"h2", 0, m.pe_cols});
    if (m.cube_cols > 1) hops.push_back({"h3", 0, m.rank_of({0, 1, 0})});
    if (m.cube_rows > 1) hops.push_back({"h4", 0, m.rank_of({0, m.cube_cols, 0})});
    std::string names;
    for (const Hop& h : hops) names += (names.empty() ? "" : ", ") + h.name;
    if (word != "all")
      hops.erase(std::remove_if(hops.begin(), hops.end(), [&word](const Hop& h) { return h.name != word; }),
                 hops.end());
    if (hops.empty())
      throw InputError("bench pe2pe, parameter hop: found " + word +
                       "; allowed on this topology: " + (names.empty() ? "none, it has no neighbours" : names));
    return hops;
  }

  static double measure(BenchContext& ctx, const Hop& hop, std::int64_t bytes, const std::string& mode,
                        BenchResult& result) {
    Pe2peArgs args;
    args.how = static_cast<Pe2peArgs::How>(std::find(kModes.begin(), kModes.end(), mode) - kModes.begin());
    args.from = hop.from;
    args.to = hop.to;
    collectives::QueueSet queues(ctx.machine());
    const QueueRoute route = queues.connect(hop.from, hop.to);
    args.direction = route.direction;
    args.arrives_as = route.arrives_as;
    const bool raw = args.how == Pe2peArgs::How::raw;
    if (raw && static_cast<std::uint64_t>(bytes) > ctx.machine().scratch_bytes)
      throw InputError(
          fmt::format("bench pe2pe, parameter bytes: found {}; allowed with mode raw: up to pe.tcm.scratch_bytes = {}",
                      bytes, ctx.machine().scratch_bytes));
    const Space space = raw ? Space::hbm : Space::tcm;
    args.source = ctx.host().allocate("source", DType::i8, space, {{hop.from, Shape{bytes}}});
    args.destination = ctx.host().allocate("destination", DType::i8, space, {{hop.to, Shape{bytes}}});

    std::vector<std::uint8_t> sent(static_cast<std::size_t>(bytes)), got(sent.size(), 0);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint8_t>((ctx.seed() + i) * 37 + i / 251);
    if (ctx.with_data()) ctx.host().write(args.source, 0, sent.data(), sent.size());
    LaunchOptions options;
    options.pes = {std::min(hop.from, hop.to), std::max(hop.from, hop.to)};
    if (!raw) options.queues = queues.routes();
    result.launches.push_back({fmt::format("{}.{}.{}", hop.name, mode, bytes),
                               ctx.host().launch(tl::bind_kernel("pe2pe", pe2pe, args), options)});
    if (ctx.with_data()) {
      ctx.host().read(args.destination, 0, got.data(), got.size());
      check(sent, got, result.numerics);
    }
    ctx.host().free(args.source);
    ctx.host().free(args.destination);
    return ns_from_ps(result.launches.back().result.latency());
  }

  /// Byte for byte.
  static void check(const std::vector<std::uint8_t>& sent, const std::vector<std::uint8_t>& got, Numerics& numerics) {
    numerics.checked = true;
    numerics.elements += sent.size();
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const double error = std::abs(static_cast<double>(sent[i]) - static_cast<double>(got[i]));
      numerics.max_abs_err = std::max(numerics.max_abs_err, error);
    }
    numerics.pass = numerics.max_abs_err == 0;
    numerics.rel_rmse = numerics.pass ? 0.0 : 1.0;
  }

  /// One line per hop and size; the slot read is what ipcq takes longer than ipcq_no_consume.
  static ResultTable comparison(
      const std::vector<Hop>& hops, const std::vector<std::int64_t>& sizes,
      std::map<std::pair<std::string, std::int64_t>, std::map<std::string, double>>& latency) {
    ResultTable table{"pe2pe_modes", {"hop", "bytes", "ipcq_ns", "ipcq_no_consume_ns", "slot_read_ns", "raw_ns"}, {}};
    for (const Hop& hop : hops)
      for (const std::int64_t bytes : sizes) {
        auto& ns = latency[{hop.name, bytes}];
        table.rows.push_back(
            {hop.name, bytes, ns["ipcq"], ns["ipcq_no_consume"], ns["ipcq"] - ns["ipcq_no_consume"], ns["raw"]});
      }
    return table;
  }
};

}  // namespace

std::unique_ptr<Bench> make_pe2pe_bench() {
  return std::make_unique<Pe2peBench>();
}

}  // namespace kb
