#include <kb/kernels/collectives/queue_set.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb::collectives {

namespace {

constexpr Compass kAll[] = {Compass::east, Compass::west, Compass::north, Compass::south};

NeighbourGrid pe_cells(const MachineInfo& m) {
  return {m.pe_cols, m.pes_per_cube};
}
NeighbourGrid cube_cells(const MachineInfo& m) {
  return {m.cube_cols, m.cubes_per_sip()};
}
NeighbourGrid sip_cells(const MachineInfo& m) {
  return {m.sip_cols, m.sips};
}

/// The cell at the other end of the row or column, where a ring or torus joins the two.
std::optional<std::uint32_t> around_the_edge(const MachineInfo& m, std::uint32_t sip, Compass compass) {
  if (m.sip_fabric != SipFabric::ring_1d && m.sip_fabric != SipFabric::torus_2d) return std::nullopt;
  const std::uint32_t col = sip % m.sip_cols, row = sip / m.sip_cols;
  switch (compass) {
    case Compass::east: return col + 1 == m.sip_cols ? std::optional<std::uint32_t>(row * m.sip_cols) : std::nullopt;
    case Compass::west:
      return col == 0 ? std::optional<std::uint32_t>(row * m.sip_cols + m.sip_cols - 1) : std::nullopt;
    case Compass::north:
      return row == 0 ? std::optional<std::uint32_t>((m.sip_rows - 1) * m.sip_cols + col) : std::nullopt;
    case Compass::south: return row + 1 == m.sip_rows ? std::optional<std::uint32_t>(col) : std::nullopt;
  }
  return std::nullopt;
}

/// The cubes that a message passes after `from` and before `to`: along the row first.
void append_cubes(const MachineInfo& m, std::uint32_t from, std::uint32_t to, std::string& text) {
  std::uint32_t at = from;
  while (at != to) {
    const std::uint32_t col = at % m.cube_cols, to_col = to % m.cube_cols;
    if (col != to_col)
      at = col < to_col ? at + 1 : at - 1;
    else
      at = at < to ? at + m.cube_cols : at - m.cube_cols;
    if (at != to) text += " > cube" + std::to_string(at);
  }
}

}  // namespace

std::string short_name(const MachineInfo& machine, std::uint32_t rank) {
  const PeId id = machine.pe_of(rank);
  return "sip" + std::to_string(id.sip) + ".cube" + std::to_string(id.cube) + ".pe" + std::to_string(id.pe);
}

std::vector<std::uint32_t> snake_cells(std::uint32_t cols, std::uint32_t count) {
  const NeighbourGrid grid{cols, count};
  std::vector<std::uint32_t> order;
  order.reserve(count);
  for (std::uint32_t row = 0; count > 0 && row < grid.rows(); ++row)
    for (std::uint32_t i = 0; i < grid.width_of_row(row); ++i)
      order.push_back(row * cols + (row % 2 == 0 ? i : grid.width_of_row(row) - 1 - i));
  return order;
}

std::vector<std::uint32_t> snake_order(const MachineInfo& machine, std::uint32_t world) {
  if (world < 1 || world > machine.total_pes())
    throw InputError("world: found " + std::to_string(world) + "; allowed: 1 .. " +
                     std::to_string(machine.total_pes()));
  const auto cubes = snake_cells(machine.cube_cols, machine.cubes_per_sip());
  const auto pes = snake_cells(machine.pe_cols, machine.pes_per_cube);
  std::vector<std::uint32_t> order;
  order.reserve(world);
  for (std::uint32_t sip = 0; sip < machine.sips; ++sip)
    for (const std::uint32_t cube : cubes)
      for (const std::uint32_t pe : pes) {
        const std::uint32_t rank = machine.rank_of({sip, cube, pe});
        if (rank < world) order.push_back(rank);
      }
  return order;
}

std::optional<Direction> link_direction(const MachineInfo& machine, std::uint32_t from, std::uint32_t to) {
  const PeId a = machine.pe_of(from), b = machine.pe_of(to);
  if (a.sip == b.sip && a.cube == b.cube) {
    const auto compass = pe_cells(machine).compass(a.pe, b.pe);
    return compass ? std::optional<Direction>(direction_of(GridLevel::pe, *compass)) : std::nullopt;
  }
  if (a.pe != b.pe) return std::nullopt;
  if (a.sip == b.sip) {
    const auto compass = cube_cells(machine).compass(a.cube, b.cube);
    return compass ? std::optional<Direction>(direction_of(GridLevel::cube, *compass)) : std::nullopt;
  }
  if (a.cube != b.cube) return std::nullopt;
  if (const auto compass = sip_cells(machine).compass(a.sip, b.sip)) return direction_of(GridLevel::sip, *compass);
  for (const Compass compass : kAll)
    if (around_the_edge(machine, a.sip, compass) == b.sip) return direction_of(GridLevel::sip, compass);
  return std::nullopt;
}

