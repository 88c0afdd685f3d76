#include <kb/kernels/neighbours.h>
#include <kb/tlm_if/errors.h>

namespace kb {

namespace {
constexpr Compass kAll[] = {Compass::north, Compass::south, Compass::east, Compass::west};
}

Direction direction_of(GridLevel level, Compass compass) {
  // The enumerators of Direction come level by level in the order N, S, E, W; cubes first.
  const int base = level == GridLevel::cube ? static_cast<int>(Direction::N)
                   : level == GridLevel::pe ? static_cast<int>(Direction::intra_N)
                                            : static_cast<int>(Direction::global_N);
  return static_cast<Direction>(base + static_cast<int>(compass));
}

Direction opposite(Direction direction) {
  // N <-> S and E <-> W differ in the lowest bit.
  return static_cast<Direction>(static_cast<int>(direction) ^ 1);
}

std::optional<std::uint32_t> NeighbourGrid::neighbour(std::uint32_t cell, Compass compass) const {
  const std::uint32_t col = cell % cols;
  switch (compass) {
    case Compass::north: return cell >= cols ? std::optional<std::uint32_t>(cell - cols) : std::nullopt;
    case Compass::south: return cell + cols < count ? std::optional<std::uint32_t>(cell + cols) : std::nullopt;
    case Compass::east:
      return col + 1 < cols && cell + 1 < count ? std::optional<std::uint32_t>(cell + 1) : std::nullopt;
    case Compass::west: return col > 0 ? std::optional<std::uint32_t>(cell - 1) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> NeighbourGrid::neighbours(std::uint32_t cell) const {
  std::vector<std::uint32_t> all;
  for (const Compass c : kAll)
    if (const auto n = neighbour(cell, c)) all.push_back(*n);
  return all;
}

std::optional<Compass> NeighbourGrid::compass(std::uint32_t from, std::uint32_t to) const {
  for (const Compass c : kAll)
    if (neighbour(from, c) == to) return c;
  return std::nullopt;
}

QueueRoute neighbour_route(GridLevel level, const NeighbourGrid& grid, std::uint32_t from, std::uint32_t to,
                           std::uint32_t from_rank, std::uint32_t to_rank) {
  const auto compass = grid.compass(from, to);
  if (!compass)
    throw InputError("queue route: found cells " + std::to_string(from) + " and " + std::to_string(to) + " of a grid " +
                     std::to_string(grid.cols) + " wide, which do not touch; allowed: neighbours");
  const Direction direction = direction_of(level, *compass);
  return {from_rank, direction, to_rank, opposite(direction)};
}

}  // namespace kb
