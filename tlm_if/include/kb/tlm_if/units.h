// Time and size units of the model: integer picoseconds, bytes, GB/s (1 GB/s = 1 byte/ns).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <systemc>

namespace kb {

/// Model time in picoseconds. Every duration that a rule computes is rounded once, to the nearest
/// picosecond, and is at least 1 ps when positive (spec 1).
using Ps = std::int64_t;

inline constexpr Ps kNever = std::numeric_limits<Ps>::max();

/// Rounds a duration in ns to whole picoseconds; a positive duration never becomes 0.
inline Ps ps_from_ns(double ns) {
  if (!(ns > 0.0)) return 0;
  const double ps = std::nearbyint(ns * 1000.0);
  return ps < 1.0 ? 1 : static_cast<Ps>(ps);
}

/// Time for `bytes` at `gbs` GB/s, rounded once.
inline Ps transfer_ps(std::uint64_t bytes, double gbs) {
  return ps_from_ns(static_cast<double>(bytes) / gbs);
}

/// Time of `cycles` clock cycles at `ghz`, rounded once.
inline Ps cycles_ps(double cycles, double ghz) { return ps_from_ns(cycles / ghz); }

inline double ns_from_ps(Ps ps) { return static_cast<double>(ps) / 1000.0; }

/// Picoseconds to the kernel's time, at whatever resolution the simulation runs.
inline sc_core::sc_time to_sc_time(Ps ps) {
  return sc_core::sc_time(static_cast<double>(ps), sc_core::SC_PS);
}

/// Kernel time to picoseconds, at whatever resolution the simulation runs.
Ps to_ps(const sc_core::sc_time& t);

/// Simulated time now, in picoseconds.
inline Ps now_ps() { return to_ps(sc_core::sc_time_stamp()); }

template <typename T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace kb
