// The machine's description for kernels and benches, derived from the configuration.
#pragma once

#include <kb/platform/config.h>
#include <kb/tlm_if/address_map.h>
#include <kb/tlm_if/machine_info.h>

namespace kb {

MachineInfo machine_info(const SystemConfig& config);
AddressMap address_map(const SystemConfig& config);

/// Columns and rows of the 2-D grid of SIPs; n x 1 for rings and switches.
std::array<std::uint32_t, 2> sip_grid(const SystemConfig& config);

/// The dispatch cost function of a PE, from its parameters.
CostModel cost_model(const CostModelParams& p);

}  // namespace kb
