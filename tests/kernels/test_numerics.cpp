// What the kernels compute, with PEs that take no time: every variant against the bench's double-precision reference.
#include "functional_host.h"

#include <kb/kernels/bench.h>
#include <kb/kernels/launch.h>
#include <kb/kernels/placement.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <random>

using namespace kb;
using kb::test::FunctionalHost;

namespace {

using Settings = std::map<std::string, std::string>;

MachineInfo eight_cubes() {
  MachineInfo m;
  m.cube_cols = 4;
  m.cube_rows = 2;
  m.pes_per_cube = 8;
  m.pe_cols = 4;
  return m;
}

/// Keeps what a bench dumps; gives tensors to a bench.
class Tensors : public InputSource, public OutputSink {
 public:
  std::map<std::string, LogicalTensor> given, dumped;
  std::optional<LogicalTensor> find(const std::string& name) override {
    const auto it = given.find(name);
    return it == given.end() ? std::nullopt : std::optional<LogicalTensor>(it->second);
  }
  void write(const std::string& name, const LogicalTensor& t) override { dumped[name] = t; }
};

BenchResult run(const std::string& name, const Settings& settings, Tensors* tensors = nullptr,
                const MachineInfo& machine = eight_cubes()) {
  BenchRegistry registry;
  add_standard_benches(registry);
  FunctionalHost host(machine);
  BenchContext::Options options;
  options.inputs = tensors;
  options.outputs = tensors;
  return run_bench(registry.get(name), host, settings, std::move(options));
}

void check(const std::string& name, const Settings& settings, Tensors* tensors = nullptr) {
  std::string text = name;
  for (const auto& s : settings) text += " " + s.first + "=" + s.second;
  BOOST_TEST_CONTEXT(text) {
    const BenchResult r = run(name, settings, tensors);
    BOOST_TEST_MESSAGE(text << ": rel. RMSE " << r.numerics.rel_rmse << " of " << r.numerics.tolerance);
    BOOST_TEST(r.numerics.checked);
    BOOST_TEST(r.numerics.pass, "rel. RMSE " << r.numerics.rel_rmse << ", allowed " << r.numerics.tolerance);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(numerics)

BOOST_AUTO_TEST_CASE(gemm_variants_and_issue_styles) {
  for (const std::string dtype : {"f16", "bf16", "f32", "i8"}) {
    for (const std::string issue : {"composite", "async_tiled"}) {
      for (const auto& [m, k, n] : {std::tuple(1, 1, 1), {33, 65, 31}, {67, 131, 67}, {32, 64, 32}}) {
        const Settings s{{"dtype", dtype},         {"issue", issue},         {"M", std::to_string(m)},
                         {"K", std::to_string(k)}, {"N", std::to_string(n)}, {"pes", "2"}};
        check("gemm", s);
      }
    }
  }
  for (const std::string variant : {"ref_ref", "load_ref", "load_load"}) {
    Tensors t;
    const BenchResult r = run(
        "gemm",
        {{"variant", variant}, {"M", "40"}, {"K", "200"}, {"N", "50"}, {"inputs", "integers"}, {"dtype", "f32"}}, &t);
    BOOST_TEST(r.numerics.max_abs_err == 0.0);
    BOOST_CHECK(t.dumped.at("c").shape() == (Shape{40, 50}));
  }
}

BOOST_AUTO_TEST_CASE(decode_long_variants_types_and_layouts) {
  for (const std::string variant : {"primitive", "opt2", "hybrid", "composite", "composite_extended"})
    for (const std::string dtype : {"f16", "bf16", "f32"})
      for (const std::string layout : {"sd", "ds"})
        for (const std::string inputs : {"normal", "peaky"})
          check("gqa-decode-long", {{"variant", variant},
                                    {"dtype", dtype},
                                    {"k_layout", layout},
                                    {"inputs", inputs},
                                    {"S_kv", "200"},
                                    {"H_kv", "2"},
                                    {"G", "3"},
                                    {"d", "80"}});
}

BOOST_AUTO_TEST_CASE(decode_long_lengths) {
  for (const char* s : {"1", "3", "7", "63", "64", "65", "96", "160", "1000", "4097"})
    for (const std::string variant : {"primitive", "opt2", "composite_extended"})
      check("gqa-decode-long", {{"variant", variant}, {"S_kv", s}});
}

BOOST_AUTO_TEST_CASE(decode_long_over_cubes_and_pes) {
  int i = 0;
  const std::string variants[] = {"primitive", "opt2", "hybrid", "composite", "composite_extended"};
  const std::string placements[] = {"round_robin", "contiguous", "zigzag"};
  for (const auto& [cubes, pes] : {std::pair(1, 2), {1, 3}, {1, 8}, {2, 4}, {5, 5}, {8, 8}})
    for (const std::string reduce : {"tree", "chain"})
      for (const char* s : {"3", "100", "777"})
        check("gqa-decode-long", {{"variant", variants[i % 5]},
                                  {"placement", placements[i++ % 3]},
                                  {"reduce", reduce},
                                  {"C", std::to_string(cubes)},
                                  {"P", std::to_string(pes)},
                                  {"S_kv", s},
                                  {"request_id", "5"},
                                  {"H_kv", "2"},
                                  {"d", "64"}});
}

BOOST_AUTO_TEST_CASE(decode_short_homes_and_turns) {
  int i = 0;
  const std::string variants[] = {"primitive", "opt2", "hybrid", "composite", "composite_extended"};
  const std::string placements[] = {"round_robin", "contiguous", "zigzag"};
  for (const char* per_cube : {"1", "2", "4", "8"})
    for (const auto& [cubes, heads] : {std::pair("1", "1"), {"1", "5"}, {"3", "8"}, {"2", "17"}})
      for (const char* s : {"1", "7", "160"})
        check("gqa-decode-short", {{"variant", variants[i % 5]},
                                   {"placement", placements[i++ % 3]},
                                   {"kv_per_cube", per_cube},
                                   {"C", cubes},
                                   {"H_kv", heads},
                                   {"S_kv", s},
                                   {"k_layout", i % 2 == 0 ? "sd" : "ds"},
                                   {"reduce", i % 4 < 2 ? "tree" : "chain"},
                                   {"request_id", "3"},
                                   {"G", "3"},
                                   {"d", "64"}});
}

BOOST_AUTO_TEST_CASE(prefill_short_blocks_tiles_and_masks) {
  int i = 0;
  const std::string variants[] = {"primitive", "opt2", "hybrid"};
  const std::string placements[] = {"round_robin", "contiguous", "zigzag"};
  const std::string dtypes[] = {"f16", "bf16", "f32"};
  for (const char* per_cube : {"1", "4", "8"})
    for (const auto& [t_q, s_kv] : {std::pair("1", "1"), {"5", "5"}, {"31", "96"}, {"33", "1000"}, {"128", "160"}})
      for (const char* causal : {"true", "false"}) {
        check("gqa-prefill-short", {{"variant", variants[i % 3]},
                                    {"placement", placements[i / 2 % 3]},
                                    {"dtype", dtypes[i / 3 % 3]},
                                    {"kv_per_cube", per_cube},
                                    {"H_kv", "3"},
                                    {"T_q", t_q},
                                    {"S_kv", s_kv},
                                    {"causal", causal},
                                    {"k_layout", i % 2 == 0 ? "sd" : "ds"},
                                    {"tile", "32"},
                                    {"request_id", "3"},
                                    {"G", "3"},
                                    {"d", "64"}});
        ++i;
      }
}

BOOST_AUTO_TEST_CASE(prefill_long_rings) {
  int i = 0;
  const std::string variants[] = {"primitive", "opt2", "hybrid"};
  const std::string placements[] = {"round_robin", "contiguous", "zigzag"};
  const std::string dtypes[] = {"f16", "bf16", "f32"};
  for (const auto& [cubes, pes] : {std::pair("1", "1"), {"2", "1"}, {"3", "2"}, {"8", "4"}})
    for (const auto& [t_q, s_kv] : {std::pair("1", "1"), {"5", "7"}, {"31", "96"}, {"64", "64"}, {"100", "577"}})
      for (const std::string& placement : placements) {
        check("gqa-prefill-long", {{"variant", variants[i % 3]},
                                   {"placement", placement},
                                   {"dtype", dtypes[i / 3 % 3]},
                                   {"C", cubes},
                                   {"P", pes},
                                   {"H_kv", "3"},
                                   {"T_q", t_q},
                                   {"S_kv", s_kv},
                                   {"causal", i % 4 == 3 ? "false" : "true"},
                                   {"k_layout", i % 2 == 0 ? "sd" : "ds"},
                                   {"tile", "16"},
                                   {"q_block", "8"},
                                   {"request_id", "1"},
                                   {"G", "3"},
                                   {"d", "64"}});
        ++i;
      }
}

BOOST_AUTO_TEST_CASE(headline_runs_the_four_cases) {
  const BenchResult r = run("gqa-headline", {{"S_kv", "300"}, {"T_q", "40"}, {"C", "2"}, {"P", "2"}, {"H_kv", "2"}});
  BOOST_TEST(r.numerics.checked);
  BOOST_TEST(r.numerics.pass);
  BOOST_TEST(r.launches.size() == 4u);
  BOOST_REQUIRE(r.tables.size() == 2);  // the cases, and the parts of their latencies
  for (const auto& table : r.tables) {
    BOOST_TEST(table.rows.size() == 4u);
    for (const auto& row : table.rows) BOOST_TEST(row.size() == table.columns.size());
  }
}

BOOST_AUTO_TEST_CASE(values_of_one_give_exactly_one) {
  for (const std::string dtype : {"f16", "bf16"}) {
    Tensors t;
    const DType type = *dtype_from_name(dtype);
    LogicalTensor v(Shape{1, 1000, 128}, type);
    for (std::int64_t i = 0; i < v.numel(); ++i) v.set(i, 1);
    t.given["v"] = v;
    run("gqa-decode-long", {{"dtype", dtype}, {"S_kv", "1000"}, {"C", "2"}, {"P", "8"}}, &t);
    const LogicalTensor& o = t.dumped.at("o");
    for (std::int64_t i = 0; i < o.numel(); ++i) BOOST_REQUIRE(o.at(i) == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(partial_results_whose_maxima_differ_by_200) {
  for (const std::string dtype : {"f16", "bf16", "f32"}) {
    Tensors t;
    const DType type = *dtype_from_name(dtype);
    // Key s of PE s mod 2 scores about 100 or -100: all queries and keys share one large component.
    std::mt19937 rng(1);
    const auto noise = [&rng] { return static_cast<double>(rng() >> 8) * 0x1p-24 - 0.5; };
    LogicalTensor q(Shape{8, 1, 64}, type), k(Shape{1, 96, 64}, type);
    for (std::int64_t i = 0; i < q.numel(); ++i) q.set(i, i % 64 == 0 ? 28.0 : noise());
    for (std::int64_t i = 0; i < k.numel(); ++i)
      k.set(i, i % 64 == 0 ? (i / 64 % 2 == 0 ? 28.5 : -28.5) + noise() : noise());
    t.given["q"] = q;
    t.given["k"] = k;
    check("gqa-decode-long", {{"dtype", dtype}, {"S_kv", "96"}, {"d", "64"}, {"P", "2"}}, &t);
  }
}

BOOST_AUTO_TEST_CASE(softmax_merge_equals_online_softmax) {
  // m, l, O after merging 1, 2, 7 and 64 tiles of random scores, a fully masked first tile included.
  for (const int tiles : {1, 2, 7, 64}) {
    for (const bool masked_first : {false, true}) {
      if (tiles == 1 && masked_first) continue;
      constexpr std::int64_t rows = 8, width = 64, d = 32;
      FunctionalHost host(MachineInfo{});
      std::mt19937 rng(static_cast<unsigned>(tiles));
      const auto draw = [&rng] { return (static_cast<double>(rng() >> 8) * 0x1p-24 - 0.5) * 8; };
      LogicalTensor s(Shape{tiles, rows, width}, DType::f32), v(Shape{tiles * width, d}, DType::f16);
      for (std::int64_t i = 0; i < s.numel(); ++i)
        s.set(i, masked_first && i < rows * width ? -std::numeric_limits<double>::infinity() : draw());
      for (std::int64_t i = 0; i < v.numel(); ++i) v.set(i, draw());
      const Tensor ts = from_data(host, "s", s, Placement(s.shape(), Split::replicate, {0}));
      const Tensor tv = from_data(host, "v", v, Placement(v.shape(), Split::replicate, {0}));
      const Tensor tm = empty(host, "m", DType::f32, Placement({rows, 1}, Split::replicate, {0}));
      const Tensor tl_ = empty(host, "l", DType::f32, Placement({rows, 1}, Split::replicate, {0}));
      const Tensor to = empty(host, "o", DType::f32, Placement({rows, d}, Split::replicate, {0}));
      const auto kernel = [](tl::Context& t, int n, const Tensor& s_, const Tensor& v_, const Tensor& m_,
                             const Tensor& l_, const Tensor& o_) {
        const tl::Handle m = t.full({rows, 1}, -std::numeric_limits<double>::infinity(), DType::f32);
        const tl::Handle l = t.full({rows, 1}, 0, DType::f32), o = t.full({rows, d}, 0, DType::f32);
        for (int j = 0; j < n; ++j) {
          const auto scope = t.scratch_scope();
          const auto at = static_cast<std::uint64_t>(j);
          const tl::Handle scores = t.load(t.shard_of(s_).addr + at * rows * width * 4, {rows, width}, DType::f32);
          t.composite(tl::gemm_from_prologue(t.ref(t.shard_of(v_).addr + at * width * d * 2, {width, d}, DType::f16))
                          .prologue("softmax_merge", {{"s", scores}, {"m", m}, {"l", l}, {"O", o}})
                          .epilogue("add", {{"other", o}})
                          .into(o));
        }
        t.store(t.shard_of(m_).addr, m);
        t.store(t.shard_of(l_).addr, l);
        t.store(t.shard_of(o_).addr, o);
      };
      LaunchOptions one;
      one.pes = {0};
      host.launch(tl::bind_kernel("merge", kernel, tiles, ts, tv, tm, tl_, to), one);
      const auto got = [&](const Tensor& t, const Shape& shape) {
        return Placement(shape, Split::replicate, {0}).gather(host, t);
      };
      const LogicalTensor m = got(tm, {rows, 1}), l = got(tl_, {rows, 1}), o = got(to, {rows, d});
      for (std::int64_t r = 0; r < rows; ++r) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        std::vector<double> out(d);
        const auto score = [&](std::int64_t key) { return s.at((key / width * rows + r) * width + key % width); };
        for (std::int64_t key = 0; key < tiles * width; ++key) largest = std::max(largest, score(key));
        for (std::int64_t key = 0; key < tiles * width; ++key) {
          const double w = std::exp(score(key) - largest);
          sum += w;
          for (std::int64_t c = 0; c < d; ++c) out[static_cast<std::size_t>(c)] += w * v.at(key * d + c);
        }
        BOOST_TEST(m.at(r) == largest);
        BOOST_TEST(l.at(r) == sum, boost::test_tools::tolerance(2e-4));
        for (std::int64_t c = 0; c < d; ++c)
          BOOST_REQUIRE(std::abs(o.at(r * d + c) - out[static_cast<std::size_t>(c)]) < 2e-3 * (1 + sum));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
