#include <kb/tlm_if/dtype.h>

#include <array>

namespace kb {

namespace {
struct Entry {
  DType type;
  const char* name;
};
constexpr std::array<Entry, 5> kNames{{{DType::f16, "f16"},
                                       {DType::bf16, "bf16"},
                                       {DType::f32, "f32"},
                                       {DType::i8, "i8"},
                                       {DType::i32, "i32"}}};
}  // namespace

const char* name_of(DType t) {
  for (const auto& e : kNames)
    if (e.type == t) return e.name;
  return "?";
}

std::optional<DType> dtype_from_name(const std::string& name) {
  for (const auto& e : kNames)
    if (name == e.name) return e.type;
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) && is_float(b)) return DType::f32;
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return DType::i32;
}

}  // namespace kb
