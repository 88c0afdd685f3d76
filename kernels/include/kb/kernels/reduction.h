// Reductions to a root over neighbours of a grid: trees and chains (spec 6.3).
#pragma once

#include <kb/kernels/neighbours.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kb {

/// Who sends to whom, in rounds. Each cell but the root sends once, after it has received from all its senders; a
/// cell receives in the order (round, sender), which is the order of summation.
class ReductionPlan {
 public:
  struct Edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };

  /// tree: the tables of spec 6.3 for up to 8 and for 12 to 16 cells of a grid 4 wide; otherwise the fewest rounds
  /// found over neighbours (exact up to 16 cells). A root and ceil(log2 N) rounds where the grid allows it.
  static ReductionPlan tree(const NeighbourGrid& grid);
  /// chain: each row toward the root's column, then that column; the root is the tree's. N - 1 transfers.
  static ReductionPlan chain(const NeighbourGrid& grid);
  /// The same toward any cell. Throws InputError for a root outside the grid.
  static ReductionPlan chain(const NeighbourGrid& grid, std::uint32_t root);

  const NeighbourGrid& grid() const { return grid_; }
  std::uint32_t root() const { return root_; }
  const std::vector<std::vector<Edge>>& rounds() const { return rounds_; }
  std::size_t transfers() const;
  /// Whom a cell receives from, in order of summation; whom it sends to (nothing: the root).
  std::vector<std::uint32_t> senders(std::uint32_t cell) const;
  std::optional<std::uint32_t> receiver(std::uint32_t cell) const;
  /// "4>0 5>1 | 0>1"
  std::string str() const;

 private:
  ReductionPlan(const NeighbourGrid& grid, std::uint32_t root, std::vector<std::vector<Edge>> rounds);
  NeighbourGrid grid_;
  std::uint32_t root_ = 0;
  std::vector<std::vector<Edge>> rounds_;
};

}  // namespace kb
