#include <kb/tlm_if/cost_model.h>

#include <kb/tlm_if/errors.h>

namespace kb {

void CostModel::check_size(const Command& c) const {
  const auto bytes = c.logical_bytes();
  if (bytes <= max_command_bytes) return;
  throw ModelError(std::string("command ") + name_of(c.kind) + ": found " + std::to_string(bytes) +
                   " logical bytes in " + std::to_string(c.ops.size()) +
                   " ops; allowed: pe.cost_model.max_command_bytes = " + std::to_string(max_command_bytes));
}

}  // namespace kb
