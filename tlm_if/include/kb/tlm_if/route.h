// Routes through the fabric, computed once by the platform and carried by every message.
#pragma once

#include <kb/tlm_if/units.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// Virtual channels of the fabric; each has queues of its own at every arbitration point.
enum class VirtualChannel : std::uint8_t { compute, ipcq };
inline constexpr std::uint32_t kVirtualChannels = 2;

/// One directed link and the component that drives it.
struct Hop {
  std::uint32_t node = 0;      // component that sends (router, UCIe connection, end point), topology number
  std::uint32_t out_port = 0;  // its output port
  std::uint32_t in_port = 0;   // input port at the receiving node
  std::uint32_t next = 0;      // receiving node
  Ps overhead = 0;             // of the sending component, once per message
  double bw_gbs = 0;
  Ps flit = 0;                 // time of a whole flit on the link
  Ps prop = 0;                 // propagation over the link
};

/// The way of one message, end point to end point. Owned by the platform's route table, never changed.
struct Route {
  std::vector<Hop> hops;
  std::uint32_t from = 0, to = 0;  // end points, topology numbers
  std::uint32_t lane = 0;
  const Route* reverse = nullptr;  // the way of the response
  Ps end_overhead = 0;             // of the receiving end point (0 for memories)

  /// Time of a message without payload: overheads and propagation.
  Ps control_ps() const {
    Ps t = end_overhead;
    for (const auto& h : hops) t += h.overhead + h.prop;
    return t;
  }
};

}  // namespace kb
