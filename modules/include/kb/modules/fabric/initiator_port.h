// Initiator side of a network interface: accepts base-protocol transactions and sends them as messages.
#pragma once

#include <kb/modules/fabric/network_interface.h>
#include <kb/modules/fabric/response_gate.h>

#include <cstdint>
#include <vector>

namespace kb {

/// Accepts any number of outstanding transactions; BEGIN_REQ is answered TLM_UPDATED / END_REQ, an error of address,
/// attributes or route TLM_COMPLETED at once. A read's BEGIN_RESP marks its first byte; the times of all flits
/// go into the TransferExtension, where there is one, as they become known. A write's BEGIN_RESP marks its
/// response. Annotated delays are realised by the packets' arrival times.
class InitiatorPort final : private tlm::tlm_fw_transport_if<>, private TrainListener {
 public:
  InitiatorPort(NetworkInterface& ni, FabricContext& context, const char* name);

  BaseTargetSocket socket;

  /// A packet of read data, or a response, has arrived.
  void deliver(Packet& packet);
  /// The last byte of a write leaves the interface's link.
  void departed(const Message& message, Ps when);
  /// Sends BEGIN_RESP that had to wait for the response before it.
  void service();
  void invalidate_dmi(std::uint64_t first, std::uint64_t last);
  bool quiet() const { return pendings_.out() == 0 && gate_.quiet(); }

 private:
  struct Pending {
    tlm::tlm_generic_payload* trans = nullptr;
    TransferExtension* ext = nullptr;
    Ps response_at = 0;
    std::uint64_t number = 0;  // of the transaction at this port
    bool write = false;
    bool announced = false;             // the initiator knows of the response
    bool all_there = false;             // last data packet, or the response of a write
    sc_core::sc_event* done = nullptr;  // b_transport
    Ps begun = 0;
    Ps end = 0;           // last byte, or response
    FlitTrain own_train;  // write data that came without one
    Outgoing out;
  };

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override;
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) override;
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override;

  /// The message's route and target; null with the response status set when it cannot be sent.
  const Route* resolve(tlm::tlm_generic_payload& trans, FabricTarget& target);
  void start(Pending& p, const Route& route, const FabricTarget& target, Ps at);
  void announce(Pending& p);
  void close_if_done(Pending& p);

  NetworkInterface& ni_;
  FabricContext& context_;
  ObjectPool<Pending> pendings_;
  std::vector<Pending*> growing_;  // writes whose data is not all known
  ResponseGate<Pending> gate_;
  std::uint64_t started_ = 0;
  bool dmi_given_ = false;
};

}  // namespace kb
