// Where the time of a lone transfer goes, component by component: spec 1.4 worked out flit by flit, without a
// simulation and without the simulation's code.
#pragma once

#include <kb/platform/config.h>
#include <kb/platform/routing.h>
#include <kb/tlm_if/units.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// What one component and the link behind it add to a transfer.
struct PathTime {
  enum class Part : std::uint8_t {
    issue,     // at the initiator, before the request leaves
    request,   // control message of a read, forward
    data,      // data train
    memory,    // channels of the memory: data: from the request, or from the last flit's arrival, to its last flit
    response,  // control message of a write, back
  };
  Part part = Part::request;
  std::string component;
  Ps time = 0;  // request, response: overhead + propagation; data: from the last flit's arrival here to the next place
};
const char* name_of(PathTime::Part part);

/// A lone transfer between an initiator and an HBM slice, offset 0, over an idle machine.
struct PathTimes {
  std::vector<PathTime> parts;  // in the order in which the transfer meets them; they add up to total()
  double bottleneck_gbs = 0;    // slowest of the links that carry data and the slice's channels together
  std::string bottleneck;       // its name; links: "from->to"

  Ps total() const;
};

/// `route` leads from the initiator to the slice; `issue` is what the initiator spends before its request leaves.
/// For data: every flit takes its own bytes / bandwidth on each link, follows the flit before it, and waits for the
/// component's overhead behind its head: left_j = max(left_(j-1), there_j + overhead) + bytes_j / bw.
PathTimes path_times(const Topology& topology, const Route& route, bool write, std::uint64_t bytes, Ps issue);

}  // namespace kb
