// The tray's host port: one base-protocol target, joined to every SIP's pcie_ep by the address's SIP; and the host's
// own traffic, copies and launches.
#pragma once

#include <kb/modules/fabric/context.h>
#include <kb/modules/fabric/response_gate.h>
#include <kb/modules/fabric/sockets.h>
#include <kb/tlm_if/launch.h>
#include <kb/tlm_if/packet.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <systemc>
#include <vector>

namespace kb {

struct HostPortParams {
  std::uint32_t sips = 1;
  int sip_shift = 47;                  // address bits below the SIP's number
  std::vector<std::uint32_t> pcie_ep;  // by SIP
  std::vector<std::uint32_t> io_cpu;
  bool open = false;  // the socket is the user's; no copies from here then
};

/// The port itself takes no time: overhead and bandwidth are those of the pcie_ep behind it. It keeps the response
/// exclusion rule towards the one initiator, whichever SIPs answer: responses go one delta after they have come, in
/// the order (time, SIP).
class HostPort final : public sc_core::sc_module,
                       private tlm::tlm_fw_transport_if<>,
                       private tlm::tlm_bw_transport_if<>,
                       private TrainListener {
 public:
  HostPort(const sc_core::sc_module_name& name, FabricContext& context, const HostPortParams& params);

  BaseTargetSocket socket{"socket"};
  /// To and from the pcie_ep of a SIP.
  BaseInitiatorSocket& to_sip(std::uint32_t sip) { return *sips_[sip]->socket; }
  PacketInitiatorSocket& launch_socket(std::uint32_t sip) { return *sips_[sip]->launch; }
  PacketTargetSocket& completion_socket(std::uint32_t sip) { return *sips_[sip]->completion; }

  /// Sends a launch to the io_cpu of its lead SIP, now (one delta later; the simulation need not have started).
  /// `done` is called from a process when its completion has reached the host port. `launch` must stay alive until
  /// then. Throws InputError for a launch on no PE or led by a SIP that does not exist.
  void start_launch(LaunchMessage& launch, std::function<void()> done);

  /// Copies between the host and memory at a physical address, starting now. `done` is called from a process, with
  /// the latency of spec 7.2: to the write's response, or to the last byte read. Without `data` nothing but time is
  /// moved. One after the other in the order of the calls. Throws InputError where the port is left open, and
  /// ModelError for an address that decodes to nothing or a range that leaves its region.
  void start_copy(bool to_device, std::uint64_t address, std::uint64_t bytes, std::function<void(Ps)> done,
                  unsigned char* data = nullptr);

  bool quiet() const { return copies_.empty() && launches_.empty() && gate_.quiet(); }

 private:
  /// The backward interface that a pcie_ep calls.
  struct Sip final : tlm::tlm_bw_transport_if<>, PacketFwIf {
    HostPort* port = nullptr;
    std::uint32_t number = 0;
    std::unique_ptr<BaseInitiatorSocket> socket;
    std::unique_ptr<PacketInitiatorSocket> launch;
    std::unique_ptr<PacketTargetSocket> completion;
    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override;
    tlm::tlm_sync_enum nb_transport_fw(Packet& packet, PacketPhase& phase, sc_core::sc_time& delay) override;
  };
  /// Of a SIP, on its way to the initiator.
  struct Response {
    tlm::tlm_generic_payload* trans = nullptr;
    Ps response_at = 0;
    std::uint64_t number = 0;  // of the SIP
  };
  struct Copy {
    bool to_device = false;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t done_bytes = 0;
    unsigned char* data = nullptr;
    Ps start = 0;
    std::function<void(Ps)> done;
  };
  struct Launch {
    LaunchMessage* message = nullptr;
    std::function<void()> done;
    bool sent = false;
    Ps end = kNever;
  };

  // Port
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override;
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) override;
  BaseInitiatorSocket* by_address(std::uint64_t address);
  void pump();

  // Host
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override;
  void submit();
  void send(LaunchMessage& launch);
  void next_piece();
  void piece_done(Ps at);
  void finish();

  FabricContext& context_;
  HostPortParams params_;
  std::vector<std::unique_ptr<Sip>> sips_;
  std::unique_ptr<BaseInitiatorSocket> driver_;

  ResponseGate<Response> gate_{socket, true};
  ObjectPool<Response> responses_;
  sc_core::sc_event pump_;

  std::deque<Copy> copies_;  // the first one is under way
  tlm::tlm_generic_payload* piece_ = nullptr;
  Ps copy_end_ = kNever;  // of the first copy's present piece
  std::vector<Launch> launches_;
  sc_core::sc_event submit_;
  sc_core::sc_event finish_;
};

}  // namespace kb
