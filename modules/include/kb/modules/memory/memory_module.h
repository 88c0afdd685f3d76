// What stands behind a memory's network interface: a base-protocol target with a few facts about itself. Derive
// from it to replace the HBM controller or the SRAM through `impl:`.
#pragma once

#include <kb/modules/fabric/sockets.h>
#include <kb/tlm_if/flit_train.h>
#include <kb/tlm_if/run_stats.h>

#include <cstdint>
#include <systemc>
#include <vector>

namespace kb {

class MemoryModule : public sc_core::sc_module {
 public:
  explicit MemoryModule(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {}

  /// Addresses start at 0 here. The deriving class binds the interface.
  BaseTargetSocket socket{"socket"};

  /// The module realises annotated delays and orders requests that arrive together by (arrival, round-robin over
  /// TransferExtension::origin), so that its network interface may hand requests on at once; otherwise that
  /// interface orders them and waits for their time.
  virtual bool orders_requests() const { return false; }

  /// The two functions below are implemented; otherwise uncontended times are taken from what is measured.
  virtual bool states_idle_times() const { return false; }
  /// When the flits of a read of `bytes` leave an idle module over its link, from the arrival of the request.
  virtual void idle_read(std::uint64_t bytes, FlitTrain& out) const {
    (void)bytes;
    out.clear();
  }
  /// When the last byte of a write of `bytes`, whose flits arrive as given, is committed in an idle module.
  virtual Ps idle_write(std::uint64_t bytes, const FlitTrain& arrivals) const {
    (void)bytes;
    return arrivals.tail();
  }

  /// Adds the module's channels.
  virtual void append_stats(std::vector<LinkStats>& stats) const { (void)stats; }
  /// Nothing is under way inside.
  virtual bool quiet() const { return true; }
};

}  // namespace kb
