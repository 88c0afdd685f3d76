#include <kb/kernels/gemm_kernel.h>

#include <algorithm>
#include <cstring>

namespace kb {

using tl::Handle;
using tl::into;

void gemm_composite(tl::Context& tl, const GemmArgs& args) {
  const std::uint64_t a_addr = tl.shard_of(args.a).addr, b_addr = tl.shard_of(args.b).addr;
  const Shape a_shape{args.m, args.k}, b_shape{args.k, args.n};
  const bool load_a = args.variant != GemmVariant::ref_ref, load_b = args.variant == GemmVariant::load_load;
  const Handle a = load_a ? tl.load(a_addr, a_shape, args.dtype) : tl.ref(a_addr, a_shape, args.dtype);
  const Handle b = load_b ? tl.load(b_addr, b_shape, args.dtype) : tl.ref(b_addr, b_shape, args.dtype);
  const Handle c = tl.ref(tl.shard_of(args.c).addr, Shape{args.m, args.n}, args.out_dtype());
  tl.composite(tl::gemm(a, b).into(c));
}

void gemm_async_tiled(tl::Context& tl, const GemmArgs& args) {
  const std::int64_t tm = tl.machine().tile[0], tk = tl.machine().tile[1], tn = tl.machine().tile[2];
  const std::int64_t m_tiles = tl::cdiv(args.m, tm), k_tiles = tl::cdiv(args.k, tk), n_tiles = tl::cdiv(args.n, tn);
  const std::uint64_t a_base = tl.shard_of(args.a).addr, b_base = tl.shard_of(args.b).addr;
  const std::uint64_t c_base = tl.shard_of(args.c).addr;
  const std::int64_t in_size = size_of(args.dtype), out_size = size_of(args.out_dtype());
  const DType sum_dtype = is_float(args.dtype) ? DType::f32 : DType::i32;

  const Handle a_buffer[2] = {tl.empty({tm, tk}, args.dtype), tl.empty({tm, tk}, args.dtype)};
  const Handle b_buffer[2] = {tl.empty({tk, tn}, args.dtype), tl.empty({tk, tn}, args.dtype)};
  const Handle part_buffer[2] = {tl.empty({tm, tn}, sum_dtype), tl.empty({tm, tn}, sum_dtype)};
  const Handle sum_buffer[2] = {tl.empty({tm, tn}, sum_dtype), tl.empty({tm, tn}, sum_dtype)};
  const Handle out_buffer[2] = {tl.empty({tm, tn}, args.out_dtype()), tl.empty({tm, tn}, args.out_dtype())};

  struct Step {
    std::int64_t mt = 0, nt = 0, kt = 0;
  };
  struct Operands {
    Handle a, b;
  };
  const std::int64_t steps = m_tiles * n_tiles * k_tiles;
  const auto step_at = [&](std::int64_t s) { return Step{s / k_tiles / n_tiles, s / k_tiles % n_tiles, s % k_tiles}; };
  const auto height = [&](const Step& s) { return std::min(tm, args.m - s.mt * tm); };
  const auto width = [&](const Step& s) { return std::min(tn, args.n - s.nt * tn); };
  const auto depth = [&](const Step& s) { return std::min(tk, args.k - s.kt * tk); };
  const auto load = [&](std::int64_t number) {
    const Step s = step_at(number);
    const auto a_at = static_cast<std::uint64_t>(blocked_offset(args.m, args.k, tm, tk, s.mt, s.kt) * in_size);
    const auto b_at = static_cast<std::uint64_t>(blocked_offset(args.k, args.n, tk, tn, s.kt, s.nt) * in_size);
    const Shape a_shape{height(s), depth(s)}, b_shape{depth(s), width(s)};
    return Operands{tl.load(a_base + a_at, a_shape, args.dtype, into(tl.slice(a_buffer[number % 2], 0, a_shape))),
                    tl.load(b_base + b_at, b_shape, args.dtype, into(tl.slice(b_buffer[number % 2], 0, b_shape)))};
  };

  Operands next = load(0);
  Handle sum;
  for (std::int64_t number = 0; number < steps; ++number) {
    const Operands now = next;
    if (number + 1 < steps) next = load(number + 1);
    const Step s = step_at(number);
    const std::int64_t tile = number / k_tiles;
    const bool first = s.kt == 0, last = s.kt + 1 == k_tiles;
    const Shape shape{height(s), width(s)};
    const Handle out = tl.slice(out_buffer[tile % 2], 0, shape);
    if (first) {
      sum = tl.dot(now.a, now.b, into(last ? out : tl.slice(sum_buffer[tile % 2], 0, shape)));
    } else {
      const Handle part = tl.dot(now.a, now.b, into(tl.slice(part_buffer[number % 2], 0, shape)));
      sum = tl.add(sum, part, into(last ? out : sum));
    }
    if (last) {
      const auto at = static_cast<std::uint64_t>(blocked_offset(args.m, args.n, tm, tn, s.mt, s.nt) * out_size);
      tl.store(c_base + at, sum);
    }
  }
}

std::int64_t blocked_offset(std::int64_t rows, std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols,
                            std::int64_t i, std::int64_t j) {
  const std::int64_t height = std::min(tile_rows, rows - i * tile_rows);
  return i * tile_rows * cols + j * tile_cols * height;
}

namespace {

/// Calls `copy(row-major element, blocked element, count)` for each row of each block.
template <typename Copy>
void for_each_block_row(std::int64_t rows, std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols,
                        const Copy& copy) {
  for (std::int64_t i = 0; i * tile_rows < rows; ++i) {
    const std::int64_t height = std::min(tile_rows, rows - i * tile_rows);
    for (std::int64_t j = 0; j * tile_cols < cols; ++j) {
      const std::int64_t width = std::min(tile_cols, cols - j * tile_cols);
      const std::int64_t at = blocked_offset(rows, cols, tile_rows, tile_cols, i, j);
      for (std::int64_t r = 0; r < height; ++r) copy((i * tile_rows + r) * cols + j * tile_cols, at + r * width, width);
    }
  }
}

}  // namespace

LogicalTensor pack_blocked(const LogicalTensor& from, std::int64_t first, std::int64_t rows, std::int64_t cols,
                           std::int64_t tile_rows, std::int64_t tile_cols) {
  LogicalTensor blocked(Shape{rows, cols}, from.dtype());
  const std::size_t element = size_of(from.dtype());
  for_each_block_row(rows, cols, tile_rows, tile_cols, [&](std::int64_t row_major, std::int64_t at, std::int64_t n) {
    std::memcpy(blocked.element(at), from.element(first + row_major), static_cast<std::size_t>(n) * element);
  });
  return blocked;
}

void unpack_blocked(const LogicalTensor& blocked, LogicalTensor& to, std::int64_t first, std::int64_t rows,
                    std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols) {
  const std::size_t element = size_of(to.dtype());
  for_each_block_row(rows, cols, tile_rows, tile_cols, [&](std::int64_t row_major, std::int64_t at, std::int64_t n) {
    std::memcpy(to.element(first + row_major), blocked.element(at), static_cast<std::size_t>(n) * element);
  });
}

}  // namespace kb
