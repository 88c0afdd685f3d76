// The machine as one SystemC module, with the host that runs kernels on it.
#pragma once

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

/// How a platform is built and observed.
struct PlatformOptions {
  Mode mode = Mode::timing;
  /// Observers of the event stream, called in its final order; none: nothing is recorded.
  std::vector<OpSink*> sinks;
  /// Watches links and memory channels (waveforms); null: nobody does.
  LinkObserver* links = nullptr;
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
/// Use it in two ways. A program that simulates nothing else calls host().launch() outside of any process: the
/// call runs the simulation until the launch is done. Inside a larger simulation, the same calls are made from an
/// SC_THREAD and block that thread.
class Platform : public sc_core::sc_module {
 public:
  /// Throws InputError on an impossible configuration.
  Platform(const sc_core::sc_module_name& name, const SystemConfig& config, PlatformOptions options = {});
  ~Platform() override;

  Host& host();
  const SystemConfig& config() const;
  const ComponentTable& components() const;
  MemoryView& memory();
  Pe& pe(std::uint32_t rank);

  /// Links and memory channels by name, in the numbers that a LinkObserver sees.
  std::vector<std::string> link_names() const;

  /// Times that a process of the machine ran.
  std::uint64_t activations() const;

  /// Law 3: messages injected = delivered, nothing in flight, every pool full. Throws ModelError naming the rest.
  void check_conservation() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
