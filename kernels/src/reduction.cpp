#include <kb/kernels/reduction.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

namespace kb {

namespace {

using Edge = ReductionPlan::Edge;
using Rounds = std::vector<std::vector<Edge>>;

/// Two rows of four: every pair touches, 3 rounds to cell 1.
const Rounds& table_4x2() {
  static const Rounds kTable{{{4, 0}, {5, 1}, {6, 2}, {7, 3}}, {{0, 1}, {3, 2}}, {{2, 1}}};
  return kTable;
}

/// Four rows of four: 4 rounds to cell 10.
const Rounds& table_4x4() {
  static const Rounds kTable{{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {12, 8}, {13, 9}, {14, 10}, {15, 11}},
                             {{4, 8}, {5, 9}, {6, 10}, {7, 11}},
                             {{8, 9}, {11, 10}},
                             {{9, 10}}};
  return kTable;
}

Rounds present(const Rounds& table, std::uint32_t count) {
  Rounds rounds;
  for (const auto& round : table) {
    std::vector<Edge> edges;
    for (const auto& e : round)
      if (e.from < count && e.to < count) edges.push_back(e);
    if (!edges.empty()) rounds.push_back(std::move(edges));
  }
  return rounds;
}

std::uint32_t log2_ceil(std::uint32_t n) {
  std::uint32_t rounds = 0;
  while ((std::uint64_t{1} << rounds) < n) ++rounds;
  return rounds;
}

/// A reduction is a broadcast run backwards. Looks for a broadcast in a given number of rounds by depth-first
/// search over the sets of informed cells; sets that failed are remembered.
class BroadcastSearch {
 public:
  explicit BroadcastSearch(const NeighbourGrid& grid) : grid_(grid) {
    for (std::uint32_t i = 0; i < grid.count; ++i) neighbours_.push_back(grid.neighbours(i));
  }

  /// Rounds of the broadcast in its own order (edges from informed to informed-next), if there is one.
  std::optional<Rounds> find(std::uint32_t root, std::uint32_t rounds) {
    failed_.clear();
    schedule_.clear();
    if (!extend(1u << root, rounds)) return std::nullopt;
    return schedule_;
  }

 private:
  bool extend(std::uint32_t informed, std::uint32_t left) {
    const std::uint32_t all = (1u << grid_.count) - 1;
    if (informed == all) return true;
    if (left == 0 || !reachable(informed, left)) return false;
    if (failed_.count({informed, left})) return false;
    schedule_.emplace_back();
    if (match(informed, informed, 0, left)) return true;
    schedule_.pop_back();
    failed_.insert({informed, left});
    return false;
  }

  /// Lets the informed cells from `cell` on choose whom they tell in this round.
  bool match(std::uint32_t informed, std::uint32_t told, std::uint32_t cell, std::uint32_t left) {
    while (cell < grid_.count && !(informed >> cell & 1u)) ++cell;
    if (cell == grid_.count) return told != informed && extend(told, left - 1);
    bool could_tell = false;
    for (const std::uint32_t n : neighbours_[cell]) {
      if (told >> n & 1u) continue;
      could_tell = true;
      const std::size_t depth = schedule_.size();
      schedule_.back().push_back({cell, n});
      if (match(informed, told | 1u << n, cell + 1, left)) return true;
      schedule_.resize(depth);
      schedule_.back().pop_back();
    }
    // Telling nobody helps only when somebody else tells all of this cell's neighbours.
    return could_tell ? false : match(informed, told, cell + 1, left);
  }

  bool reachable(std::uint32_t informed, std::uint32_t left) const {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < grid_.count; ++i) count += informed >> i & 1u;
    if (left < 31 && (static_cast<std::uint64_t>(count) << left) < grid_.count) return false;
    std::uint32_t reach = informed;
    for (std::uint32_t step = 0; step < left; ++step) {
      std::uint32_t next = reach;
      for (std::uint32_t i = 0; i < grid_.count; ++i)
        if (reach >> i & 1u)
          for (const std::uint32_t n : neighbours_[i]) next |= 1u << n;
      reach = next;
    }
    return reach == (1u << grid_.count) - 1;
  }

