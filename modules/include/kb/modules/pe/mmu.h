// The PE's memory management unit: translates virtual addresses of transfers into runs of physical ones.
#pragma once

#include <kb/modules/pe/engine.h>

namespace kb {

/// What the DMA asks of the MMU.
class TranslateIf : public virtual sc_core::sc_interface {
 public:
  /// The physical run at `address`, at most `bytes` long, cut where the next page lies elsewhere. Throws
  /// ModelError, naming `initiator`, the address and the nearest mapping, where nothing is mapped.
  virtual PhysicalRun translate(std::uint64_t address, std::uint64_t bytes, const char* initiator) const = 0;
  /// Time of a translation, once per transfer.
  virtual Ps overhead_ps() const = 0;
};

class Mmu : public sc_core::sc_module, public TranslateIf {
 public:
  sc_core::sc_export<TranslateIf> port;

  Mmu(const sc_core::sc_module_name& name, const BoxContext& context);

  PhysicalRun translate(std::uint64_t address, std::uint64_t bytes, const char* initiator) const override;
  Ps overhead_ps() const override { return overhead_; }

 private:
  const PageTable* pages_;
  Ps overhead_;
};

}  // namespace kb
