// Attention against its double-precision reference over the sizes, types and placements that users have: every pair
// of values that can occur together occurs in some run (spec 6.4). scripts/attention_full.sh runs the full lists.
#include "covering.h"
#include "session.h"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <cstdint>
#include <tuple>

using namespace kb;
using namespace kb::test;

namespace {

struct Parameter {
  const char* name;
  std::vector<std::string> values;
};

enum : std::size_t { kBench, kHeads, kDim, kLength, kPlaces, kDtype, kVariant, kPlacement, kInputs, kLayout, kReduce };

const std::vector<Parameter> kDecode{
    {"bench", {"gqa-decode-long", "gqa-decode-short"}},
    {"H_q/H_kv", {"64/8", "8/8", "8/1", "6/2"}},
    {"d", {"64", "80", "128"}},
    {"S_kv", {"1", "3", "7", "63", "64", "65", "96", "160", "1000", "4097", "65535", "65536", "65537"}},
    {"N", {"1", "2", "3", "8", "64"}},
    {"dtype", {"f16", "bf16", "f32"}},
    {"variant", {"primitive", "opt2", "hybrid", "composite", "composite_extended"}},
    {"placement", {"round_robin", "contiguous", "zigzag"}},
    {"inputs", {"normal", "peaky", "integers"}},
    {"k_layout", {"sd", "ds"}},
    {"reduce", {"tree", "chain"}},
};

enum : std::size_t { kQueries = kReduce };

const std::vector<Parameter> kPrefill{
    {"bench", {"gqa-prefill-short", "gqa-prefill-long"}},
    {"H_q/H_kv", {"64/8", "8/8", "8/1", "6/2"}},
    {"d", {"64", "80", "128"}},
    {"S_kv", {"1", "3", "7", "63", "64", "65", "96", "160", "1000", "4097"}},
    {"N", {"1", "2", "3", "8", "64"}},
    {"dtype", {"f16", "bf16", "f32"}},
    {"variant", {"primitive", "opt2", "hybrid"}},
    {"placement", {"round_robin", "contiguous", "zigzag"}},
    {"inputs", {"normal", "peaky", "integers"}},
    {"k_layout", {"sd", "ds"}},
    {"T_q", {"1", "5", "31", "32", "33", "128"}},
};

/// The value of a factor; 0 while it is open.
std::int64_t number(const std::vector<Parameter>& factors, const Row& row, std::size_t f) {
  return row[f] < 0 ? 0 : std::stoll(factors[f].values[static_cast<std::size_t>(row[f])]);
}
std::pair<std::int64_t, std::int64_t> heads(const std::vector<Parameter>& factors, const Row& row) {
  if (row[kHeads] < 0) return {6, 1};
  const std::string& text = factors[kHeads].values[static_cast<std::size_t>(row[kHeads])];
  const auto slash = text.find('/');
  return {std::stoll(text.substr(0, slash)), std::stoll(text.substr(slash + 1))};
}

/// What a run of the suite may cost: elements of K (5 M), multiplications of Q x K^T (210 M).
constexpr std::int64_t kMostKeys = 5'000'000, kMostProducts = 210'000'000;

/// Whether the sizes so far keep within that; T_q is 1 for decode.
bool affordable(const std::vector<Parameter>& factors, const Row& row, std::int64_t t_q) {
  const auto [h_q, h_kv] = heads(factors, row);
  const std::int64_t d = std::max<std::int64_t>(64, number(factors, row, kDim));
  const std::int64_t s = std::max(t_q, number(factors, row, kLength));
  return h_kv * s * d <= kMostKeys && h_q * t_q * s * d <= kMostProducts;
}
bool decode_possible(const Row& row) {
  return affordable(kDecode, row, 1);
}
bool prefill_possible(const Row& row) {
  const std::int64_t t_q = std::max<std::int64_t>(1, number(kPrefill, row, kQueries));
  const std::int64_t s = number(kPrefill, row, kLength);
  return (s == 0 || t_q <= s) && affordable(kPrefill, row, t_q);
}

std::vector<Row> rows_of(const std::vector<Parameter>& factors, const Possible& possible) {
  std::vector<std::size_t> sizes;
  for (const Parameter& f : factors) sizes.push_back(f.values.size());
  return covering_rows(sizes, possible);
}
const std::vector<Row>& decode_rows() {
  static const std::vector<Row> kRows = rows_of(kDecode, decode_possible);
  return kRows;
}
const std::vector<Row>& prefill_rows() {
  static const std::vector<Row> kRows = rows_of(kPrefill, prefill_possible);
  return kRows;
}

/// The run that a row stands for. N: decode-long, PEs that share the tokens; short cases, PEs to a head (64: on each
/// of eight cubes); prefill-long, cubes of the ring (64: with 8 PEs for the heads each).
RunSpec spec_of(const std::vector<Parameter>& factors, const Row& row) {
  const auto value = [&](std::size_t f) { return factors[f].values[static_cast<std::size_t>(row[f])]; };
  const std::string bench = value(kBench);
  const auto [h_q, h_kv] = heads(factors, row);
  const std::int64_t n = number(factors, row, kPlaces);
  RunSpec s = spec(n == 64 ? "eight_cubes" : "one_cube", bench, {}, Mode::data);
  s.log = false;
  s.params = {{"H_kv", std::to_string(h_kv)},
              {"G", std::to_string(h_q / h_kv)},
              {"d", value(kDim)},
              {"S_kv", value(kLength)},
              {"dtype", value(kDtype)},
              {"variant", value(kVariant)},
              {"placement", value(kPlacement)},
              {"inputs", value(kInputs)},
              {"k_layout", value(kLayout)},
              {"request_id", "5"}};
  if (factors[kReduce].name == std::string("reduce")) s.params["reduce"] = value(kReduce);
  if (factors[kQueries].name == std::string("T_q")) s.params["T_q"] = value(kQueries);
  if (bench == "gqa-decode-long") {
    s.params["C"] = n == 64 ? "8" : "1";
    s.params["P"] = n == 64 ? "8" : std::to_string(n);
  } else if (bench == "gqa-prefill-long") {
    if (n > 1) s.topology = topology("eight_cubes");
    s.params["C"] = n == 64 ? "8" : std::to_string(n);
    s.params["P"] = n == 64 ? "8" : "1";
  } else {
    s.params["C"] = n == 64 ? "8" : "1";
    s.params["kv_per_cube"] = n == 1 ? "8" : n == 2 ? "4" : n == 3 ? "2" : "1";
    if (n == 3) s.overrides = {{"cube.pes", "[r0c0, r0c1, r1c4, r4c0, r4c1, r5c4]"}, {"cube.pe_grid_cols", "3"}};
  }
  return s;
}

void check(const std::vector<Parameter>& factors, const Row& row) {
  std::string text;
  for (std::size_t f = 0; f < factors.size(); ++f)
    text +=
        std::string(f == 0 ? "" : " ") + factors[f].name + "=" + factors[f].values[static_cast<std::size_t>(row[f])];
  BOOST_TEST_CONTEXT(text) {
    const RunOutcome r = run(spec_of(factors, row));
    BOOST_TEST_MESSAGE(text << ": rel. RMSE " << r.result.numerics.rel_rmse << " of " << r.result.numerics.tolerance);
    BOOST_TEST(r.result.numerics.checked);
    BOOST_TEST(r.result.numerics.pass, "rel. RMSE " << r.result.numerics.rel_rmse);
  }
}

/// The suite runs the rows in this many processes.
constexpr std::size_t kSlices = 12;

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_pairs)

