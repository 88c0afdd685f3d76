// GQA attention through the whole machine: what its time consists of, rings, laws, and what it refuses.
#include "session.h"

#include <kb/traces/op_log_reader.h>

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <cmath>

using namespace kb;
using namespace kb::test;

namespace {

const std::vector<std::string> kVariants{"primitive", "opt2", "hybrid", "composite", "composite_extended"};
const std::vector<std::string> kPrefillVariants{"primitive", "opt2", "hybrid"};

RunOutcome timed(const std::string& machine, const std::string& bench, const Settings& params,
                 const std::vector<Override>& overrides = {}) {
  RunSpec s = spec(machine, bench, params);
  s.overrides = overrides;
  return run(s);
}

template <typename T>
T extra(const RunOutcome& r, const std::string& name) {
  for (const auto& [key, value] : r.result.extra)
    if (key == name) return std::get<T>(value);
  BOOST_FAIL("no " << name);
  return {};
}

/// Bandwidth, in GB/s, of every composite that reads tiles from memory: its bytes over the time from its first read's
/// issue to its last read's end.
std::vector<double> stream_rates(const std::string& log) {
  struct Stream {
    Ps first = 0, last = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::pair<std::uint32_t, CommandId>, Stream> streams;
  OpLogReader reader(log);
  OpRecord r;
  while (reader.next(r)) {
    if (r.name != OpName::dma_read || r.command->kind != CommandKind::composite) continue;
    Stream& s = streams.try_emplace({r.pe, r.command->id}, Stream{r.t_start, r.t_end, 0}).first->second;
    s.first = std::min(s.first, r.t_start);
    s.last = std::max(s.last, r.t_end);
    s.bytes += r.bytes;
  }
  std::vector<double> rates;
  for (const auto& [command, s] : streams) rates.push_back(static_cast<double>(s.bytes) / ns_from_ps(s.last - s.first));
  return rates;
}

RunOutcome long_decode(const std::string& s_kv, const std::string& outstanding, const std::string& out) {
  RunSpec s = spec("eight_cubes", "gqa-decode-long",
                   {{"C", "8"}, {"P", "8"}, {"S_kv", s_kv}, {"variant", "composite_extended"}});
  s.overrides = {{"pe.dma.outstanding", outstanding}};
  s.out = out;
  return run(s);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

// K and V tiles are 64 x 32 f16, 4 KiB: 16 flits of 256 B, two on each of the slice's 8 channels. A lone read takes
// 2 ns (issue) + 8 (the first flits in their channels) + 16 (16 flits at 256 GB/s) + 1 (the last one on the PE's
// link) = 27 ns, and with one outstanding the next is issued then: 4096 B / 27 ns = 151.7 GB/s, 59.3 % of 256. In a
// window of n reads nothing else is lost but where the tile loop waits for its operands, so 58 % +- 3 must hold for
// each composite.
BOOST_AUTO_TEST_CASE(one_outstanding_read_streams_at_58_percent_of_a_slice) {
  const TempDir dir;
  const RunOutcome r = long_decode("32768", "1", dir / "run");
  const std::vector<double> rates = stream_rates(dir / "run/op_log.jsonl");
  BOOST_TEST(rates.size() == 128u);  // two composites on each PE
  for (const double rate : rates) BOOST_TEST(std::abs(rate / 256 - 0.58) <= 0.03, rate << " GB/s");
  // The run's own figure is their mean.
  BOOST_TEST(std::abs(extra<double>(r, "stream_share_of_slice") - 0.58) <= 0.03);
  BOOST_TEST(r.result.verdict.find("limited by K/V DMA") == 0u, r.result.verdict);
}

// With four outstanding, 27 ns of latency hide behind 3 x 16 ns of other reads: the channels never rest. A window of n
// reads takes 16 n + 11 ns, 97.9 % of the slice for the 32 reads of 512 tokens.
BOOST_AUTO_TEST_CASE(four_outstanding_reads_stream_at_the_slices_bandwidth) {
  const TempDir dir;
  const RunOutcome r = long_decode("32768", "4", dir / "run");
  for (const double rate : stream_rates(dir / "run/op_log.jsonl")) {
    BOOST_TEST(rate / 256 >= 0.95);
    BOOST_TEST(rate <= 256);
  }
  BOOST_TEST(extra<double>(r, "stream_share_of_slice") >= 0.95);
}

// Every variant says what limits it.
BOOST_AUTO_TEST_CASE(every_variant_says_what_limits_it) {
  for (const auto& variant : kVariants) {
    const RunOutcome r = timed("one_cube", "gqa-decode-long", {{"P", "8"}, {"S_kv", "8192"}, {"variant", variant}});
    BOOST_TEST_MESSAGE(variant << ": " << r.result.verdict);
    BOOST_TEST(r.result.verdict.find("limited by ") == 0u, variant << ": " << r.result.verdict);
    BOOST_TEST(r.table.find(r.result.verdict) != std::string::npos);
  }
}

// K and V bytes do not depend on the group's size, useful MACs grow with it. Short: each of the four query blocks reads
// the tiles it sees, 15 of 64 keys by the first, which ends at position 951, and all of the 1000 keys by the others.
// Long: every key is loaded once, by its rank, and sent once to the other.
BOOST_AUTO_TEST_CASE(prefill_reads_what_it_sees_once_for_the_whole_group) {
  constexpr std::uint64_t d = 128, heads = 2, queries = 64, keys = 1000, bytes_of_key = 2 * d * 2;
  constexpr std::uint64_t seen = 15 * 64 + 3 * keys;
  const auto sums = [](const char* bench, const Settings& more, std::uint64_t g, const std::string& variant) {
    Settings params{{"H_kv", "2"},        {"S_kv", "1000"}, {"T_q", "64"}, {"G", std::to_string(g)},
                    {"variant", variant}, {"C", "1"}};
    for (const auto& [key, value] : more) params[key] = value;
    const RunOutcome r = timed("eight_cubes", bench, params);
    PeStats all;
    for (const PeStats& pe : launch_of(r).pes) {
      all.dma_read_bytes += pe.dma_read_bytes;
      all.ipcq_bytes += pe.ipcq_bytes;
      all.macs_useful += pe.macs_useful;
    }
    return all;
  };
  for (const auto& variant : kPrefillVariants) {
    for (const std::uint64_t g : {1, 8}) {
      const std::uint64_t query_bytes = queries * g * d * 2;
      const PeStats in_cube = sums("gqa-prefill-short", {{"kv_per_cube", "8"}}, g, variant);
      BOOST_TEST(in_cube.dma_read_bytes == heads * (seen * bytes_of_key + query_bytes), variant << " G " << g);
      BOOST_TEST(in_cube.macs_useful == heads * g * 16 * seen * 2 * d, variant << " G " << g);
      const PeStats ring = sums("gqa-prefill-long", {{"C", "2"}, {"causal", "false"}}, g, variant);
      BOOST_TEST(ring.dma_read_bytes == heads * (keys * bytes_of_key + query_bytes), variant << " G " << g);
      BOOST_TEST(ring.ipcq_bytes == heads * keys * bytes_of_key, variant << " G " << g);
      BOOST_TEST(ring.macs_useful == heads * g * queries * keys * 2 * d, variant << " G " << g);
    }
  }
}

// A ring without a mask: every rank holds `keys` keys and as many queries as the others, and computes on every block.
struct Ring {
  int ranks;
  int hops;  // cubes that its longest link crosses: 1 where the snake order closes to a ring, else the wrap-around
  int slots;
  int queries;  // of each rank
};
std::ostream& operator<<(std::ostream& out, const Ring& r) {
  return out << r.ranks << " ranks, " << r.hops << " hops, " << r.slots << " slots, " << r.queries << " queries";
}
const Ring kRings[] = {{8, 1, 4, 16}, {8, 1, 4, 1}, {3, 2, 4, 1}, {4, 3, 4, 1}, {4, 3, 6, 1}, {4, 3, 4, 16}};

// Time between two segments of a stream of full slots over so many cube borders: its bytes on a UCIe connection, or the
// round trip of a slot shared among all slots, whichever is longer. The round trip is what spec 1.4 and 5.1 say of each
// part. Per border there are two ports of 8 ns, five links of 3 mm at 0.01 ns/mm between routers, and eight links on
// which a flit of 256 B takes 1 ns (256 GB/s), 2 ns on the one of UCIe (128 GB/s); at the ends, one link each.
double segment_ns(int hops, int slots) {
  constexpr double slot = 4096, flit = 256, ucie = 128, on_chip = 256, tcm = 512, credit = 16, issue = 2;
  const double path = hops * (2 * 8 + 5 * 3 * 0.01);
  const double flits = (7 * hops + 2) * flit / on_chip + hops * flit / ucie + (slot / flit - 1) * flit / ucie;
  const double round_trip = issue + path + flits + slot / tcm + slot / tcm + path + credit / ucie;
  return std::max(slot / ucie, round_trip / slots);
}

// A step's computation is what a single rank takes longer for twice the keys (no ring in it). A step's transfer is that
// of the slowest link: 8 ranks are neighbours all round (0 1 2 3 7 6 5 4), and four slots of 4 KiB cover the 91 ns of a
// round trip; from cube 3 back to cube 0 it takes 174 ns, so that four slots carry 94 GB/s and six the connection's
// 128. The first step, with loading and storing, is the run of a single rank. Many queries to a rank: compute is
// longer. Few: the transfer is.
BOOST_DATA_TEST_CASE(ring_latency_is_fill_and_the_longer_of_compute_and_transfer_per_step,
                     boost::unit_test::data::make(kRings), ring) {
  constexpr int keys = 512;
  const auto result = [&](int cubes, int s_kv, int t_q) {
    return timed("eight_cubes", "gqa-prefill-long",
                 {{"C", std::to_string(cubes)},
                  {"S_kv", std::to_string(s_kv)},
                  {"T_q", std::to_string(t_q)},
                  {"causal", "false"}},
                 {{"pe.ipcq.slots", std::to_string(ring.slots)}})
        .result;
  };
  const double alone = result(1, keys, ring.queries).latency_ns;
  const double compute = result(1, 2 * keys, ring.queries).latency_ns - alone;
  const double transfer = 2 * keys * 128 * 2 / 4096 * segment_ns(ring.hops, ring.slots);  // K and V, d 128, f16
  const double expected = alone + (ring.ranks - 1) * std::max(compute, transfer);
  const BenchResult whole = result(ring.ranks, ring.ranks * keys, ring.ranks * ring.queries);
  const double measured = whole.latency_ns;
  BOOST_TEST_MESSAGE(ring << ": compute " << compute << ", transfer " << transfer << ", expected " << expected
                          << ", measured " << measured);
  const bool transfer_bound = ring.queries == 1;
  BOOST_TEST(transfer_bound == (transfer > compute));
  BOOST_TEST(std::abs(measured / expected - 1) <= 0.10, measured << " of " << expected);
  // What comes is hidden behind the computation, or the other way round.
  BOOST_TEST(measured < alone + (ring.ranks - 1) * (compute + transfer) * 0.9);
  const char* limit = transfer_bound ? "limited by K/V messages" : "limited by GEMM";
  BOOST_TEST(whole.verdict.find(limit) == 0u, whole.verdict);
}

// Contiguous ranks compute the triangle: rank r computes on r + 1 blocks, the last on all, so the run takes as long as
// without the mask but for the half of its own block. Zigzag gives every rank the same work: about half as long.
BOOST_AUTO_TEST_CASE(zigzag_balances_the_causal_triangle) {
  const auto latency = [](const char* placement, const char* causal) {
    return timed("eight_cubes", "gqa-prefill-long",
                 {{"C", "4"}, {"S_kv", "1024"}, {"T_q", "1024"}, {"placement", placement}, {"causal", causal}});
  };
  const RunOutcome full = latency("contiguous", "false"), contiguous = latency("contiguous", "true"),
                   zigzag = latency("zigzag", "true"), round_robin = latency("round_robin", "true");
  BOOST_TEST(extra<std::int64_t>(contiguous, "block_computations_per_head") == 4 * 5 / 2);
  BOOST_TEST(extra<std::int64_t>(contiguous, "block_computations_skipped_per_head") == 4 * 3 / 2);
  BOOST_TEST(extra<std::int64_t>(contiguous, "block_transfers_per_head") == 4 * 3 / 2);
  for (const RunOutcome* r : {&zigzag, &round_robin}) {
    BOOST_TEST(extra<std::int64_t>(*r, "block_computations_skipped_per_head") == 0);
    BOOST_TEST(extra<std::int64_t>(*r, "block_transfers_per_head") == 4 * 3);
  }
  // Tiles of 64, query blocks of 16: of 16 tiles x 64 blocks the triangle is 544; contiguous gives the last rank
  // (4 x 13 + 4 x 14 + 4 x 15 + 4 x 16) = 232 of them, zigzag every rank 136.
  BOOST_TEST(extra<std::int64_t>(contiguous, "tiles_computed_per_head") == 544);
  BOOST_TEST(extra<std::int64_t>(zigzag, "tiles_computed_per_head") == 544);
  BOOST_TEST(contiguous.result.latency_ns < full.result.latency_ns);
  BOOST_TEST(contiguous.result.latency_ns > 0.85 * full.result.latency_ns);
  BOOST_TEST(zigzag.result.latency_ns < 0.70 * contiguous.result.latency_ns);
}

// More tokens, more queries, more heads never take less time (law 2).
BOOST_AUTO_TEST_CASE(decode_is_monotone_in_context_and_heads) {
  for (const auto& variant : kVariants) {
    double before = 0;
    for (const char* s : {"1", "3", "7", "63", "64", "65", "96", "128", "129", "160", "1000", "1024", "1025"}) {
      const double now = timed("one_pe", "gqa-decode-long", {{"variant", variant}, {"S_kv", s}}).result.latency_ns;
      BOOST_TEST(now >= before, variant << " S " << s);
      before = now;
    }
    before = 0;
    for (const char* h : {"1", "2", "3", "5"}) {
      const double now =
          timed("one_cube", "gqa-decode-long", {{"variant", variant}, {"P", "8"}, {"S_kv", "300"}, {"H_kv", h}})
              .result.latency_ns;
      BOOST_TEST(now >= before, variant << " H " << h);
      before = now;
    }
    before = 0;
    for (const char* g : {"1", "2", "8", "16", "17", "32"}) {
      const double now =
          timed("one_pe", "gqa-decode-long", {{"variant", variant}, {"S_kv", "300"}, {"G", g}}).result.latency_ns;
      BOOST_TEST(now >= before, variant << " G " << g);
      before = now;
    }
  }
}

BOOST_AUTO_TEST_CASE(prefill_is_monotone_in_queries_context_and_heads) {
  for (const std::string bench : {"gqa-prefill-short", "gqa-prefill-long"}) {
    for (const auto& variant : kPrefillVariants) {
      const auto monotone = [&](const char* name, const std::vector<const char*>& values, Settings params) {
        params["variant"] = variant;
        double before = 0;
        for (const char* v : values) {
          params[name] = v;
          const double now = timed("one_cube", bench, params).result.latency_ns;
          BOOST_TEST(now >= before, bench << " " << variant << " " << name << " " << v);
          before = now;
        }
      };
      // One PE to a head: no PE reads another's slice. 31 queries of short prefill are an exception, see below.
      std::vector<const char*> queries{"1", "5", "16", "17", "32", "33", "128"};
      if (bench == "gqa-prefill-long" || variant != "hybrid") queries.insert(queries.begin() + 4, "31");
      monotone("T_q", queries, {{"S_kv", "160"}, {"causal", "false"}, {"kv_per_cube", "8"}});
      monotone("S_kv", {"32", "63", "64", "65", "160", "300"}, {{"T_q", "32"}, {"kv_per_cube", "8"}});
      monotone("H_kv", {"1", "2", "3"}, {{"S_kv", "100"}, {"T_q", "32"}});
    }
  }
}

// The two exceptions to it (decision 6), both of resources that are shared and not preempted.
// The PEs of a head read each other's slices: they go from owner to owner in step, each starting with itself, so that
// no two read the same slice. 63 tokens over 8 PEs make one tile shorter; its readers run ahead and meet others at the
// next slice. With 64 tokens all tiles are alike again.
BOOST_AUTO_TEST_CASE(an_uneven_owner_breaks_the_step_of_its_readers) {
  const auto latency = [](const char* s) {
    return timed("one_cube", "gqa-prefill-short", {{"variant", "opt2"}, {"S_kv", s}, {"T_q", "32"}}).result.latency_ns;
  };
  const double uneven = latency("63"), even = latency("64");
  BOOST_TEST(uneven > even);
  BOOST_TEST(uneven < 1.05 * even);
}
// A last block of 15 queries has less to load and to multiply, so that its commands and those of the block before
// interleave differently on engines that are not preempted: the first GEMM of the block starts 55 ns later than
// with 16.
BOOST_AUTO_TEST_CASE(a_shorter_block_can_interleave_worse) {
  const auto latency = [](const char* t_q) {
    return timed("one_cube", "gqa-prefill-short",
                 {{"variant", "hybrid"}, {"S_kv", "160"}, {"T_q", t_q}, {"causal", "false"}, {"kv_per_cube", "8"}})
        .result.latency_ns;
  };
  const double shorter = latency("31"), whole = latency("32");
  BOOST_TEST(shorter > whole);
  BOOST_TEST(shorter < 1.01 * whole);
}

// With one slot, one tile buffer, one command in flight and one outstanding transfer everything still ends, and is
// right (law 9).
BOOST_AUTO_TEST_CASE(everything_finishes_with_one_of_each) {
  const std::vector<Override> ones{{"pe.ipcq.slots", "1"},
                                   {"pe.scheduler.tile_buffers", "1"},
                                   {"pe.scheduler.queue_depth", "1"},
                                   {"pe.dma.outstanding", "1"}};
  const auto finishes = [&](const char* machine, const std::string& bench, Settings params,
                            const std::vector<std::string>& variants) {
    for (const auto& variant : variants) {
      params["variant"] = variant;
      params["d"] = "64";
      RunSpec s = spec(machine, bench, params, Mode::data);
      s.overrides = ones;
      s.log = false;
      const RunOutcome r = run(s);
      BOOST_TEST(r.result.numerics.pass, bench << " " << variant);
    }
  };
  finishes("one_cube", "gqa-decode-long", {{"P", "8"}, {"S_kv", "200"}, {"H_kv", "2"}}, kVariants);
  finishes("one_cube", "gqa-decode-long", {{"P", "8"}, {"S_kv", "200"}, {"reduce", "chain"}}, kVariants);
  finishes("one_cube", "gqa-decode-short", {{"kv_per_cube", "2"}, {"S_kv", "200"}, {"H_kv", "3"}}, kVariants);
  finishes("one_cube", "gqa-prefill-short", {{"S_kv", "200"}, {"T_q", "40"}}, kPrefillVariants);
  for (const char* placement : {"contiguous", "zigzag"})
    finishes("eight_cubes", "gqa-prefill-long", {{"C", "3"}, {"S_kv", "200"}, {"T_q", "100"}, {"placement", placement}},
             kPrefillVariants);
}

// Sizes that are odd but possible are right.
BOOST_AUTO_TEST_CASE(odd_sizes_are_right) {
  const std::pair<const char*, Settings> cases[] = {
      {"gqa-decode-long", {{"d", "1"}, {"S_kv", "65"}}},
      {"gqa-decode-long", {{"d", "257"}, {"S_kv", "65"}, {"P", "3"}}},
      {"gqa-decode-long", {{"G", "1"}, {"S_kv", "1"}, {"d", "3"}, {"P", "8"}}},
      {"gqa-decode-long", {{"G", "33"}, {"S_kv", "70"}, {"d", "65"}, {"tile", "1"}}},
      {"gqa-decode-long", {{"tile", "1000"}, {"S_kv", "300"}, {"P", "2"}}},
      {"gqa-decode-short", {{"H_kv", "17"}, {"kv_per_cube", "8"}, {"S_kv", "5"}, {"d", "17"}}},
      {"gqa-prefill-short", {{"T_q", "1"}, {"S_kv", "1"}, {"d", "1"}}},
      {"gqa-prefill-short", {{"T_q", "7"}, {"S_kv", "7"}, {"q_block", "1"}, {"G", "1"}, {"d", "257"}}},
      {"gqa-prefill-long", {{"T_q", "9"}, {"S_kv", "9"}, {"q_block", "2"}, {"tile", "3"}, {"d", "5"}, {"P", "8"}}},
  };
  for (const auto& [bench, params] : cases) {
    RunSpec s = spec("one_cube", bench, params, Mode::data);
    s.log = false;
    const RunOutcome r = run(s);
    BOOST_TEST(r.result.numerics.pass, bench);
  }
}

// What cannot be run is refused before it is simulated, with the parameter, the value and what is allowed.
BOOST_AUTO_TEST_CASE(impossible_parameters_are_refused) {
  const auto refused = [](const std::string& bench, const Settings& params, const std::string& part) {
    try {
      const RunOutcome r = run_session(spec("eight_cubes", bench, params), benches());
      BOOST_TEST((r.code == ExitCode::bad_input), bench << " " << part);
      BOOST_TEST(r.message.find(part) != std::string::npos, r.message);
    } catch (const InputError& e) {
      BOOST_TEST(std::string(e.what()).find(part) != std::string::npos, e.what());
    }
  };
  const std::string decode = "gqa-decode-long", home = "gqa-decode-short", prefill = "gqa-prefill-long";
  refused(decode, {{"S_kv", "0"}}, "parameter S_kv: found '0'; allowed: 1 .. ");
  refused(decode, {{"G", "0"}}, "parameter G: found '0'; allowed: 1 .. ");
  refused(decode, {{"d", "0"}}, "parameter d: found '0'");
  refused(decode, {{"H_kv", "-1"}}, "parameter H_kv: found '-1'");
  refused(decode, {{"C", "9"}}, "parameter C: found 9; allowed: 1 .. 8");
  refused(decode, {{"P", "9"}}, "parameter P: found 9; allowed: 1 .. 8");
  refused(decode, {{"variant", "opt4"}}, "parameter variant: found 'opt4'");
  refused(decode, {{"T_q", "4"}}, "T_q");
  refused(home, {{"kv_per_cube", "3"}}, "parameter kv_per_cube: found 3; allowed: 1 2 4 8");
  refused(home, {{"C", "9"}}, "parameter C: found 9; allowed: 1 .. 8");
  refused(prefill, {{"T_q", "65"}, {"S_kv", "64"}}, "parameter T_q: found 65; allowed: 1 .. S_kv = 64");
  refused(prefill, {{"q_block", "33"}}, "parameter q_block: found 33; allowed: G x q_block <= 256 rows, G = 8");
  refused(prefill, {{"T_q", "100000"}, {"S_kv", "100000"}}, "parameter T_q: found 100000");
  // More context than the slices hold: 2^34 tokens of K and V are 8 TiB.
  refused(decode, {{"S_kv", "17179869184"}, {"C", "8"}, {"P", "8"}}, "tensor k");
}

BOOST_AUTO_TEST_SUITE_END()
