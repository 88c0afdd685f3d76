// Groups of ranks with the queues that join them: made on the host before a launch, handed to the kernel by value.
#pragma once

#include <kb/kernels/collectives/moves.h>
#include <kb/kernels/collectives/queue_set.h>
#include <kb/kernels/collectives/rank_tree.h>

#include <cstdint>
#include <map>
#include <vector>

namespace kb::collectives {

/// A ring of ranks.
class Ring {
 public:
  /// Joins each rank of `order` to the next and the last to the first, as `next` of the sender and `previous` of the
  /// receiver. With `chunks_by_rank` chunk i belongs to the i-th rank in ascending order, else to the i-th of the
  /// order.
  Ring(QueueSet& queues, std::vector<std::uint32_t> order, Direction next, Direction previous, bool chunks_by_rank);

  std::uint32_t size() const { return static_cast<std::uint32_t>(order_.size()); }
  const std::vector<std::uint32_t>& order() const { return order_; }
  bool has(std::uint32_t rank) const { return position_.count(rank) != 0; }
  std::uint32_t position(std::uint32_t rank) const { return position_.at(rank); }
  RingPlace place(std::uint32_t rank) const;

 private:
  std::vector<std::uint32_t> order_;
  std::map<std::uint32_t, std::uint32_t> position_;
  std::vector<std::uint32_t> chunks_;
  Direction next_, previous_;
};

/// A tree of ranks with queues along its edges.
class Tree {
 public:
  /// Joins children to parents (`climbs`), parents to children (`descends`), or both. Chunk i belongs to the i-th rank
  /// of the tree in ascending order.
  Tree(QueueSet& queues, const RankTree& tree, bool climbs, bool descends);

  const RankTree& ranks() const { return tree_; }
  TreePlace place(std::uint32_t rank) const;

 private:
  RankTree tree_;
  std::map<std::uint32_t, std::uint32_t> chunk_of_;
  struct Edge {
    QueueRoute up, down;
  };
  std::map<std::uint32_t, Edge> edges_;  // by child
};

}  // namespace kb::collectives
