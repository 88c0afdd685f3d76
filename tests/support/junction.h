// Joins several base-protocol initiators to one target socket, as a bus without any time of its own.
#pragma once

#include <kb/modules/fabric/sockets.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

namespace kb::test {

/// in(i) are bound by the initiators, out by the target. Calls pass through in the order in which they come; the target
/// keeps its response phases apart, and must end request phases in the call.
class Junction : public sc_core::sc_module, private tlm::tlm_bw_transport_if<> {
 public:
  BaseInitiatorSocket out{"out"};

  Junction(const sc_core::sc_module_name& name, std::size_t inputs) : sc_core::sc_module(name) {
    out.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    for (std::size_t i = 0; i < inputs; ++i) inputs_.push_back(std::make_unique<Input>(*this, i));
  }
  BaseTargetSocket& in(std::size_t i) { return inputs_[i]->socket; }

 private:
  struct Input : tlm::tlm_fw_transport_if<> {
    Input(Junction& j, std::size_t i) : junction(j), socket(("in" + std::to_string(i)).c_str()) {
      socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    }
    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override {
      const bool ends = phase == tlm::END_RESP;
      if (phase == tlm::BEGIN_REQ) junction.owners_[&trans] = this;
      const auto answer = junction.out->nb_transport_fw(trans, phase, delay);
      if (ends || answer == tlm::TLM_COMPLETED) junction.owners_.erase(&trans);
      return answer;
    }
    void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override {
      junction.out->b_transport(trans, delay);
    }
    unsigned transport_dbg(tlm::tlm_generic_payload& trans) override { return junction.out->transport_dbg(trans); }
    bool get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) override {
      return junction.out->get_direct_mem_ptr(trans, dmi);
    }
    Junction& junction;
    BaseTargetSocket socket;
  };

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    const auto owner = owners_.find(&trans);
    const auto answer = owner->second->socket->nb_transport_bw(trans, phase, delay);
    // The initiator may have given its reference back, and begun anew with the same payload: not before its next call.
    if (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::END_RESP)) owners_.erase(owner);
    return answer;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override {
    for (const auto& i : inputs_) i->socket->invalidate_direct_mem_ptr(first, last);
  }

  std::vector<std::unique_ptr<Input>> inputs_;
  std::map<const tlm::tlm_generic_payload*, Input*> owners_;  // of what is in flight; looked up only
};

}  // namespace kb::test
