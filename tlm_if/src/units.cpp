#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/units.h>

namespace kb {

void adopt_time_resolution() {
  const sc_core::sc_time resolution = sc_core::sc_get_time_resolution();
  const double ps = resolution.to_seconds() * 1e12;  // a power of ten
  if (std::llround(ps) > kCoarsestResolution)
    throw InputError("time resolution of the simulation: found " + resolution.to_string() + "; allowed: 1 fs to " +
                     std::to_string(kCoarsestResolution) + " ps (sc_set_time_resolution)");
  detail::TimeScale& scale = detail::time_scale;
  scale.simulation = sc_core::sc_get_curr_simcontext();
  scale.units_per_ps = ps < 1 ? static_cast<std::uint64_t>(std::llround(1 / ps)) : 1;
  scale.tick = ps > 1 ? std::llround(ps) : 1;
}

}  // namespace kb
