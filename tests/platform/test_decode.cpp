// GQA decode on one PE through the whole machine: values, traffic, command streams.
#include "session.h"

#include <random>

using namespace kb;
using namespace kb::test;

namespace {

const char* const kVariants[] = {"primitive", "opt2", "hybrid", "composite", "composite_extended"};

RunOutcome decode(const Settings& params, Mode mode = Mode::data) {
  return run("one_pe", "gqa-decode-long", params, mode);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(decode_one_pe)

BOOST_AUTO_TEST_CASE(every_variant_is_right_at_ragged_lengths) {
  for (const char* variant : kVariants)
    for (const char* s : {"1", "3", "7", "63", "64", "65", "96", "160", "1000"})
      decode({{"variant", variant}, {"S_kv", s}, {"d", "64"}});
}

BOOST_AUTO_TEST_CASE(every_variant_is_right_for_all_types_and_layouts) {
  for (const char* variant : kVariants)
    for (const char* dtype : {"f16", "bf16", "f32"})
      for (const char* layout : {"sd", "ds"})
        decode({{"variant", variant},
                {"S_kv", "200"},
                {"dtype", dtype},
                {"k_layout", layout},
                {"H_kv", "2"},
                {"G", "3"},
                {"d", "80"}});
}

BOOST_AUTO_TEST_CASE(peaky_scores_and_equal_values_are_right) {
  for (const char* variant : kVariants)
    for (const char* inputs : {"peaky", "ones", "integers"})
      for (const char* dtype : {"f16", "bf16", "f32"})
        decode({{"variant", variant}, {"S_kv", "300"}, {"inputs", inputs}, {"dtype", dtype}});
}

BOOST_AUTO_TEST_CASE(long_contexts_are_right) {
  for (const char* variant : kVariants) decode({{"variant", variant}, {"S_kv", "16384"}, {"d", "128"}, {"G", "8"}});
}

// Both layouts of K cost the same and give the same numbers.
BOOST_AUTO_TEST_CASE(layouts_of_k_agree) {
  for (const char* variant : kVariants) {
    TempDir dir;
    RunSpec s = spec("one_pe", "gqa-decode-long", {{"variant", variant}, {"S_kv", "300"}}, Mode::data);
    s.dump = true;
    s.log = false;
    s.out = dir / "sd";
    const double sd = run(s).result.latency_ns;
    s.params["k_layout"] = "ds";
    s.out = dir / "ds";
    const double ds = run(s).result.latency_ns;
    BOOST_TEST(sd == ds, variant);
    BOOST_TEST((read_text(dir / "sd/tensors/o.npy") == read_text(dir / "ds/tensors/o.npy")), variant);
  }
}

// The cache is read once whatever the group: K and V bytes do not depend on G, useful MACs grow with it.
BOOST_AUTO_TEST_CASE(cache_bytes_are_read_once_and_do_not_depend_on_g) {
  for (const char* variant : kVariants) {
    for (const std::int64_t g : {1, 2, 4, 8}) {
      const std::int64_t s = 1000, d = 128, h = 2;
      const RunOutcome r =
          decode({{"variant", variant}, {"S_kv", "1000"}, {"H_kv", "2"}, {"G", std::to_string(g)}}, Mode::timing);
      const PeStats& pe = launch_of(r).pes[0];
      const std::int64_t cache = h * s * d * 2 * 2, q = h * g * d * 2;
      BOOST_TEST(static_cast<std::int64_t>(pe.dma_read_bytes) == cache + q, variant << " G " << g);
      BOOST_TEST(static_cast<std::int64_t>(pe.macs_useful) == 2 * h * g * s * d, variant << " G " << g);
    }
  }
}

// 8 rows on an array of 16: half of the slots do useful work.
BOOST_AUTO_TEST_CASE(padded_work_is_counted_apart) {
  const RunOutcome r = decode({{"S_kv", "1024"}}, Mode::timing);
  const PeStats& pe = launch_of(r).pes[0];
  BOOST_TEST(pe.macs_padded == 2 * pe.macs_useful);
}

// For at least four tiles the loads hide behind the computation. A single op computes from FETCH to STORE; in
// composites both work beside the MAC array.
BOOST_AUTO_TEST_CASE(loads_overlap_computation) {
  for (const std::string variant : kVariants) {
    for (const char* s : {"256", "4096"}) {
      const RunOutcome r = decode({{"variant", variant}, {"S_kv", s}}, Mode::timing);
      const LaunchResult& l = launch_of(r);
      const auto busy = [&](EngineKind e) { return l.pes[0].engines[static_cast<std::size_t>(e)].busy; };
      Ps compute = busy(EngineKind::gemm) + busy(EngineKind::math);
      if (variant == "primitive") compute += busy(EngineKind::fetch) + busy(EngineKind::store);
      BOOST_TEST(l.latency() < busy(EngineKind::dma_read) + compute, variant << " " << s);
      BOOST_TEST(l.bounds.ratio >= 1.0, variant << " " << s);
    }
  }
}

BOOST_AUTO_TEST_CASE(random_shapes_are_right) {
  std::mt19937 rng(65);
  const char* dtypes[] = {"f16", "bf16", "f32"};
  for (int i = 0; i < 60; ++i)
    decode({{"variant", kVariants[rng() % 5]},
            {"S_kv", std::to_string(1 + rng() % 700)},
            {"H_kv", std::to_string(1 + rng() % 3)},
            {"G", std::to_string(1 + rng() % 9)},
            {"d", std::to_string(16 * (1 + rng() % 8))},
            {"tile", std::to_string(16 * (1 + rng() % 6))},
            {"dtype", dtypes[rng() % 3]}});
}

BOOST_AUTO_TEST_SUITE_END()
