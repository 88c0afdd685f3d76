// Grids of PEs, cubes and SIPs: who is whose neighbour, and what the direction is called.
#pragma once

#include <kb/tlm_if/command.h>
#include <kb/tlm_if/host.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kb {

/// What a grid's cells are: PEs of a cube (intra_*), cubes of a SIP (N S E W), SIPs (global_*).
enum class GridLevel : std::uint8_t { pe, cube, sip };

enum class Compass : std::uint8_t { north, south, east, west };

Direction direction_of(GridLevel level, Compass compass);
/// How the receiver names the queue that a sender calls `direction`.
Direction opposite(Direction direction);

/// The first `count` cells of a row-major grid; north is the row above.
struct NeighbourGrid {
  std::uint32_t cols = 1;
  std::uint32_t count = 1;

  std::uint32_t rows() const { return (count + cols - 1) / cols; }
  std::uint32_t width_of_row(std::uint32_t row) const { return row + 1 < rows() ? cols : count - row * cols; }
  /// The cell next to `cell`, if it is there.
  std::optional<std::uint32_t> neighbour(std::uint32_t cell, Compass compass) const;
  /// All neighbours, in the order north, south, east, west.
  std::vector<std::uint32_t> neighbours(std::uint32_t cell) const;
  /// Direction from one cell to a neighbour; nothing where they do not touch.
  std::optional<Compass> compass(std::uint32_t from, std::uint32_t to) const;
};

/// A route between two neighbouring cells of a grid, whose ranks are given. Throws InputError where they do not touch.
QueueRoute neighbour_route(GridLevel level, const NeighbourGrid& grid, std::uint32_t from, std::uint32_t to,
                           std::uint32_t from_rank, std::uint32_t to_rank);

}  // namespace kb
