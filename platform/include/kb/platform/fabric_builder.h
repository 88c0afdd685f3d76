// Builds the fabric, the memories and the control path of a machine as nested modules, and leaves attachment
// points for what is not part of it: PEs, the host, and the open ends of the topology.
#pragma once

#include <kb/modules/control/host_port.h>
#include <kb/modules/fabric/context.h>
#include <kb/modules/fabric/registry.h>
#include <kb/modules/fabric/sockets.h>
#include <kb/platform/config.h>
#include <kb/platform/routing.h>
#include <kb/tlm_if/activity.h>
#include <kb/tlm_if/address_map.h>
#include <kb/tlm_if/op_log.h>
#include <kb/tlm_if/packet.h>
#include <kb/tlm_if/run_stats.h>

#include <functional>
#include <memory>
#include <string>
#include <systemc>
#include <vector>

namespace kb {

/// Where a PE joins its cube: the sockets of its network interface. All may stay unbound.
struct PeAttachment {
  PeId id;
  std::uint32_t rank = 0;
  BaseTargetSocket* dma = nullptr;     // the PE's DMA initiator: Pe::dma_socket.bind(*dma)
  BaseInitiatorSocket* tcm = nullptr;  // traffic to its TCM and queue window, physical addresses: bind(Pe::tcm_socket)
  PacketInitiatorSocket* launch = nullptr;   // launches to its cpu: bind(Pe::control_in)
  PacketTargetSocket* completion = nullptr;  // completions of its cpu: Pe::control_out.bind(*completion)
};

/// Makes the PE of a cube, called in the scope of the cube's module so that it becomes its child
/// ("tray.sip0.cube3.pe5"), and binds it.
using PeFactory = std::function<std::unique_ptr<sc_core::sc_module>(const char* name, const PeAttachment& at)>;

struct FabricOptions {
  const FabricRegistry* registry = nullptr;  // implementations besides the built-in ones
  PeFactory make_pe;                         // none: no PEs are built
  Activity* activity = nullptr;
  FaultSink* faults = nullptr;
  OpRecorder* recorder = nullptr;  // null: memories record nothing
  LinkObserver* links = nullptr;   // null: nobody watches links
  MessageObserver* messages = nullptr;  // null: nobody watches messages
  bool dmi = false;                // true outside timing mode only
  std::uint64_t shuffle = 0;       // not 0: seed of a random order of construction and binding, for tests
};

/// The whole fabric. Construct it inside the constructor of the module that stands for the tray; the SIPs become
/// children of that module.
class Fabric final : public FabricDirectory {
 public:
  /// Throws InputError for machines that cannot be built.
  explicit Fabric(const SystemConfig& config, const FabricOptions& options = {});
  ~Fabric() override;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const SystemConfig& config() const;
  const Topology& topology() const;
  RouteTable& routes();
  const AddressMap& addresses() const;

  const PeAttachment& pe(std::uint32_t rank) const;

  /// The host's side of launches, and the driver of the host port unless that is left open.
  HostPort& host();
  /// Base-protocol target of the tray, joined to every SIP's pcie_ep. Bound already unless open.host_port.
  BaseTargetSocket& host_socket();

  /// Open ends. A transaction leaves an open slice with the offset in the slice as its address. Beyond the i-th open
  /// UCIe edge of a SIP lies die 21 + i of that SIP, a window of 4 TiB; it leaves with the offset in the window.
  /// A SIP whose inter-SIP port is open reaches all other SIPs through it: those of the tray with their full
  /// address, and beyond them, from SIP number `sips` on, those of what is joined, numbered from 0 again. So two
  /// trays of one SIP each, joined back to back, see one another as SIP 1. What comes inward is addressed as in this
  /// tray.
  ///
  /// They go by their names in the topology ("tray.sip0.cube0.hbm3", "tray.sip0.cube0.ucie_w",
  /// "tray.sip0.io.ual_ep"). Throw InputError for a name that is not left open.
  BaseInitiatorSocket& open_hbm(const std::string& name);
  OpenEdge open_ucie(const std::string& name);
  OpenEdge open_inter_sip(const std::string& name);

  /// Adds memories and fabric components in topology order; from then on memories record under these numbers.
  void register_components(ComponentTable& table);
  /// Every link and HBM channel since the start of the simulation, in topology order.
  std::vector<LinkStats> link_stats() const;
  /// Messages injected so far.
  std::uint64_t messages() const;
  /// Times that a process of the fabric or of a memory ran.
  std::uint64_t activations() const;
  /// Law 3: messages injected = delivered, every queue empty, every pool full. Throws ModelError naming the rest.
  void check_conservation() const;

  /// Debug access by physical address, at the memory that it decodes to; returns the number of bytes done.
  unsigned transport_dbg(tlm::tlm_generic_payload& trans);
  /// Takes back every DMI pointer that was handed out (launches).
  void invalidate_dmi();

  // FabricDirectory
  bool decode(std::uint32_t from, std::uint64_t address, FabricTarget& target) const override;
  const Route* route(std::uint32_t from, std::uint32_t to, std::uint32_t lane) override;
  MemoryPort* memory(std::uint32_t node) override;
  void invalidate_dmi(std::uint64_t first, std::uint64_t last) override;
  std::string describe(std::uint64_t address) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
