// Building blocks for protocols of our own: interfaces and sockets over the TLM-2.0 base sockets.
#pragma once

#include <tlm>

namespace kb {

/// Forward and backward interfaces of a protocol given by a traits class with tlm_payload_type and
/// tlm_phase_type. The base sockets ask for `protocol_types`, so that two protocols never bind by accident.
template <typename TYPES>
class ProtocolFwIf : public virtual tlm::tlm_fw_nonblocking_transport_if<typename TYPES::tlm_payload_type,
                                                                         typename TYPES::tlm_phase_type> {
 public:
  using protocol_types = TYPES;
};
template <typename TYPES>
class ProtocolBwIf : public virtual tlm::tlm_bw_nonblocking_transport_if<typename TYPES::tlm_payload_type,
                                                                         typename TYPES::tlm_phase_type> {
 public:
  using protocol_types = TYPES;
};

/// Sockets of a protocol with a backward path. N = 0: any number of peers, numbered in binding order.
template <typename TYPES, int N = 1, sc_core::sc_port_policy POL = sc_core::SC_ONE_OR_MORE_BOUND>
using ProtocolInitiatorSocket =
    tlm::tlm_base_initiator_socket<32, ProtocolFwIf<TYPES>, ProtocolBwIf<TYPES>, N, POL>;
template <typename TYPES, int N = 1, sc_core::sc_port_policy POL = sc_core::SC_ONE_OR_MORE_BOUND>
using ProtocolTargetSocket = tlm::tlm_base_target_socket<32, ProtocolFwIf<TYPES>, ProtocolBwIf<TYPES>, N, POL>;

/// Initiator socket of a protocol whose callees never call back: it answers the backward path itself.
template <typename TYPES, int N = 1, sc_core::sc_port_policy POL = sc_core::SC_ONE_OR_MORE_BOUND>
class OneWayInitiatorSocket : public ProtocolInitiatorSocket<TYPES, N, POL> {
  using Base = ProtocolInitiatorSocket<TYPES, N, POL>;

 public:
  explicit OneWayInitiatorSocket(const char* name) : Base(name) { Base::bind(static_cast<ProtocolBwIf<TYPES>&>(none_)); }
  using Base::bind;
  using Base::operator();

 private:
  struct None final : ProtocolBwIf<TYPES> {
    tlm::tlm_sync_enum nb_transport_bw(typename TYPES::tlm_payload_type&, typename TYPES::tlm_phase_type&,
                                       sc_core::sc_time&) override {
      return tlm::TLM_ACCEPTED;
    }
  };
  None none_;
};

}  // namespace kb
