// Queues between any PEs: which direction joins whom, for LaunchOptions.queues (spec 5.1, 5.2).
#pragma once

#include <kb/kernels/neighbours.h>
#include <kb/tlm_if/host.h>

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kb::collectives {

/// The first `world` ranks along the snake: inside a cube row by row, every second row backwards (0 1 2 3 7 6 5 4
/// of 2 x 4), the cubes of a SIP the same way, SIPs in order. Throws InputError unless 1 <= world <= all PEs.
std::vector<std::uint32_t> snake_order(const MachineInfo& machine, std::uint32_t world);

/// Cells 0 .. count-1 of a row-major grid in snake order.
std::vector<std::uint32_t> snake_cells(std::uint32_t cols, std::uint32_t count);

/// The direction in which `to` is the neighbour of `from`: the next PE of the cube's grid, the PE of the same index in
/// the next cube, or that of the same cube and index in the next SIP (rings and tori also around their edge; SIPs on a
/// switch all touch, and those that are not next to each other in the row of SIPs have no name for it).
std::optional<Direction> link_direction(const MachineInfo& machine, std::uint32_t from, std::uint32_t to);

/// Whether a message between the two passes no third PE's place: there is a direction, or a switch joins them.
bool are_neighbours(const MachineInfo& machine, std::uint32_t from, std::uint32_t to);

/// The way a message takes between cubes (columns first) and SIPs: "sip0.cube3.pe4 > cube2 > sip0.cube1.pe0". What
/// happens inside a cube or an IO chiplet is shown by `kernbench route`.
std::string describe_path(const MachineInfo& machine, std::uint32_t from, std::uint32_t to);

/// "sip0.cube3.pe4"
std::string short_name(const MachineInfo& machine, std::uint32_t rank);

/// Collects the queues of a launch. Every PE has each direction once to send and once to receive.
class QueueSet {
 public:
  explicit QueueSet(const MachineInfo& machine) : machine_(machine) {}

  /// The queue from one PE to another, made when it is asked for first: neighbours under the direction that joins
  /// them (the receiver sees the opposite one), others, or where that direction is taken, under free ones.
  /// Throws InputError for ranks that do not exist, for a queue to oneself, and when no direction is free.
  QueueRoute connect(std::uint32_t from, std::uint32_t to);
  /// The same under given names. Throws InputError also when one of them is taken.
  QueueRoute connect(std::uint32_t from, Direction direction, std::uint32_t to, Direction arrives_as);

  const std::vector<QueueRoute>& routes() const { return routes_; }
  /// The queues between PEs that are no neighbours, in the order of their making.
  std::vector<QueueRoute> routed() const;

 private:
  QueueRoute add(const QueueRoute& route);
  void check(std::uint32_t from, std::uint32_t to) const;

  MachineInfo machine_;
  std::vector<QueueRoute> routes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> index_;
  std::map<std::uint32_t, std::bitset<kDirections>> sends_, receives_;  // taken, by rank
};

}  // namespace kb::collectives
