#include <kb/kernels/placement.h>
#include <kb/tlm_if/errors.h>

#include <cstring>
#include <tuple>

namespace kb {

const char* name_of(Split s) {
  static constexpr const char* kNames[] = {"replicate", "row_wise", "column_wise"};
  return kNames[static_cast<int>(s)];
}

std::vector<std::vector<std::uint32_t>> pe_grid(const MachineInfo& machine, std::uint32_t cubes, std::uint32_t pes) {
  const std::uint32_t all_cubes = machine.sips * machine.cubes_per_sip();
  if (cubes < 1 || cubes > all_cubes)
    throw InputError("placement: found " + std::to_string(cubes) + " cubes; allowed: 1 .. " +
                     std::to_string(all_cubes));
  if (pes < 1 || pes > machine.pes_per_cube)
    throw InputError("placement: found " + std::to_string(pes) + " PEs per cube; allowed: 1 .. " +
                     std::to_string(machine.pes_per_cube));
  std::vector<std::vector<std::uint32_t>> grid(cubes);
  for (std::uint32_t c = 0; c < cubes; ++c)
    for (std::uint32_t p = 0; p < pes; ++p) grid[c].push_back(c * machine.pes_per_cube + p);
  return grid;
}

namespace {

/// Part `i` of `n` of [begin, end).
std::pair<std::int64_t, std::int64_t> cut(std::int64_t begin, std::int64_t end, std::size_t i, std::size_t n) {
  const std::int64_t size = end - begin;
  const auto parts = static_cast<std::int64_t>(n), index = static_cast<std::int64_t>(i);
  return {begin + index * size / parts, begin + (index + 1) * size / parts};
}

void apply(Split split, int rank, std::size_t i, std::size_t n, Placement::Part& part) {
  if (split == Split::replicate) return;
  const auto axis = static_cast<std::size_t>(split == Split::row_wise ? 0 : rank - 1);
  std::tie(part.begin[axis], part.end[axis]) = cut(part.begin[axis], part.end[axis], i, n);
}

/// Calls `copy(logical element, shard element, count)` for every run that is contiguous in both.
template <typename Copy>
void for_each_run(const Shape& logical, const Placement::Part& part, const Copy& copy) {
  const int rank = logical.rank();
  const auto last = static_cast<std::size_t>(rank - 1);
  const std::int64_t run = part.end[last] - part.begin[last];
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < last; ++i) rows *= part.end[i] - part.begin[i];
  if (run <= 0) return;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row, at = part.begin[last], stride = logical[rank - 1];
    for (std::size_t i = last; i-- > 0;) {
      const std::int64_t extent = part.end[i] - part.begin[i];
      at += (part.begin[i] + rest % extent) * stride;
      rest /= extent;
      stride *= logical[static_cast<int>(i)];
    }
    copy(at, row * run, run);
  }
}

}  // namespace

Placement::Placement(const Shape& logical, Split over_cubes, Split over_pes,
                     const std::vector<std::vector<std::uint32_t>>& grid)
    : logical_(logical) {
  if (logical.rank() == 0) throw InputError("placement: found a scalar; allowed: a tensor with at least one axis");
  for (std::size_t c = 0; c < grid.size(); ++c) {
    for (std::size_t p = 0; p < grid[c].size(); ++p) {
      Part part;
      part.rank = grid[c][p];
      for (int i = 0; i < logical.rank(); ++i) part.end[static_cast<std::size_t>(i)] = logical[i];
      apply(over_cubes, logical.rank(), c, grid.size(), part);
      apply(over_pes, logical.rank(), p, grid[c].size(), part);
      parts_.push_back(part);
    }
  }
}

Placement::Placement(const Shape& logical, Split split, const std::vector<std::uint32_t>& ranks)
    : Placement(logical, Split::replicate, split, {ranks}) {}

Shape Placement::shape_of(std::size_t shard) const {
  Shape shape;
  for (int i = 0; i < logical_.rank(); ++i)
    shape.push_back(parts_[shard].end[static_cast<std::size_t>(i)] - parts_[shard].begin[static_cast<std::size_t>(i)]);
  return shape;
}

std::vector<std::pair<std::uint32_t, Shape>> Placement::shards() const {
  std::vector<std::pair<std::uint32_t, Shape>> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) all.emplace_back(parts_[i].rank, shape_of(i));
  return all;
}

void Placement::scatter(Host& host, const Tensor& tensor, const LogicalTensor& data) const {
  if (host.mode() != Mode::data) return;
  if (data.shape() != logical_ || data.dtype() != tensor.dtype)
    throw InputError("tensor " + tensor.name + ": found data " + data.shape().str() + " " + name_of(data.dtype()) +
                     "; allowed: " + logical_.str() + " " + name_of(tensor.dtype));
  const std::size_t element = size_of(tensor.dtype);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape_of(i).numel()) * element);
    for_each_run(logical_, parts_[i], [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::memcpy(bytes.data() + static_cast<std::size_t>(to) * element, data.element(from),
                  static_cast<std::size_t>(count) * element);
    });
    if (!bytes.empty()) host.write(tensor, i, bytes.data(), bytes.size());
  }
}

LogicalTensor Placement::gather(Host& host, const Tensor& tensor) const {
  if (host.mode() != Mode::data) return {logical_, tensor.dtype, false};
  LogicalTensor data(logical_, tensor.dtype);
  const std::size_t element = size_of(tensor.dtype);
  // From the last shard to the first, so that of replicated elements the first one stays.
  for (std::size_t i = parts_.size(); i-- > 0;) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape_of(i).numel()) * element);
    if (bytes.empty()) continue;
    host.read(tensor, i, bytes.data(), bytes.size());
    for_each_run(logical_, parts_[i], [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      std::memcpy(data.element(to), bytes.data() + static_cast<std::size_t>(from) * element,
                  static_cast<std::size_t>(count) * element);
    });
  }
  return data;
}

Tensor empty(Host& host, const std::string& name, DType dtype, const Placement& placement, Space space) {
  return host.allocate(name, dtype, space, placement.shards());
}

Tensor zeros(Host& host, const std::string& name, DType dtype, const Placement& placement, Space space) {
  return from_data(host, name, LogicalTensor(placement.logical(), dtype, host.mode() == Mode::data), placement, space);
}

Tensor from_data(Host& host, const std::string& name, const LogicalTensor& data, const Placement& placement,
                 Space space) {
  Tensor tensor = empty(host, name, data.dtype(), placement, space);
  placement.scatter(host, tensor, data);
  return tensor;
}

}  // namespace kb
