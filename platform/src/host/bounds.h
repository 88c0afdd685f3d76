// Lower and upper bounds of a launch's latency (spec 7.2).
#pragma once

#include <kb/tlm_if/run_stats.h>

namespace kb {

/// Fills result.bounds from the counters of its PEs:
///   compute  = max over PEs of the MAC-array and vector time of its own work
///   memory   = max over HBM slices and PE DMA links of the bytes that any plan must move / bandwidth
///   tcm      = max over PEs and the two channels of bytes / bandwidth
///   dispatch = max over PEs
///   serial   = sum over PEs of dispatch, overheads, path latencies and uncontended stage times
void fill_bounds(LaunchResult& result, const MachineInfo& machine, Ps memory_ps);

/// Throws ModelError when the latency lies below a bound, or above the serial sum where that is asked for.
void check_bounds(const LaunchResult& result, bool check_serial);

}  // namespace kb