  NeighbourGrid grid_;
  std::vector<std::vector<std::uint32_t>> neighbours_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> failed_;
  Rounds schedule_;
};

/// The cell that `cell` passes its sum to when rows run toward the root's column and that column to the root; a
/// last row that ends before the column moves up where it ends.
std::uint32_t comb_parent(const NeighbourGrid& grid, std::uint32_t root, std::uint32_t cell) {
  const std::uint32_t row = cell / grid.cols, col = cell % grid.cols;
  const std::uint32_t root_row = root / grid.cols, root_col = root % grid.cols;
  if (col < root_col) return col + 1 < grid.width_of_row(row) ? cell + 1 : cell - grid.cols;
  if (col > root_col) return cell - 1;
  return row < root_row ? cell + grid.cols : cell - grid.cols;
}

/// Larger grids: the best order of sends along the comb, by the rule of broadcast in trees (a parent serves its
/// deepest child first).
std::pair<std::uint32_t, Rounds> comb_broadcast(const NeighbourGrid& grid, std::uint32_t root) {
  std::vector<std::vector<std::uint32_t>> children(grid.count);
  for (std::uint32_t i = 0; i < grid.count; ++i)
    if (i != root) children[comb_parent(grid, root, i)].push_back(i);
  std::vector<std::uint32_t> need(grid.count, 0);
  const std::function<void(std::uint32_t)> measure = [&](std::uint32_t cell) {
    auto& c = children[cell];
    for (const std::uint32_t child : c) measure(child);
    std::sort(c.begin(), c.end(),
              [&need](std::uint32_t a, std::uint32_t b) { return need[a] != need[b] ? need[a] > need[b] : a < b; });
    for (std::size_t i = 0; i < c.size(); ++i)
      need[cell] = std::max(need[cell], static_cast<std::uint32_t>(i) + 1 + need[c[i]]);
  };
  measure(root);
  Rounds rounds(need[root]);
  const std::function<void(std::uint32_t, std::uint32_t)> schedule = [&](std::uint32_t cell, std::uint32_t from) {
    for (std::size_t i = 0; i < children[cell].size(); ++i) {
      const auto round = from + static_cast<std::uint32_t>(i);
      rounds[round].push_back({cell, children[cell][i]});
      schedule(children[cell][i], round + 1);
    }
  };
  schedule(root, 0);
  return {need[root], rounds};
}

Rounds backwards(Rounds broadcast) {
  std::reverse(broadcast.begin(), broadcast.end());
  for (auto& round : broadcast) {
    for (auto& e : round) std::swap(e.from, e.to);
    std::sort(round.begin(), round.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
  }
  return broadcast;
}

std::pair<std::uint32_t, Rounds> search(const NeighbourGrid& grid) {
  // Root 1 first, as in the tables, so that small groups agree with them.
  std::vector<std::uint32_t> roots;
  if (grid.count > 1) roots.push_back(1);
  for (std::uint32_t i = 0; i < grid.count; ++i)
    if (i != 1) roots.push_back(i);
  if (grid.count <= 16) {
    BroadcastSearch searcher(grid);
    for (std::uint32_t rounds = log2_ceil(grid.count);; ++rounds)
      for (const std::uint32_t root : roots)
        if (auto found = searcher.find(root, rounds)) return {root, backwards(std::move(*found))};
  }
  std::pair<std::uint32_t, Rounds> best;
  std::uint32_t best_rounds = grid.count;
  for (const std::uint32_t root : roots) {
    auto candidate = comb_broadcast(grid, root);
    if (candidate.first < best_rounds) {
      best_rounds = candidate.first;
      best = {root, std::move(candidate.second)};
    }
  }
  best.second = backwards(std::move(best.second));
  return best;
}

}  // namespace

ReductionPlan::ReductionPlan(const NeighbourGrid& grid, std::uint32_t root, Rounds rounds)
    : grid_(grid), root_(root), rounds_(std::move(rounds)) {}

ReductionPlan ReductionPlan::tree(const NeighbourGrid& grid) {
  if (grid.count <= 1) return {grid, 0, {}};
  if (grid.cols == 4 && grid.count <= 8) return {grid, 1, present(table_4x2(), grid.count)};
  if (grid.cols == 4 && grid.count >= 12 && grid.count <= 16) return {grid, 10, present(table_4x4(), grid.count)};
  auto [root, rounds] = search(grid);
  return {grid, root, std::move(rounds)};
}

ReductionPlan ReductionPlan::chain(const NeighbourGrid& grid) {
  return chain(grid, tree(grid).root());
}

ReductionPlan ReductionPlan::chain(const NeighbourGrid& grid, std::uint32_t root) {
  if (root >= grid.count)
    throw InputError("chain: found root " + std::to_string(root) + "; allowed: a cell below " +
                     std::to_string(grid.count));
  const std::uint32_t root_col = root % grid.cols;
  // Round in which each cell sends: one after the last that it receives. The column starts when all rows are done.
  std::vector<std::uint32_t> sends(grid.count, 0);
  const std::function<std::uint32_t(std::uint32_t, bool)> round_of = [&](std::uint32_t cell,
                                                                         bool column) -> std::uint32_t {
    std::uint32_t last = 0;
    for (const std::uint32_t n : grid.neighbours(cell)) {
      if (n == root || comb_parent(grid, root, n) != cell) continue;
      const bool in_column = n % grid.cols == root_col;
      if (in_column == column) last = std::max(last, round_of(n, column));
    }
    return last + 1;
  };
  std::uint32_t row_rounds = 0;
  for (std::uint32_t i = 0; i < grid.count; ++i)
    if (i % grid.cols != root_col) row_rounds = std::max(row_rounds, sends[i] = round_of(i, false));
  std::uint32_t all_rounds = row_rounds;
  for (std::uint32_t i = 0; i < grid.count; ++i)
    if (i % grid.cols == root_col && i != root)
      all_rounds = std::max(all_rounds, sends[i] = row_rounds + round_of(i, true));
  Rounds rounds(all_rounds);
  for (std::uint32_t i = 0; i < grid.count; ++i)
    if (i != root) rounds[sends[i] - 1].push_back({i, comb_parent(grid, root, i)});
  return {grid, root, std::move(rounds)};
}

std::size_t ReductionPlan::transfers() const {
  std::size_t n = 0;
  for (const auto& round : rounds_) n += round.size();
  return n;
}

std::vector<std::uint32_t> ReductionPlan::senders(std::uint32_t cell) const {
  std::vector<std::uint32_t> all;
  for (const auto& round : rounds_)
    for (const auto& e : round)
      if (e.to == cell) all.push_back(e.from);
  return all;
}

std::optional<std::uint32_t> ReductionPlan::receiver(std::uint32_t cell) const {
  for (const auto& round : rounds_)
    for (const auto& e : round)
      if (e.from == cell) return e.to;
  return std::nullopt;
}

std::string ReductionPlan::str() const {
  std::string text;
  for (const auto& round : rounds_) {
    if (!text.empty()) text += " |";
    for (const auto& e : round) text += (text.empty() ? "" : " ") + std::to_string(e.from) + ">" + std::to_string(e.to);
  }
  return text;
}

}  // namespace kb
