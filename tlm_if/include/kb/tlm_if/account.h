// Closed accounts: where every picosecond of an engine went (spec 2.1).
#pragma once

#include <kb/tlm_if/units.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace kb {

/// Why an engine did not work although work was coming.
enum class Cause : std::uint8_t {
  operands_dma,    // its next operand is still on its way from memory
  operands_fetch,  // ... between TCM and registers
  operands_gemm,   // ... being multiplied
  operands_math,   // ... in the vector unit
  operands_ipcq,   // ... expected from another PE
  hazard,          // the next command waits for an earlier one that conflicts
  buffer,          // no free tile buffer or accumulator
  engine,          // queued behind other work at another engine
  credit,          // no free slot at the peer
  command_queue,   // queue_depth commands in flight, or the scheduler's own overhead
  dispatch,        // the cpu has not issued the command yet
};
inline constexpr std::size_t kCauses = 11;
const char* name_of(Cause c);

/// busy + sum(stall) + idle = length of the kernel, to 1 ps.
struct EngineTime {
  Ps busy = 0;
  std::array<Ps, kCauses> stall{};
  Ps idle = 0;

  Ps total() const {
    Ps sum = busy + idle;
    for (auto s : stall) sum += s;
    return sum;
  }
  Ps& operator[](Cause c) { return stall[static_cast<std::size_t>(c)]; }
  Ps operator[](Cause c) const { return stall[static_cast<std::size_t>(c)]; }
  EngineTime& operator+=(const EngineTime& o) {
    busy += o.busy;
    idle += o.idle;
    for (std::size_t i = 0; i < kCauses; ++i) stall[i] += o.stall[i];
    return *this;
  }
};

}  // namespace kb
