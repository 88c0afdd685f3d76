// Element types of tensors and their storage formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kb {

enum class DType : std::uint8_t { f16, bf16, f32, i8, i32 };

constexpr std::uint32_t size_of(DType t) {
  switch (t) {
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::i8: return 1;
  }
  return 0;
}

constexpr bool is_float(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32; }

const char* name_of(DType t);
std::optional<DType> dtype_from_name(const std::string& name);

/// The wider type of a binary operation: i8 < i32 < f16/bf16 < f32; f16 with bf16 gives f32.
DType promote(DType a, DType b);

}  // namespace kb
