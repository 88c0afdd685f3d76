#include <kb/kernels/collectives/groups.h>

#include <algorithm>
#include <utility>

namespace kb::collectives {

Ring::Ring(QueueSet& queues, std::vector<std::uint32_t> order, Direction next, Direction previous, bool chunks_by_rank)
    : order_(std::move(order)), next_(next), previous_(previous) {
  for (std::uint32_t i = 0; i < size(); ++i) position_[order_[i]] = i;
  if (size() > 1)
    for (std::uint32_t i = 0; i < size(); ++i) queues.connect(order_[i], next, order_[(i + 1) % size()], previous);
  if (chunks_by_rank) {
    chunks_.resize(order_.size());
    std::uint32_t chunk = 0;
    for (const auto& [rank, position] : position_) chunks_[position] = chunk++;
  }
}

RingPlace Ring::place(std::uint32_t rank) const {
  return {position(rank), size(), next_, previous_, chunks_};
}

Tree::Tree(QueueSet& queues, const RankTree& tree, bool climbs, bool descends) : tree_(tree) {
  for (const std::uint32_t rank : tree_.ranks()) {
    chunk_of_.emplace(rank, static_cast<std::uint32_t>(chunk_of_.size()));
    const auto parent = tree_.node(rank).parent;
    if (!parent) continue;
    Edge& edge = edges_[rank];
    if (climbs) edge.up = queues.connect(rank, *parent);
    if (descends) edge.down = queues.connect(*parent, rank);
  }
}

TreePlace Tree::place(std::uint32_t rank) const {
  const RankTree::Node& node = tree_.node(rank);
  TreePlace place;
  place.is_root = !node.parent;
  if (node.parent) {
    place.up = edges_.at(rank).up.direction;
    place.down = edges_.at(rank).down.arrives_as;
  }
  for (const std::uint32_t child : node.children) {
    TreePlace::Child c;
    c.direction = edges_.at(child).up.arrives_as;
    c.back = edges_.at(child).down.direction;
    for (const std::uint32_t below : tree_.subtree(child)) c.chunks.push_back(chunk_of_.at(below));
    place.children.push_back(std::move(c));
  }
  place.chunk = chunk_of_.at(rank);
  place.size = static_cast<std::uint32_t>(tree_.ranks().size());
  return place;
}

}  // namespace kb::collectives