bool are_neighbours(const MachineInfo& machine, std::uint32_t from, std::uint32_t to) {
  if (link_direction(machine, from, to)) return true;
  const PeId a = machine.pe_of(from), b = machine.pe_of(to);
  return machine.sip_fabric == SipFabric::sw && a.sip != b.sip && a.cube == b.cube && a.pe == b.pe;
}

std::string describe_path(const MachineInfo& machine, std::uint32_t from, std::uint32_t to) {
  const PeId a = machine.pe_of(from), b = machine.pe_of(to);
  std::string text = short_name(machine, from);
  if (a.sip == b.sip)
    append_cubes(machine, a.cube, b.cube, text);
  else
    text += " > sip" + std::to_string(a.sip) + ".io > sip" + std::to_string(b.sip) + ".io";
  return text + " > " + short_name(machine, to);
}

void QueueSet::check(std::uint32_t from, std::uint32_t to) const {
  const std::uint32_t all = machine_.total_pes();
  if (from >= all || to >= all || from == to)
    throw InputError("queue: found one from rank " + std::to_string(from) + " to rank " + std::to_string(to) +
                     "; allowed: two different ranks below " + std::to_string(all));
}

QueueRoute QueueSet::add(const QueueRoute& route) {
  sends_[route.from].set(static_cast<std::size_t>(route.direction));
  receives_[route.to].set(static_cast<std::size_t>(route.arrives_as));
  index_.emplace(std::make_pair(route.from, route.to), routes_.size());
  routes_.push_back(route);
  return route;
}

QueueRoute QueueSet::connect(std::uint32_t from, std::uint32_t to) {
  check(from, to);
  const auto found = index_.find({from, to});
  if (found != index_.end()) return routes_[found->second];

  // In order of preference: the link's own name, the names of the level at which the two differ, any name.
  const PeId a = machine_.pe_of(from), b = machine_.pe_of(to);
  const GridLevel level = a.sip != b.sip ? GridLevel::sip : a.cube != b.cube ? GridLevel::cube : GridLevel::pe;
  std::vector<Direction> names;
  for (const Compass compass : kAll) names.push_back(direction_of(level, compass));
  for (int i = 0; i < kDirections; ++i) names.push_back(static_cast<Direction>(i));
  const auto link = link_direction(machine_, from, to);
  const auto first_free = [&names](const std::bitset<kDirections>& taken, std::optional<Direction> preferred) {
    if (preferred && !taken[static_cast<std::size_t>(*preferred)]) return preferred;
    for (const Direction d : names)
      if (!taken[static_cast<std::size_t>(d)]) return std::optional<Direction>(d);
    return std::optional<Direction>();
  };
  const auto direction = first_free(sends_[from], link);
  const auto arrives_as = first_free(receives_[to], link ? std::optional<Direction>(opposite(*link)) : std::nullopt);
  if (!direction || !arrives_as)
    throw InputError("queue: found no free direction from " + short_name(machine_, from) + " to " +
                     short_name(machine_, to) + "; allowed: " + std::to_string(kDirections) +
                     " queues to send and as many to receive");
  return add({from, *direction, to, *arrives_as});
}

QueueRoute QueueSet::connect(std::uint32_t from, Direction direction, std::uint32_t to, Direction arrives_as) {
  check(from, to);
  if (sends_[from][static_cast<std::size_t>(direction)] || receives_[to][static_cast<std::size_t>(arrives_as)])
    throw InputError("queue: found " + std::string(name_of(direction)) + " of " + short_name(machine_, from) + " to " +
                     name_of(arrives_as) + " of " + short_name(machine_, to) +
                     ", one of which is taken; allowed: each direction once to send and once to receive");
  return add({from, direction, to, arrives_as});
}

std::vector<QueueRoute> QueueSet::routed() const {
  std::vector<QueueRoute> all;
  std::copy_if(routes_.begin(), routes_.end(), std::back_inserter(all),
               [this](const QueueRoute& r) { return !are_neighbours(machine_, r.from, r.to); });
  return all;
}

}  // namespace kb::collectives
