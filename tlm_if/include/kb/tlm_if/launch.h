// Launch and completion messages: host -> pcie_ep -> io_cpu -> m_cpu -> cpu and back (spec 4).
#pragma once

#include <kb/tlm_if/program.h>
#include <kb/tlm_if/units.h>

#include <cstdint>
#include <vector>

namespace kb {

/// One launch. Owned by whoever started it, alive until its completion has come back. Components on the way
/// keep their own counts of completions; the fields below are written once, by the component named.
struct LaunchMessage {
  std::uint64_t id = 0;
  const KernelProgram* program = nullptr;
  std::vector<std::uint32_t> pes;  // ranks that run it, ascending
  std::uint32_t lead_sip = 0;      // SIP of the io_cpu that stamps the start
  Ps start = 0;                    // common start of all PEs; stamped by the io_cpu
};

}  // namespace kb
