// Base-protocol sockets where IP meets the fabric. They may stay unbound: a machine without PEs is a machine.
#pragma once

#include <tlm>

namespace kb {

using BaseInitiatorSocket =
    tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
using BaseTargetSocket = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

/// The two directions of an open end where traffic goes both ways: a cube's UCIe edge, a SIP's inter-SIP port.
struct OpenEdge {
  BaseInitiatorSocket& outward;
  BaseTargetSocket& inward;
};

}  // namespace kb
