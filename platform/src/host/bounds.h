// Lower and upper bounds of a launch's latency (spec 7.2).
#pragma once

#include <kb/tlm_if/run_stats.h>

#include <cstdint>

namespace kb {

/// Which of the bytes on channels and links count for the memory bound.
enum class LinkBytes : std::uint8_t {
  share,  // the launch's share of bytes that any plan must move
  all,    // transfers that were asked for one by one
  none,   // foreign traffic is among them, which the launch need not wait for: only the PEs' own ports bound it
};

/// Fills result.bounds from the counters of its PEs:
///   compute  = max over PEs of the MAC-array and vector time of its own work
///   memory   = max over HBM channels and links of the bytes that any plan must move / bandwidth; of what a channel
///              or link carried, that is the share (bytes that any plan must move / bytes moved) of the launch,
///              unless `counted` says otherwise
///   tcm      = max over PEs and the two channels of bytes / bandwidth
///   dispatch = max over PEs
///   serial   = sum over PEs of dispatch, overheads, path latencies, channel turnarounds and uncontended stage times
void fill_bounds(LaunchResult& result, const MachineInfo& machine, LinkBytes counted);

/// Throws ModelError when the latency lies below a bound, or above the serial sum where that is asked for.
void check_bounds(const LaunchResult& result, bool check_serial);

}  // namespace kb
