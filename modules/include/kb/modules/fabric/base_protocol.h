// What every base-protocol target of this library asks of a forward call before it serves it.
#pragma once

#include <string>
#include <tlm>

namespace kb {

/// The part of nb_transport_fw that a call belongs to.
enum class ForwardPhase { request, end_of_response, ignorable };

/// Sorts a call of nb_transport_fw. Throws ModelError naming `target` for a phase that never travels forward, and for
/// a request whose payload has no memory manager: it could not be held until its response.
ForwardPhase forward_phase(const std::string& target, const tlm::tlm_generic_payload& trans,
                           const tlm::tlm_phase& phase);

/// Whether the attributes are ones that the library's targets serve; if not, sets the response status:
///   TLM_GENERIC_ERROR_RESPONSE      no data pointer for data
///   TLM_BURST_ERROR_RESPONSE        streaming (a streaming width below the length)
///   TLM_BYTE_ENABLE_ERROR_RESPONSE  byte enables of length 0
bool check_attributes(tlm::tlm_generic_payload& trans);

}  // namespace kb
