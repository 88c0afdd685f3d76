#include <kb/kernels/context.h>
#include <kb/tlm_if/errors.h>

namespace kb::tl {

namespace {
Context& context_of(const Handle& h) {
  if (!h.valid()) throw ModelError("tl operator: found an empty handle; allowed: a handle that a tl call returned");
  return h.context();
}
}  // namespace

Handle operator+(const Handle& a, const Handle& b) {
  return context_of(a).add(a, b);
}
Handle operator-(const Handle& a, const Handle& b) {
  return context_of(a).sub(a, b);
}
Handle operator*(const Handle& a, const Handle& b) {
  return context_of(a).mul(a, b);
}
Handle operator/(const Handle& a, const Handle& b) {
  return context_of(a).div(a, b);
}
Handle operator+(const Handle& a, double b) {
  return context_of(a).add(a, b);
}
Handle operator-(const Handle& a, double b) {
  return context_of(a).sub(a, b);
}
Handle operator*(const Handle& a, double b) {
  return context_of(a).mul(a, b);
}
Handle operator/(const Handle& a, double b) {
  return context_of(a).div(a, b);
}
Handle operator+(double a, const Handle& b) {
  return context_of(b).add(b, a);
}
Handle operator-(double a, const Handle& b) {
  return context_of(b).rsub(a, b);
}
Handle operator*(double a, const Handle& b) {
  return context_of(b).mul(b, a);
}
Handle operator/(double a, const Handle& b) {
  return context_of(b).rdiv(a, b);
}
Handle operator-(const Handle& a) {
  return context_of(a).neg(a);
}

}  // namespace kb::tl
