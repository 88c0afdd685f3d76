// What a command costs the cpu to issue (spec 3.3).
#pragma once

#include <kb/tlm_if/command.h>

#include <array>

namespace kb {

/// cycles = fixed + cycles_per_byte * logical_bytes, with one constant for composites and one for single ops.
struct CostModel {
  double fixed_per_composite_cycles = 40;
  double fixed_per_single_op_cycles = 8;
  double cycles_per_byte = 0.0;
  std::uint32_t max_command_bytes = 1024;

  double cycles(const Command& c) const {
    return (c.kind == CommandKind::composite ? fixed_per_composite_cycles : fixed_per_single_op_cycles) +
           cycles_per_byte * c.logical_bytes();
  }
  /// Throws ModelError when the command is larger than max_command_bytes, saying how large it is.
  void check_size(const Command& c) const;
};

/// Commands, bytes and cycles that a cpu has dispatched.
struct DispatchCounts {
  std::array<std::uint64_t, kCommandKinds> commands{};
  std::uint64_t bytes = 0;
  double cycles = 0;

  void add(const Command& c, double c_cycles) {
    ++commands[static_cast<std::size_t>(c.kind)];
    bytes += c.logical_bytes();
    cycles += c_cycles;
  }
};

}  // namespace kb
