// C = A x B on one PE, as one composite or as a loop of asynchronous tiles (spec 7.3).
#pragma once

#include <kb/kernels/context.h>
#include <kb/kernels/logical_tensor.h>

#include <cstdint>
#include <string>

namespace kb {

/// Which operands of the composite are loaded into scratch first; the others are streamed from HBM.
enum class GemmVariant : std::uint8_t { ref_ref, load_ref, load_load };

struct GemmArgs {
  std::int64_t m = 0, k = 0, n = 0;
  DType dtype = DType::f16;
  GemmVariant variant = GemmVariant::ref_ref;
  Tensor a, b, c;  // a shard per PE

  /// Type of C: that of the operands, i32 for i8.
  DType out_dtype() const { return is_float(dtype) ? dtype : DType::i32; }
};

/// One composite; A and B row-major. Loaded operands may fill scratch exactly.
void gemm_composite(tl::Context& tl, const GemmArgs& args);

/// Output tile by output tile: per k tile two loads (the next tile's before this tile's dot) and one dot into one of
/// two buffers, added onto the sum from the second on; one store. The last operation before the store writes C's
/// type. A, B and C lie in blocked order (see pack_blocked).
void gemm_async_tiled(tl::Context& tl, const GemmArgs& args);

/// Elements before block (i, j) of a [rows, cols] matrix that is stored block after block of tile_rows x tile_cols,
/// each block dense: row panel i, and in it j blocks of the panel's height.
std::int64_t blocked_offset(std::int64_t rows, std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols,
                            std::int64_t i, std::int64_t j);
/// Row-major elements [first, first + rows * cols) of `from` into blocked order, and back.
LogicalTensor pack_blocked(const LogicalTensor& from, std::int64_t first, std::int64_t rows, std::int64_t cols,
                           std::int64_t tile_rows, std::int64_t tile_cols);
void unpack_blocked(const LogicalTensor& blocked, LogicalTensor& to, std::int64_t first, std::int64_t rows,
                    std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols);

}  // namespace kb
