// What a command becomes inside a PE: stages, tiles, blocks. A plan is a pure function of the command and the
// PE's parameters; it is generated lazily and can be read without a simulation (spec 2.2).
#pragma once

#include <kb/tlm_if/command.h>
#include <kb/tlm_if/machine_info.h>
#include <kb/tlm_if/op_log.h>
#include <kb/tlm_if/run_stats.h>

#include <array>
#include <cstdint>
#include <vector>

namespace kb {

/// The parameters that a plan depends on.
struct PlanParams {
  std::array<std::uint32_t, 3> tile{32, 64, 32};  // TILE_M, TILE_K, TILE_N
  std::uint32_t tile_buffers = 8;
  std::uint64_t accumulator_bytes = 64 * 1024;

  static PlanParams of(const MachineInfo& machine);
  /// Bytes of one accumulator: TILE_M * TILE_N * 4, whatever the tile's real size.
  std::uint64_t accumulator_size() const { return std::uint64_t{tile[0]} * tile[2] * 4; }
  /// Accumulators that fit; throws ModelError when not even one does.
  std::uint32_t accumulators() const;
};

/// One step of a token: which engine, on which stream or op of the command.
struct Stage {
  EngineKind engine = EngineKind::math;  // dma_read, dma_write, fetch, store, gemm, math or ipcq
  TileRole role = TileRole::none;        // dma_read: a or b; store, dma_write: out
  std::int16_t op = -1;                  // index into command->ops
  friend bool operator==(const Stage& x, const Stage& y) {
    return x.engine == y.engine && x.role == y.role && x.op == y.op;
  }
};

/// The stages of one tile step, or of a chain (prologue, epilogue, single op), in order.
struct TilePlan {
  std::vector<Stage> stages;
};

/// Block of the tile loop (spec 2.2). `m_outer`: blocks, and tiles within a block, run over n first, then m.
struct Block {
  std::uint32_t mb = 1;
  std::uint32_t nb = 1;
  bool m_outer = true;
  friend bool operator==(const Block& x, const Block& y) {
    return x.mb == y.mb && x.nb == y.nb && x.m_outer == y.m_outer;
  }
};

/// Coordinates of a tile step.
struct TileCoord {
  std::uint32_t m = 0, n = 0, k = 0;
};

/// A tile step as the cursor hands it out.
struct TileStep {
  TileCoord at;
  const TilePlan* tile = nullptr;
  std::uint32_t block_index = 0;  // of the (m, n) tile in its block, in the order of their first steps
  bool reads_a = false, reads_b = false;  // this step reads the tile from memory ...
  bool last_a = false, last_b = false;    // ... and this one is the last that fetches the buffered tile
  bool first_k = false, last_k = false;
  bool block_starts = false;      // first step of a block
  std::uint32_t block_tiles = 0;  // (m, n) tiles of this block
};

/// What a stage moves or computes; a pure function of plan, stage and coordinates.
struct StageWork {
  std::uint64_t address = 0;  // dma: virtual address
  std::uint64_t bytes = 0;    // dma, fetch, store
  std::uint64_t elements = 0; // math
  std::int64_t m = 0, k = 0, n = 0;  // gemm; m x n of tile-wise math
};

/// Totals of a plan, by closed formulas. Throws ModelError where a total does not fit 63 bits.
struct PlanSummary {
  std::uint64_t tile_steps = 0;
  std::uint64_t stages = 0;          // all stages of all tokens
  std::uint64_t dma_reads = 0, dma_read_bytes = 0;
  std::uint64_t dma_writes = 0, dma_write_bytes = 0;
  std::uint64_t fetch_bytes = 0, store_bytes = 0;
  std::uint64_t math_elements = 0;
  std::uint64_t macs = 0;            // M * K * N
  std::uint64_t must_read_bytes = 0, must_write_bytes = 0;  // each streamed operand byte once
  std::uint64_t moved_bytes() const { return dma_read_bytes + dma_write_bytes; }
};

/// GEMM extents and which of its streams touch memory: all that the choice of a block depends on.
struct LoopShape {
  std::uint64_t m = 0, k = 0, n = 0;
  std::uint32_t in_bytes = 2;   // of an element of a and b
  std::uint32_t out_bytes = 4;
  bool stream_a = false, stream_b = false, write_out = false;
};

/// Bytes that the loop moves to and from memory with this block:
///   A: M*K*in * ceil(tiles_n / nb)   B: K*N*in * ceil(tiles_m / mb)   out: M*N*out, each if it is streamed.
/// Within a block a streamed tile is read once per k; nothing is kept from one block to the next (a buffer
/// lives until the last FETCH of its k step), so the bytes do not depend on the order of the blocks.
/// Saturates at 2^64 - 1.
std::uint64_t loop_bytes(const LoopShape& shape, const PlanParams& params, const Block& block);

/// The block that moves the fewest bytes among all with mb * nb accumulators that fit and mb, nb <=
/// tile_buffers; ties: smaller mb * nb, then smaller mb, then m-outer (spec 2.2).
Block choose_block(const LoopShape& shape, const PlanParams& params);

/// A command's plan. Holds the command, at most eight tile variants and the block; never a list of tiles.
class PipelinePlan {
 public:
  /// Throws ModelError naming the command and the op: two GEMMs, mixed GEMM dtypes, a dimension of 0, GEMM
  /// sizes that do not match the operands, a tile op or a kernel-scope op with an operand that is not in TCM.
  PipelinePlan(CommandPtr command, const PlanParams& params);

