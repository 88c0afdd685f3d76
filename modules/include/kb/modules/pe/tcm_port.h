// The fabric's way into a PE: a base-protocol target in front of the TCM's storage and the queue window.
#pragma once

#include <kb/modules/pe/engine.h>
#include <kb/tlm_if/extensions.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace kb {

/// Bytes that have come in from the fabric at an offset of the PE's queue window.
struct SlotArrival {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
enum class SlotPhase : std::uint8_t { arrived };
struct SlotProtocol {
  using tlm_payload_type = SlotArrival;
  using tlm_phase_type = SlotPhase;
};

/// Timing: a TCM access takes no time of its own here (DMA fill and drain are never limited, spec 2.1): reads
/// answer at once, writes when their last byte is there. Slot writes are charged by the ipcq.
class TcmPort : public DecidingBox, protected tlm::tlm_fw_transport_if<>, protected TrainListener {
 public:
  tlm::tlm_target_socket<> socket;
  /// To the ipcq: what has arrived in the queue window.
  OneWayInitiatorSocket<SlotProtocol> slots;

  TcmPort(const sc_core::sc_module_name& name, const BoxContext& context);

  /// Takes back what get_direct_mem_ptr has given away; called before a launch.
  void invalidate_dmi();

 protected:
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) override;
  unsigned int transport_dbg(tlm::tlm_generic_payload& trans) override;
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  enum class Region : std::uint8_t { tcm, queue, none };
  /// A transaction between BEGIN_REQ and its response.
  struct Access {
    tlm::tlm_generic_payload* trans = nullptr;
    Ps due = kNever;           // of the response; kNever while write data is still arriving
    std::uint64_t number = 0;  // order of arrival
  };

  /// Where the bytes lie. Sets the response status where they lie nowhere, or cross the region's end.
  Region locate(tlm::tlm_generic_payload& trans, std::uint64_t& offset) const;
  /// Moves data between the payload and the storage, byte enables and streaming width respected.
  void copy(tlm::tlm_generic_payload& trans, std::uint64_t offset);
  std::uint8_t* page(std::uint64_t index);
  void complete(tlm::tlm_generic_payload& trans, Ps at, Ps now);
  void respond(Ps now);

  static constexpr std::uint64_t kPageBytes = 64 * 1024;

  Inbox<Access> requests_;
  Inbox<tlm::tlm_generic_payload*> tails_;  // write trains that are now complete
  Inbox<bool> response_ends_;
  std::vector<Access> waiting_;
  std::deque<tlm::tlm_generic_payload*> responses_;
  bool dmi_given_ = false;
  bool responding_ = false;  // BEGIN_RESP given, END_RESP outstanding
  std::uint64_t count_ = 0;
  std::map<std::uint64_t, std::vector<std::uint8_t>> pages_;  // of the TCM, made when first written
};

}  // namespace kb
