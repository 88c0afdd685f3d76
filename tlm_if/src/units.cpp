#include <kb/tlm_if/units.h>

namespace kb {

Ps to_ps(const sc_core::sc_time& t) {
  // The resolution is a power of ten in femtoseconds; it is fixed once the first sc_time exists.
  static const sc_core::sc_time one_ps(1.0, sc_core::SC_PS);
  const auto unit = one_ps.value();  // 0 when the resolution is coarser than 1 ps
  if (unit == 1) return static_cast<Ps>(t.value());
  if (unit > 1) return static_cast<Ps>(t.value() / unit);
  return static_cast<Ps>(std::llround(t.to_seconds() * 1e12));
}

}  // namespace kb
