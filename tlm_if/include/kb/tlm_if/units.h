// Time and size units of the model: integer picoseconds, bytes, GB/s (1 GB/s = 1 byte/ns).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <systemc>

namespace kb {

/// Model time in picoseconds. Every duration that a rule computes is rounded once, to the nearest
/// tick, and is at least one tick when positive (spec 1): all times of the model are whole ticks.
using Ps = std::int64_t;

inline constexpr Ps kNever = std::numeric_limits<Ps>::max();

/// The coarsest time resolution that a simulation may have: the shortest times of the default machine, 25 ps along a
/// link of the mesh, are of its order.
inline constexpr Ps kCoarsestResolution = 10;

/// Takes over the time resolution of the current simulation, which the library leaves to the user and which is fixed by
/// this. Platforms do so; what is used before or without one, by itself. InputError when it is coarser than
/// kCoarsestResolution.
void adopt_time_resolution();

namespace detail {
/// SystemC's time against the model's, in the simulation that was adopted last.
struct TimeScale {
  const sc_core::sc_simcontext* simulation = nullptr;
  std::uint64_t units_per_ps = 1;  // of the kernel's time; 1 where its resolution is 1 ps or coarser
  Ps tick = 1;                     // 1 ps, or the resolution where that is coarser
};
inline TimeScale time_scale;

inline const TimeScale& current_time_scale() {
  if (time_scale.simulation != sc_core::sc_curr_simcontext) adopt_time_resolution();
  return time_scale;
}
}  // namespace detail

/// The model's unit of time: 1 ps, or the time resolution of the simulation where that is coarser.
inline Ps tick_ps() { return detail::current_time_scale().tick; }

/// Rounds a duration in ns to whole ticks; a positive duration never becomes 0.
inline Ps ps_from_ns(double ns) {
  if (!(ns > 0.0)) return 0;
  const Ps tick = tick_ps();
  const double ticks = std::nearbyint(ns * 1000.0 / static_cast<double>(tick));
  return ticks < 1.0 ? tick : static_cast<Ps>(ticks) * tick;
}

/// Time for `bytes` at `gbs` GB/s, rounded once.
inline Ps transfer_ps(std::uint64_t bytes, double gbs) {
  return ps_from_ns(static_cast<double>(bytes) / gbs);
}

/// Time of `cycles` clock cycles at `ghz`, rounded once.
inline Ps cycles_ps(double cycles, double ghz) { return ps_from_ns(cycles / ghz); }

inline double ns_from_ps(Ps ps) { return static_cast<double>(ps) / 1000.0; }

/// A duration of at least 0 to the kernel's time; rounded up where that is coarser.
inline sc_core::sc_time to_sc_time(Ps ps) {
  const detail::TimeScale& scale = detail::current_time_scale();
  const auto ticks = static_cast<std::uint64_t>(scale.tick == 1 ? ps : (ps + scale.tick - 1) / scale.tick);
  return sc_core::sc_time::from_value(ticks * scale.units_per_ps);
}

/// Kernel time to picoseconds, rounded down where that is finer.
inline Ps to_ps(const sc_core::sc_time& t) {
  const detail::TimeScale& scale = detail::current_time_scale();
  const std::uint64_t whole = scale.units_per_ps == 1 ? t.value() : t.value() / scale.units_per_ps;
  return static_cast<Ps>(whole) * scale.tick;
}

/// Simulated time now, in picoseconds.
inline Ps now_ps() { return to_ps(sc_core::sc_time_stamp()); }

/// When a call takes effect that is annotated with `delay`. Foreign IP may call between two picoseconds: never earlier
/// than it says, but with the next one.
inline Ps after(const sc_core::sc_time& delay) {
  const std::uint64_t units = detail::current_time_scale().units_per_ps;
  const sc_core::sc_time at = sc_core::sc_time_stamp() + delay;
  return to_ps(units == 1 ? at : at + sc_core::sc_time::from_value(units - 1));
}

/// From now to `when`; zero if that has passed.
inline sc_core::sc_time until(Ps when) {
  return when > now_ps() ? to_sc_time(when) - sc_core::sc_time_stamp() : sc_core::SC_ZERO_TIME;
}

template <typename T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace kb