// The set itself: whatever pair is possible is in some row, whatever is in a row is possible, and it is small.
BOOST_AUTO_TEST_CASE(every_possible_pair_is_covered) {
  for (const auto& [factors, rows, possible] : {std::tuple(&kDecode, &decode_rows(), Possible(decode_possible)),
                                                std::tuple(&kPrefill, &prefill_rows(), Possible(prefill_possible))}) {
    std::vector<std::size_t> sizes;
    for (const Parameter& f : *factors) sizes.push_back(f.values.size());
    PairSet pairs(sizes, possible);
    BOOST_TEST(pairs.open() > 800u);
    for (const Row& row : *rows) {
      BOOST_TEST(possible(row));
      pairs.cover(row);
    }
    BOOST_TEST(pairs.open() == 0u);
    BOOST_TEST(rows->size() <= 100u);
  }
  // What is left out for its cost are the longest contexts with more than 64 dimensions, or eight KV heads.
  Row costly(kDecode.size(), -1);
  costly[kLength] = 12;
  BOOST_TEST(decode_possible(costly));
  costly[kDim] = 1;
  BOOST_TEST(!decode_possible(costly));
}

BOOST_DATA_TEST_CASE(decode, boost::unit_test::data::xrange(kSlices), slice) {
  for (std::size_t i = slice; i < decode_rows().size(); i += kSlices) check(kDecode, decode_rows()[i]);
}

BOOST_DATA_TEST_CASE(prefill, boost::unit_test::data::xrange(kSlices), slice) {
  for (std::size_t i = slice; i < prefill_rows().size(); i += kSlices) check(kPrefill, prefill_rows()[i]);
}

BOOST_AUTO_TEST_SUITE_END()
