// The machine as one SystemC module, with the host that runs kernels on it.
#pragma once

#include <kb/modules/fabric/sockets.h>
#include <kb/platform/config.h>
#include <kb/platform/memory_view.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/op_log.h>

#include <functional>
#include <memory>
#include <string>
#include <systemc>
#include <vector>

namespace kb {

class Pe;
class PeRegistry;
struct FabricRegistry;
class LinkObserver;
class MessageObserver;

/// How a platform is built and observed.
struct PlatformOptions {
  /// timing, or data: then the platform also computes what a launch did, before the launch returns.
  Mode mode = Mode::timing;
  /// Observers of the event stream, called in its final order; none: nothing is recorded.
  std::vector<OpSink*> sinks;
  /// Watches links and memory channels (waveforms); null: nobody does.
  LinkObserver* links = nullptr;
  /// Watches memory messages (latency hop by hop); null: nobody does.
  MessageObserver* messages = nullptr;
  /// Implementations of fabric components by `impl:` name; null: the built-in ones only.
  const FabricRegistry* fabric_registry = nullptr;
  /// Implementations of PE components by `impl:` name; null: the built-in ones only.
  const PeRegistry* pe_registry = nullptr;
  /// Called about every microsecond of simulated time during launches; returning false ends the run.
  std::function<bool(Ps now)> tick;
  /// Seed of a shuffle of the order in which modules are built; results must not depend on it. 0: topology order.
  std::uint64_t build_shuffle = 0;
};

/// Builds the whole machine below itself: give it the name "tray" to get the names of spec 1.1.
///
/// Open ends: what `open:` of the configuration names is left to the user's own IP, and found here as a socket of the
/// TLM-2.0 base protocol (bus width 32, any length), to be bound before the simulation starts. The functions throw
/// InputError for a name that is not left open, with the nearest one that is.
///
/// Use it in two ways. A program that simulates nothing else calls host().launch() outside of any process: the
/// call runs the simulation until the launch is done. Inside a larger simulation, the same calls are made from an
/// SC_THREAD and block that thread.
class Platform : public sc_core::sc_module {
 public:
  /// Throws InputError on an impossible configuration.
  Platform(const sc_core::sc_module_name& name, const SystemConfig& config, PlatformOptions options = {});
  ~Platform() override;

  Host& host();

  /// open.host_port: the tray's host port, physical addresses (spec 1.3).
  BaseTargetSocket& host_port();
  /// open.hbm, "tray.sip0.cube0.hbm3": takes the place of the slice; addresses are offsets into it.
  BaseInitiatorSocket& hbm(const std::string& name);
  /// open.ucie_edge, "tray.sip0.cube0.ucie_w": beyond the i-th open edge of a SIP lies its die 21 + i; outward
  /// addresses are offsets into that die's 4 TiB.
  OpenEdge ucie_edge(const std::string& name);
  /// open.inter_sip, "tray.sip0.io.ual_ep": the way to every other SIP. Those beyond the tray's own count on from its
  /// last one here, and from 0 in the addresses that go out.
  OpenEdge inter_sip(const std::string& name);

  /// Where a shard of a tensor lies, as the host port and the open ends see addresses.
  std::uint64_t physical_address(const Tensor& tensor, std::size_t shard = 0) const;
  /// Gives kernels and copies a virtual address for `bytes` of physical memory that the host's allocator does not own,
  /// such as memory beyond an open end. `what` names it in messages. For the life of the platform.
  std::uint64_t map(std::uint64_t physical, std::uint64_t bytes, const std::string& what);

  const SystemConfig& config() const;
  const ComponentTable& components() const;
  MemoryView& memory();
  Pe& pe(std::uint32_t rank);

  /// Links and memory channels by name, in the numbers that a LinkObserver sees.
  std::vector<std::string> link_names() const;
  /// Components of the fabric by name, in the numbers of Hop::node.
  std::vector<std::string> node_names() const;

  /// Times that a process of the machine ran.
  std::uint64_t activations() const;

  /// Hands every record so far to the sinks; launches do so by themselves at their end.
  void deliver_records();

  /// Law 3: messages injected = delivered, nothing in flight, every pool full. Throws ModelError naming the rest.
  void check_conservation() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
