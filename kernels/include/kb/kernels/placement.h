// How a logical tensor is spread over PEs, and the copies between the two forms.
#pragma once

#include <kb/kernels/logical_tensor.h>
#include <kb/tlm_if/host.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// Everything everywhere; cut along the first axis; cut along the last axis. Part i of N of n elements is
/// [i*n/N, (i+1)*n/N); a part may be empty.
enum class Split : std::uint8_t { replicate, row_wise, column_wise };
const char* name_of(Split s);

/// Ranks of the first `pes` PEs of each of the first `cubes` cubes, cube by cube; cubes count through all SIPs.
std::vector<std::vector<std::uint32_t>> pe_grid(const MachineInfo& machine, std::uint32_t cubes, std::uint32_t pes);

/// A placement over cubes and, within each cube's part, over its PEs. One shard per PE, in the order of the grid.
class Placement {
 public:
  Placement(const Shape& logical, Split over_cubes, Split over_pes,
            const std::vector<std::vector<std::uint32_t>>& grid);
  /// One level: over a list of PEs.
  Placement(const Shape& logical, Split split, const std::vector<std::uint32_t>& ranks);

  /// A shard's part of the logical tensor: [begin, end) along each axis.
  struct Part {
    std::uint32_t rank = 0;
    std::array<std::int64_t, Shape::kMaxRank> begin{}, end{};
  };
  const Shape& logical() const { return logical_; }
  const std::vector<Part>& parts() const { return parts_; }
  Shape shape_of(std::size_t shard) const;
  /// As Host::allocate takes it.
  std::vector<std::pair<std::uint32_t, Shape>> shards() const;

  /// Copies logical data out to the shards, and back (replicated elements come from the first shard that has them).
  /// Data mode only; nothing happens otherwise.
  void scatter(Host& host, const Tensor& tensor, const LogicalTensor& data) const;
  LogicalTensor gather(Host& host, const Tensor& tensor) const;

 private:
  Shape logical_;
  std::vector<Part> parts_;
};

/// Allocates a tensor in HBM (or TCM) by its placement, without values or with 0 or `data` in it.
Tensor empty(Host& host, const std::string& name, DType dtype, const Placement& placement, Space space = Space::hbm);
Tensor zeros(Host& host, const std::string& name, DType dtype, const Placement& placement, Space space = Space::hbm);
Tensor from_data(Host& host, const std::string& name, const LogicalTensor& data, const Placement& placement,
                 Space space = Space::hbm);

}  // namespace kb
