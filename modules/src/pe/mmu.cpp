#include <kb/modules/pe/mmu.h>
#include <kb/tlm_if/errors.h>

namespace kb {

Mmu::Mmu(const sc_core::sc_module_name& name, const BoxContext& context)
    : sc_core::sc_module(name),
      port("port"),
      pages_(context.env.pages),
      overhead_(ps_from_ns(context.params.mmu.tlb_overhead_ns)) {
  port.bind(*this);
}

PhysicalRun Mmu::translate(std::uint64_t address, std::uint64_t bytes, const char* initiator) const {
  if (pages_ == nullptr) return {address, bytes};
  const PhysicalRun run = pages_->translate(address, bytes);
  if (run.bytes == 0)
    throw ModelError(std::string(initiator) + ": virtual address " + std::to_string(address) +
                     " is not mapped; " + pages_->describe(address));
  return run;
}

}  // namespace kb