  const Command& command() const { return *command_; }
  const CommandPtr& command_ptr() const { return command_; }

  /// Stages before the tile loop; of a command without a loop: all of its stages.
  const TilePlan& prologue() const { return prologue_; }
  /// Stages after the tile loop.
  const TilePlan& epilogue() const { return epilogue_; }

  bool has_loop() const { return gemm_op_ >= 0; }
  int gemm_op() const { return gemm_op_; }
  const OpSpec& gemm() const { return command_->ops[static_cast<std::size_t>(gemm_op_)]; }
  const LoopShape& shape() const { return shape_; }
  std::uint32_t tiles_m() const { return tiles_m_; }
  std::uint32_t tiles_n() const { return tiles_n_; }
  std::uint32_t tiles_k() const { return tiles_k_; }
  const Block& block() const { return block_; }
  bool streams(TileRole role) const;
  /// Whether a MATH stage follows the GEMM of every k step.
  bool has_k_tile_ops() const { return has_k_tile_ops_; }
  const TilePlan& variant(bool reads_a, bool reads_b, bool last_k) const {
    return variants_[(reads_a ? 1u : 0u) | (reads_b ? 2u : 0u) | (last_k ? 4u : 0u)];
  }

  /// Real sizes of a tile step (ragged edges).
  std::int64_t size_m(std::uint32_t m) const { return m + 1 == tiles_m_ ? last_m_ : tile_m_; }
  std::int64_t size_n(std::uint32_t n) const { return n + 1 == tiles_n_ ? last_n_ : tile_n_; }
  std::int64_t size_k(std::uint32_t k) const { return k + 1 == tiles_k_ ? last_k_ : tile_k_; }

  /// Address and bytes of a streamed tile in blocked layout: tile (i, j) of the stored matrix starts at the
  /// operand's address plus the bytes of all tiles before it in row-major tile order (spec 1.4).
  StageWork tile_transfer(TileRole role, const TileCoord& at) const;
  StageWork work(const Stage& stage, const TileCoord& at) const;

  PlanSummary summary() const;

 private:
  void plan_loop(const PlanParams& params);
  [[noreturn]] void refuse(int op, const std::string& found, const std::string& expected) const;

  CommandPtr command_;
  TilePlan prologue_, epilogue_;
  std::array<TilePlan, 8> variants_;
  int gemm_op_ = -1;
  LoopShape shape_;
  Block block_;
  std::uint32_t tiles_m_ = 0, tiles_n_ = 0, tiles_k_ = 0;
  std::int64_t tile_m_ = 0, tile_n_ = 0, tile_k_ = 0;
  std::int64_t last_m_ = 0, last_n_ = 0, last_k_ = 0;
  bool has_k_tile_ops_ = false;
  const TensorHandle* a_ = nullptr;
  const TensorHandle* b_ = nullptr;
};

/// Walks the tile steps of a plan in feed order: block after block; in a block k step after k step; in a k step
/// over the block's tiles. Constant memory.
class TileCursor {
 public:
  explicit TileCursor(const PipelinePlan& plan);
  bool done() const { return done_; }
  /// The step to come.
  const TileStep& step() const { return step_; }
  void advance();

 private:
  void describe();

  const PipelinePlan* plan_;
  bool done_ = false;
  std::uint32_t block_m_ = 0, block_n_ = 0;  // first tile of the block
  std::uint32_t rows_ = 0, cols_ = 0;        // tiles of the block
  std::uint32_t row_ = 0, col_ = 0, k_ = 0;
  TileStep step_;
};

/// Elements that set the time of a kernel-scope math op or a copy: the largest of its output and operands. For
/// element-wise operations that is the output (operands broadcast to it), for reductions the input (spec 2.1).
std::uint64_t math_elements(const OpSpec& op);

/// Bytes of a dma_read or dma_write command's transfer.
std::uint64_t transfer_bytes(const Command& command);

}  // namespace kb
