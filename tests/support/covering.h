// Pairwise covering sets: few combinations of parameter values in which every pair of values occurs together.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kb::test {

struct Factor {
  std::string name;
  std::vector<std::string> values;
};
using Combination = std::map<std::string, std::string>;

/// Rows that hold every pair of values of two different factors at least once. Greedy and deterministic: each row
/// starts from the first pair that is missing, and each further factor takes the value that adds most missing pairs.
inline std::vector<Combination> covering_set(const std::vector<Factor>& factors) {
  using Choice = std::pair<std::size_t, std::size_t>;  // factor, value
  std::set<std::pair<Choice, Choice>> missing;
  for (std::size_t f = 0; f < factors.size(); ++f)
    for (std::size_t g = f + 1; g < factors.size(); ++g)
      for (std::size_t v = 0; v < factors[f].values.size(); ++v)
        for (std::size_t w = 0; w < factors[g].values.size(); ++w) missing.insert({{f, v}, {g, w}});
  const auto pair = [](const Choice& a, const Choice& b) { return a < b ? std::pair(a, b) : std::pair(b, a); };

  std::vector<Combination> rows;
  while (!missing.empty()) {
    std::vector<Choice> row{missing.begin()->first, missing.begin()->second};
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (f == row[0].first || f == row[1].first) continue;
      Choice best{f, rows.size() % factors[f].values.size()};
      std::size_t most = 0;
      for (std::size_t v = 0; v < factors[f].values.size(); ++v) {
        std::size_t gain = 0;
        for (const Choice& c : row) gain += missing.count(pair(c, {f, v}));
        if (gain > most) {
          most = gain;
          best.second = v;
        }
      }
      row.push_back(best);
    }
    Combination combination;
    for (std::size_t i = 0; i < row.size(); ++i) {
      combination[factors[row[i].first].name] = factors[row[i].first].values[row[i].second];
      for (std::size_t k = 0; k < i; ++k) missing.erase(pair(row[i], row[k]));
    }
    rows.push_back(std::move(combination));
  }
  return rows;
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
