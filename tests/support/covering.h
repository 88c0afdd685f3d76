// Pairwise covering sets: few combinations of parameter values in which every pair of values occurs together, or every
// pair that can.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kb::test {

/// The index of each factor's value; -1 where it is open.
using Row = std::vector<int>;

/// Whether the values that a row has can occur together; open factors are as favourable as they can be.
using Possible = std::function<bool(const Row&)>;

/// All pairs (factor, value, factor, value) that can occur, and those of them that some row has.
class PairSet {
 public:
  PairSet(const std::vector<std::size_t>& sizes, const Possible& possible) : sizes_(sizes) {
    for (std::size_t f = 0; f < sizes.size(); ++f)
      for (std::size_t g = f + 1; g < sizes.size(); ++g)
        for (std::size_t v = 0; v < sizes[f]; ++v)
          for (std::size_t w = 0; w < sizes[g]; ++w) {
            Row row(sizes.size(), -1);
            row[f] = static_cast<int>(v);
            row[g] = static_cast<int>(w);
            if (possible(row)) open_.push_back(row);
          }
  }

  std::size_t open() const { return open_.size(); }
  /// The first open pair as a row; call it while open() > 0.
  const Row& first() const { return open_.front(); }
  /// Open pairs of which `row` has both values.
  std::size_t gain(const Row& row) const {
    std::size_t n = 0;
    for (const Row& pair : open_) n += has(row, pair) ? 1 : 0;
    return n;
  }
  void cover(const Row& row) {
    std::vector<Row> left;
    for (const Row& pair : open_)
      if (!has(row, pair)) left.push_back(pair);
    open_ = std::move(left);
  }

 private:
  static bool has(const Row& row, const Row& pair) {
    for (std::size_t f = 0; f < row.size(); ++f)
      if (pair[f] >= 0 && pair[f] != row[f]) return false;
    return true;
  }
  std::vector<std::size_t> sizes_;
  std::vector<Row> open_;
};

/// Greedy and deterministic: each row starts from the first open pair and takes, factor by factor, the value that
/// covers most open pairs (the first on a tie).
inline std::vector<Row> covering_rows(const std::vector<std::size_t>& sizes, const Possible& possible) {
  PairSet pairs(sizes, possible);
  std::vector<Row> rows;
  while (pairs.open() > 0) {
    Row row = pairs.first();
    for (std::size_t f = 0; f < sizes.size(); ++f) {
      if (row[f] >= 0) continue;
      int best = -1;
      std::size_t most = 0;
      for (std::size_t v = 0; v < sizes[f]; ++v) {
        Row with = row;
        with[f] = static_cast<int>(v);
        if (!possible(with)) continue;
        const std::size_t gain = pairs.gain(with);
        if (best < 0 || gain > most) {
          best = static_cast<int>(v);
          most = gain;
        }
      }
      row[f] = best;
    }
    rows.push_back(row);
    pairs.cover(row);
  }
  return rows;
}

struct Factor {
  std::string name;
  std::vector<std::string> values;
};
using Combination = std::map<std::string, std::string>;

/// Rows that hold every pair of values of two different factors at least once.
inline std::vector<Combination> covering_set(const std::vector<Factor>& factors) {
  std::vector<std::size_t> sizes;
  for (const Factor& f : factors) sizes.push_back(f.values.size());
  std::vector<Combination> combinations;
  for (const Row& row : covering_rows(sizes, [](const Row&) { return true; })) {
    Combination combination;
    for (std::size_t f = 0; f < factors.size(); ++f)
      combination[factors[f].name] = factors[f].values[static_cast<std::size_t>(row[f])];
    combinations.push_back(std::move(combination));
  }
  return combinations;
}

/// Every pair that `rows` lack, in words; empty for a covering set.
inline std::string missing_pairs(const std::vector<Factor>& factors, const std::vector<Combination>& rows) {
  std::string text;
  for (const Factor& f : factors)
    for (const Factor& g : factors)
      if (f.name < g.name)
        for (const auto& v : f.values)
          for (const auto& w : g.values) {
            bool found = false;
            for (const Combination& r : rows) found = found || (r.at(f.name) == v && r.at(g.name) == w);
            if (!found) text += f.name + "=" + v + " with " + g.name + "=" + w + "; ";
          }
  return text;
}

}  // namespace kb::test
