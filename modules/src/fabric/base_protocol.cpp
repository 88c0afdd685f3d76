#include <kb/modules/fabric/base_protocol.h>

#include <kb/tlm_if/errors.h>

namespace kb {

ForwardPhase forward_phase(const std::string& target, const tlm::tlm_generic_payload& trans,
                           const tlm::tlm_phase& phase) {
  if (phase == tlm::END_RESP) return ForwardPhase::end_of_response;
  if (phase == tlm::BEGIN_REQ) {
    if (trans.has_mm()) return ForwardPhase::request;
    throw ModelError(target +
                     ": found a payload without a memory manager on nb_transport; allowed: one that can be "
                     "held until its response (tlm_generic_payload::set_mm), or b_transport");
  }
  if (phase == tlm::UNINITIALIZED_PHASE || phase == tlm::END_REQ || phase == tlm::BEGIN_RESP)
    throw ModelError(target + ": found phase " + phase.get_name() +
                     " on nb_transport_fw; allowed: BEGIN_REQ, END_RESP "
                     "and ignorable phases");
  return ForwardPhase::ignorable;
}

bool check_attributes(tlm::tlm_generic_payload& trans) {
  if (trans.get_data_ptr() == nullptr && trans.get_data_length() != 0) {
    trans.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    return false;
  }
  if (trans.get_streaming_width() < trans.get_data_length()) {
    trans.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
    return false;
  }
  if (trans.get_byte_enable_ptr() != nullptr && trans.get_byte_enable_length() == 0) {
    trans.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    return false;
  }
  return true;
}

}  // namespace kb
