#include <kb/kernels/collectives/rank_tree.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace kb::collectives {

namespace {

using Edge = ReductionPlan::Edge;
using Rounds = std::vector<std::vector<Edge>>;

/// SIPs on a switch: neighbours all, so that half of those left can send in every round.
Rounds binomial(std::uint32_t count) {
  Rounds rounds;
  for (std::uint32_t step = 1; step < count; step *= 2) {
    rounds.emplace_back();
    for (std::uint32_t i = step; i < count; i += 2 * step) rounds.back().push_back({i, i - step});
  }
  return rounds;
}

std::string str(const Rounds& rounds) {
  std::string text;
  for (const auto& round : rounds) {
    if (!text.empty()) text += " |";
    for (const auto& e : round) text += (text.empty() ? "" : " ") + std::to_string(e.from) + ">" + std::to_string(e.to);
  }
  return text.empty() ? "-" : text;
}

std::uint32_t parts(std::uint32_t n, std::uint32_t size) {
  return (n + size - 1) / size;
}

/// Number of the `size` units of group `i` that `n` units fill.
std::uint32_t filled(std::uint32_t n, std::uint32_t i, std::uint32_t size) {
  return std::min(size, n - i * size);
}

void check_world(const MachineInfo& m, std::uint32_t world) {
  if (world < 1 || world > m.total_pes())
    throw InputError("world: found " + std::to_string(world) + "; allowed: 1 .. " + std::to_string(m.total_pes()));
}

}  // namespace

/// The members of one group as cells, and who sends to whom among them.
struct RankTree::Level {
  std::vector<std::uint32_t> ranks;  // by cell
  std::uint32_t root = 0;            // cell
  Rounds rounds;
};

void RankTree::add_level(const char* name, const std::vector<Level>& groups) {
  std::size_t longest = 0;
  for (const auto& group : groups) {
    longest = std::max(longest, group.rounds.size());
    for (const std::uint32_t rank : group.ranks) nodes_[rank];
    for (const auto& round : group.rounds)
      for (const Edge& e : round) {
        nodes_[group.ranks[e.from]].parent = group.ranks[e.to];
        nodes_[group.ranks[e.to]].children.push_back(group.ranks[e.from]);
      }
  }
  rounds_ += static_cast<std::uint32_t>(longest);
  if (longest > 0) text_ += (text_.empty() ? "" : "; ") + std::string(name) + " " + str(groups.front().rounds);
  root_ = groups.front().ranks[groups.front().root];
  ranks_.clear();
  for (const auto& [rank, node] : nodes_) ranks_.push_back(rank);
}

RankTree RankTree::tree(const MachineInfo& m, std::uint32_t world) {
  check_world(m, world);
  RankTree t;
  const auto grid_level = [](const std::vector<std::uint32_t>& ranks, std::uint32_t cols) {
    const auto plan = ReductionPlan::tree({cols, static_cast<std::uint32_t>(ranks.size())});
    return Level{ranks, plan.root(), plan.rounds()};
  };
  const auto roots_of = [](const std::vector<Level>& groups) {
    std::vector<std::uint32_t> roots;
    for (const auto& g : groups) roots.push_back(g.ranks[g.root]);
    return roots;
  };
  std::vector<Level> cubes;
  const std::uint32_t all_cubes = parts(world, m.pes_per_cube);
  for (std::uint32_t c = 0; c < all_cubes; ++c) {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t i = 0; i < filled(world, c, m.pes_per_cube); ++i) ranks.push_back(c * m.pes_per_cube + i);
    cubes.push_back(grid_level(ranks, m.pe_cols));
  }
  t.add_level("PEs", cubes);
  const auto cube_roots = roots_of(cubes);
  std::vector<Level> sips;
  for (std::uint32_t s = 0; s < parts(all_cubes, m.cubes_per_sip()); ++s) {
    const auto first = cube_roots.begin() + static_cast<std::ptrdiff_t>(s * m.cubes_per_sip());
    sips.push_back(grid_level({first, first + filled(all_cubes, s, m.cubes_per_sip())}, m.cube_cols));
  }
  t.add_level("cubes", sips);
  const auto sip_roots = roots_of(sips);
  const auto count = static_cast<std::uint32_t>(sip_roots.size());
  t.add_level("SIPs", {m.sip_fabric == SipFabric::sw ? Level{sip_roots, 0, binomial(count)}
                                                     : grid_level(sip_roots, m.sip_cols)});
  return t;
}

