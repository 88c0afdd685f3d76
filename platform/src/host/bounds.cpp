#include "bounds.h"

#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace kb {

void fill_bounds(LaunchResult& result, const MachineInfo& machine, LinkBytes counted) {
  Ps compute = 0, memory_ps = 0, tcm = 0, dispatch = 0, serial = 0;
  double must = 0, moved = 0;
  for (const auto& pe : result.pes) {
    compute = std::max(compute, pe.compute_ps);
    dispatch = std::max(dispatch, pe.dispatch_ps);
    if (pe.tcm_read_bytes > 0) tcm = std::max(tcm, transfer_ps(pe.tcm_read_bytes, machine.tcm_read_bw_gbs));
    if (pe.tcm_write_bytes > 0) tcm = std::max(tcm, transfer_ps(pe.tcm_write_bytes, machine.tcm_write_bw_gbs));
    if (pe.must_read_bytes > 0) memory_ps = std::max(memory_ps, transfer_ps(pe.must_read_bytes, machine.pe_dma_bw_gbs));
    if (pe.must_write_bytes > 0) memory_ps = std::max(memory_ps, transfer_ps(pe.must_write_bytes, machine.pe_dma_bw_gbs));
    serial += pe.serial_ps;
    must += static_cast<double>(pe.must_read_bytes + pe.must_write_bytes);
    moved += static_cast<double>(pe.dma_read_bytes + pe.dma_write_bytes);
  }
  if (moved > 0 && counted != LinkBytes::none) {
    const double share = counted == LinkBytes::all ? 1.0 : std::min(1.0, must / moved);
    for (const auto& link : result.links)
      memory_ps = std::max(memory_ps, static_cast<Ps>(static_cast<double>(link.bytes) * share / link.bw_gbs * 1000.0));
  }
  Bounds& b = result.bounds;
  b.compute_ns = ns_from_ps(compute);
  b.memory_ns = ns_from_ps(memory_ps);
  b.tcm_ns = ns_from_ps(tcm);
  b.dispatch_ns = ns_from_ps(dispatch);
  b.serial_ns = ns_from_ps(serial);
  const std::array<std::pair<const char*, Ps>, 4> all{
      {{"compute", compute}, {"memory", memory_ps}, {"tcm", tcm}, {"dispatch", dispatch}}};
  const auto largest = std::max_element(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  b.bound_by = largest->second > 0 ? largest->first : "nothing";
  b.ratio = largest->second > 0 ? static_cast<double>(result.latency()) / static_cast<double>(largest->second) : 0.0;
}

void check_bounds(const LaunchResult& result, bool check_serial) {
  const Bounds& b = result.bounds;
  const double latency = ns_from_ps(result.latency());
  if (b.bound_by != "nothing" && b.ratio < 1.0)
    throw ModelError("launch: found a latency of " + std::to_string(latency) + " ns below its " + b.bound_by +
                     " bound; allowed: at or above it (a fault of the model)");
  if (check_serial && latency > b.serial_ns + 0.0005)
    throw ModelError("launch: found a latency of " + std::to_string(latency) + " ns above the serial sum of " +
                     std::to_string(b.serial_ns) + " ns; allowed: at or below it (a fault of the model)");
}

}  // namespace kb
