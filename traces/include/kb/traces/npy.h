// NumPy's array files: what users give as inputs and get as outputs.
#pragma once

#include <kb/tlm_if/dtype.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// An array as it lies in a file: row-major, little endian.
struct NpyArray {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::vector<std::uint8_t> data;
};

/// Reads format 1.0, 2.0 or 3.0 with a descr of '<f2', '<f4', '|i1' or '<i4', in C order. Throws IoError when the
/// file cannot be read, InputError naming the file, what was found and what is allowed otherwise: other types,
/// Fortran order, a header that is not NumPy's, more or less data than the shape says.
NpyArray read_npy(const std::string& path);

/// Writes f16, f32, i8 and i32 as such and bf16, which NumPy does not know, widened to f32. `data` holds the
/// elements of `shape` in `dtype`, row-major. The file appears under its name when it is complete. Throws IoError.
void write_npy(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape, const void* data);

}  // namespace kb