RankTree RankTree::mesh(const MachineInfo& m, std::uint32_t world, std::uint32_t root) {
  check_world(m, world);
  if (root >= world)
    throw InputError("root: found " + std::to_string(root) +
                     "; allowed: a rank below world = " + std::to_string(world));
  RankTree t;
  const PeId to = m.pe_of(root);
  const auto chain_level = [](const std::vector<std::uint32_t>& ranks, std::uint32_t cols, std::uint32_t root_cell) {
    const auto plan = ReductionPlan::chain({cols, static_cast<std::uint32_t>(ranks.size())}, root_cell);
    return Level{ranks, root_cell, plan.rounds()};
  };
  const std::uint32_t all_cubes = parts(world, m.pes_per_cube);
  std::vector<Level> cubes, sips;
  std::vector<std::uint32_t> cube_roots, sip_roots;
  for (std::uint32_t c = 0; c < all_cubes; ++c) {
    const std::uint32_t count = filled(world, c, m.pes_per_cube), cell = std::min(to.pe, count - 1);
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t i = 0; i < count; ++i) ranks.push_back(c * m.pes_per_cube + i);
    cube_roots.push_back(ranks[cell]);
    cubes.push_back(chain_level(ranks, m.pe_cols, cell));
  }
  t.add_level("PEs", cubes);
  for (std::uint32_t s = 0; s < parts(all_cubes, m.cubes_per_sip()); ++s) {
    const std::uint32_t count = filled(all_cubes, s, m.cubes_per_sip()), cell = std::min(to.cube, count - 1);
    const auto first = cube_roots.begin() + static_cast<std::ptrdiff_t>(s * m.cubes_per_sip());
    sips.push_back(chain_level({first, first + count}, m.cube_cols, cell));
    sip_roots.push_back(sips.back().ranks[cell]);
  }
  t.add_level("cubes", sips);
  t.add_level("SIPs", {chain_level(sip_roots, m.sip_cols, to.sip)});
  return t;
}

RankTree RankTree::centre(const MachineInfo& m, std::uint32_t sips, bool join_sips) {
  if (sips < 1 || sips > m.sips)
    throw InputError("world: found " + std::to_string(sips) + " SIPs; allowed: 1 .. " + std::to_string(m.sips));
  RankTree t;
  const std::uint32_t centre_cube = (m.cube_rows / 2) * m.cube_cols + m.cube_cols / 2;
  std::vector<Level> groups;
  std::vector<std::uint32_t> roots;
  for (std::uint32_t s = 0; s < sips; ++s) {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t c = 0; c < m.cubes_per_sip(); ++c) ranks.push_back(m.rank_of({s, c, 0}));
    groups.push_back(
        {ranks, centre_cube, ReductionPlan::chain({m.cube_cols, m.cubes_per_sip()}, centre_cube).rounds()});
    roots.push_back(ranks[centre_cube]);
  }
  t.add_level("cubes", groups);
  if (join_sips) {
    const NeighbourGrid grid{m.sip_cols, sips};
    const std::uint32_t row = grid.rows() / 2;
    const std::uint32_t centre_sip = row * grid.cols + grid.width_of_row(row) / 2;
    t.add_level("SIPs", {{roots, centre_sip, ReductionPlan::chain(grid, centre_sip).rounds()}});
  }
  return t;
}

std::uint32_t RankTree::depth() const {
  std::uint32_t deepest = 0;
  for (const std::uint32_t rank : ranks_) {
    std::uint32_t edges = 0;
    for (auto at = nodes_.at(rank).parent; at; at = nodes_.at(*at).parent) ++edges;
    deepest = std::max(deepest, edges);
  }
  return deepest;
}

std::vector<std::uint32_t> RankTree::subtree(std::uint32_t rank) const {
  std::vector<std::uint32_t> all;
  const std::function<void(std::uint32_t)> visit = [&](std::uint32_t r) {
    all.push_back(r);
    for (const std::uint32_t child : nodes_.at(r).children) visit(child);
  };
  visit(rank);
  return all;
}

}  // namespace kb::collectives
