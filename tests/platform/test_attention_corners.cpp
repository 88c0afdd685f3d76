// Values with which softmax merges go wrong: masked tiles, far-apart maxima, empty PEs, equal values at long context.
#include "session.h"

#include <kb/kernels/logical_tensor.h>
#include <kb/traces/npy.h>

#include <cmath>
#include <functional>
#include <random>

using namespace kb;
using namespace kb::test;

namespace {

const std::vector<std::string> kVariants{"primitive", "opt2", "hybrid", "composite", "composite_extended"};
const std::vector<std::string> kTypes{"f16", "bf16", "f32"};

/// An input file whose element i is value(i).
std::pair<std::string, std::string> input(const TempDir& dir, const std::string& name, const std::string& dtype,
                                          const Shape& shape, const std::function<double(std::int64_t)>& value) {
  LogicalTensor t(shape, *dtype_from_name(dtype));
  for (std::int64_t i = 0; i < t.numel(); ++i) t.set(i, value(i));
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  const std::string path = dir / (name + ".npy");
  write_npy(path, t.dtype(), dims, t.bytes());
  return {name, path};
}

RunSpec quiet(const std::string& machine, const std::string& bench, const Settings& params) {
  RunSpec s = spec(machine, bench, params, Mode::data);
  s.log = false;
  return s;
}

/// Passes within spec 6.4's gate; NaN and inf on either side fail by themselves.
Numerics passes(const RunSpec& s) {
  const RunOutcome r = run(s);
  BOOST_TEST(r.result.numerics.checked);
  BOOST_TEST(r.result.numerics.pass, s.bench << " rel. RMSE " << r.result.numerics.rel_rmse);
  return r.result.numerics;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_corners)

// Tokens dealt from PE 5 on: PE p of the head owns the keys (p - 5) mod 8, + 8, ... and starts with its own, so that
// the first tile of a block that begins at position 0 hides every key from the first rows: PE 0's own begin at 3.
BOOST_AUTO_TEST_CASE(rows_whose_first_tile_is_fully_masked) {
  for (const auto& dtype : kTypes)
    for (const char* variant : {"primitive", "opt2", "hybrid"})
      passes(quiet(
          "one_cube", "gqa-prefill-short",
          {{"S_kv", "64"}, {"T_q", "64"}, {"request_id", "5"}, {"variant", variant}, {"dtype", dtype}, {"d", "64"}}));
}

// Queries of a ring rank that start before all keys of the rank's own block do not exist, but with tiles of one key the
// boundary tiles hide all but one row.
BOOST_AUTO_TEST_CASE(ring_tiles_that_few_rows_see) {
  for (const char* placement : {"contiguous", "round_robin", "zigzag"})
    passes(quiet("eight_cubes", "gqa-prefill-long",
                 {{"C", "3"}, {"S_kv", "48"}, {"T_q", "48"}, {"tile", "1"}, {"placement", placement}, {"d", "64"}}));
}

// All scores equal, so every P is exp(0) = 1, l counts the tokens and O / l is exactly 1, in every type: 16-bit state
// or a 16-bit count would lose it (65,537 has 17 bits).
BOOST_AUTO_TEST_CASE(equal_values_around_65536_tokens_give_exactly_one) {
  for (const char* s : {"65535", "65536", "65537"}) {
    for (const char* variant : {"opt2", "composite_extended"}) {
      const Numerics n =
          passes(quiet("one_cube", "gqa-decode-long",
                       {{"S_kv", s}, {"d", "16"}, {"G", "2"}, {"P", "8"}, {"inputs", "ones"}, {"variant", variant}}));
      BOOST_TEST(n.max_abs_err == 0.0, variant << " " << s);
    }
  }
}

// V is 1 and the scores are random: O is a sum of rounded P over the same sum. Stored in 16 bits that is exactly 1; in
// f32, where the result is not rounded, 1 +- 5e-6.
BOOST_AUTO_TEST_CASE(values_of_one_with_random_scores) {
  for (const auto& dtype : kTypes) {
    for (const auto& variant : kVariants) {
      const TempDir dir;
      RunSpec s = quiet("one_cube", "gqa-decode-long",
                        {{"S_kv", "1000"}, {"P", "8"}, {"d", "64"}, {"dtype", dtype}, {"variant", variant}});
      s.inputs = {input(dir, "v", dtype, {1, 1000, 64}, [](std::int64_t) { return 1.0; })};
      BOOST_TEST(passes(s).max_abs_err <= (dtype == "f32" ? 5e-6 : 0.0), dtype << " " << variant);
    }
  }
}

// One large component puts the scores of every other key near +100 and of the rest near -100: the partial maxima of
// two PEs, and of the PEs of a cube in turn, differ by 200, and exp(-200) is 0 in f32.
BOOST_AUTO_TEST_CASE(partial_results_whose_maxima_differ_by_200) {
  for (const auto& dtype : kTypes) {
    for (const char* pes : {"2", "8"}) {
      const TempDir dir;
      std::mt19937 rng(7);
      const auto noise = [&rng] { return static_cast<double>(rng() >> 8) * 0x1p-24 - 0.5; };
      RunSpec s = quiet("one_cube", "gqa-decode-long",
                        {{"S_kv", "96"},
                         {"P", pes},
                         {"d", "64"},
                         {"dtype", dtype},
                         {"variant", pes[0] == '2' ? "opt2" : "primitive"}});
      s.inputs = {input(dir, "q", dtype, {8, 1, 64}, [&](std::int64_t i) { return i % 64 == 0 ? 28.0 : noise(); }),
                  input(dir, "k", dtype, {1, 96, 64}, [&](std::int64_t i) {
                    return i % 64 == 0 ? (i / 64 % 2 == 0 ? 28.5 : -28.5) + noise() : noise();
                  })};
      const Numerics n = passes(s);
      BOOST_TEST(n.tolerance == (dtype == "f32" ? 1e-4 : dtype == "f16" ? 5e-4 : 4e-3));
    }
  }
}

// A send whose operand is ready must not pass an earlier one of its direction that still waits for its own: O of a head
// (768 B) and m of the next (12 B), or a sub-block that is still being loaded and one that has been received.
BOOST_AUTO_TEST_CASE(sends_of_a_direction_keep_their_order) {
  passes(quiet("one_cube", "gqa-decode-long",
               {{"P", "8"}, {"H_kv", "2"}, {"G", "3"}, {"d", "64"}, {"S_kv", "4097"}, {"variant", "composite"}}));
  passes(quiet("eight_cubes", "gqa-prefill-long",
               {{"C", "3"}, {"H_kv", "2"}, {"G", "3"}, {"d", "64"}, {"S_kv", "1000"}, {"T_q", "1"}}));
}

// Fewer tokens than PEs: those without any take part in every round with m = -inf, l = 0.
BOOST_AUTO_TEST_CASE(pes_without_tokens) {
  for (const auto& variant : kVariants)
    for (const char* s : {"1", "3"})
      for (const char* reduce : {"tree", "chain"})
        passes(quiet(
            "one_cube", "gqa-decode-long",
            {{"S_kv", s}, {"P", "8"}, {"variant", variant}, {"reduce", reduce}, {"request_id", "6"}, {"d", "64"}}));
  // More cubes than queries or keys in a ring.
  passes(quiet("eight_cubes", "gqa-prefill-long", {{"C", "8"}, {"S_kv", "5"}, {"T_q", "3"}, {"d", "64"}}));
}

BOOST_AUTO_TEST_SUITE_END()
