#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/plan.h>
#include <kb/tlm_if/units.h>

#include <algorithm>
#include <limits>

namespace kb {

namespace {

__extension__ typedef unsigned __int128 Wide;

/// a * b * c, refused where the result does not fit 63 bits.
std::uint64_t product(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  constexpr Wide kLimit = std::numeric_limits<std::int64_t>::max();
  const Wide ab = Wide{a} * b;
  if (ab != 0 && (ab > kLimit || ab * c > kLimit)) {
    if (c == 0) return 0;
    throw ModelError("plan: found a total of " + std::to_string(a) + " x " + std::to_string(b) + " x " +
                     std::to_string(c) + "; allowed: at most 2^63 - 1");
  }
  return static_cast<std::uint64_t>(ab * c);
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  if (a > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - b)
    throw ModelError("plan: found a total of " + std::to_string(a) + " + " + std::to_string(b) +
                     "; allowed: at most 2^63 - 1");
  return a + b;
}

Wide saturating_product(Wide a, Wide b) {
  constexpr Wide kMax = ~Wide{0};
  return a != 0 && b > kMax / a ? kMax : a * b;
}

std::uint64_t tiles_of(std::uint64_t extent, std::uint32_t tile) {
  return std::max<std::uint64_t>(1, extent / tile + (extent % tile != 0 ? 1 : 0));
}

}  // namespace

PlanParams PlanParams::of(const MachineInfo& machine) {
  return {machine.tile, machine.tile_buffers, machine.accumulator_bytes};
}

std::uint32_t PlanParams::accumulators() const {
  const std::uint64_t count = accumulator_size() == 0 ? 0 : accumulator_bytes / accumulator_size();
  if (count == 0)
    throw ModelError("pe.gemm.accumulator_bytes: found " + std::to_string(accumulator_bytes) +
                     "; allowed: at least TILE_M * TILE_N * 4 = " + std::to_string(accumulator_size()));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

std::uint64_t loop_bytes(const LoopShape& s, const PlanParams& p, const Block& block) {
  const std::uint64_t rounds_a = ceil_div<std::uint64_t>(tiles_of(s.n, p.tile[2]), block.nb);
  const std::uint64_t rounds_b = ceil_div<std::uint64_t>(tiles_of(s.m, p.tile[0]), block.mb);
  constexpr Wide kMax = ~Wide{0};
  Wide total = 0;
  const auto add = [&total](std::uint64_t x, std::uint64_t y, std::uint64_t bytes, std::uint64_t rounds) {
    const Wide part = saturating_product(saturating_product(Wide{x} * y, bytes), rounds);
    total = part > kMax - total ? kMax : total + part;
  };
  if (s.stream_a) add(s.m, s.k, s.in_bytes, rounds_a);
  if (s.stream_b) add(s.k, s.n, s.in_bytes, rounds_b);
  if (s.write_out) add(s.m, s.n, s.out_bytes, 1);
  constexpr Wide kLimit = std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(std::min(total, kLimit));
}

Block choose_block(const LoopShape& s, const PlanParams& p) {
  const std::uint64_t accumulators = p.accumulators();
  // A block larger than the tile grid moves the same bytes as one that just covers it and loses the tie.
  const std::uint64_t max_mb = std::min<std::uint64_t>(p.tile_buffers, tiles_of(s.m, p.tile[0]));
  const std::uint64_t max_nb = std::min<std::uint64_t>(p.tile_buffers, tiles_of(s.n, p.tile[2]));
  Block best;
  std::uint64_t best_bytes = loop_bytes(s, p, best);
  for (std::uint64_t mb = 1; mb <= std::min(max_mb, accumulators); ++mb) {
    for (std::uint64_t nb = 1; nb <= std::min(max_nb, accumulators / mb); ++nb) {
      const Block block{static_cast<std::uint32_t>(mb), static_cast<std::uint32_t>(nb), true};
      const std::uint64_t bytes = loop_bytes(s, p, block);
      const std::uint64_t best_tiles = std::uint64_t{best.mb} * best.nb;
      if (bytes < best_bytes || (bytes == best_bytes && mb * nb < best_tiles)) {
        best = block;
        best_bytes = bytes;
      }
    }
  }
  return best;
}

PipelinePlan::PipelinePlan(CommandPtr command, const PlanParams& params) : command_(std::move(command)) {
  const Command& c = *command_;
  if (c.ops.empty()) refuse(-1, "no op", "at least one op");
  gemm_op_ = c.gemm_index();

  const auto resident = [this](int index, const TensorHandle& h, const std::string& what) {
    if (h.space != Space::tcm) refuse(index, what + " in " + name_of(h.space), "an operand that is resident in TCM");
  };

  switch (c.kind) {
    case CommandKind::dma_read: prologue_.stages.push_back({EngineKind::dma_read, TileRole::none, 0}); return;
    case CommandKind::dma_write: prologue_.stages.push_back({EngineKind::dma_write, TileRole::none, 0}); return;
    case CommandKind::ipcq_send:
    case CommandKind::ipcq_recv: prologue_.stages.push_back({EngineKind::ipcq, TileRole::none, 0}); return;
    case CommandKind::gemm:
      if (gemm_op_ < 0) refuse(0, "'" + c.ops[0].kind + "'", "'gemm'");
      break;
    case CommandKind::math:
    case CommandKind::copy:
      if (gemm_op_ >= 0) refuse(gemm_op_, "'gemm' in a math command", "an op of the vector unit");
      break;
    case CommandKind::composite: break;
  }

  std::vector<Stage> k_tile, output_tile;
  for (int i = 0; i < static_cast<int>(c.ops.size()); ++i) {
    if (i == gemm_op_) continue;
    const OpSpec& op = c.ops[static_cast<std::size_t>(i)];
    if (op.kind == "gemm") refuse(i, "a second 'gemm'", "at most one GEMM in a command");
    for (const auto& o : op.operands) resident(i, o.handle, "operand '" + o.name + "'");
    if (op.has_out) resident(i, op.out, "out");
    const Stage stage{EngineKind::math, TileRole::none, static_cast<std::int16_t>(i)};
    if (gemm_op_ < 0 || op.scope == OpScope::kernel) {
      (i < gemm_op_ || gemm_op_ < 0 ? prologue_ : epilogue_).stages.push_back(stage);
    } else {
      if (i < gemm_op_)
        refuse(i, std::string("scope ") + name_of(op.scope) + " before the GEMM", "scope kernel before the GEMM");
      (op.scope == OpScope::k_tile ? k_tile : output_tile).push_back(stage);
    }
  }
  if (gemm_op_ < 0) return;

  plan_loop(params);
  has_k_tile_ops_ = !k_tile.empty();
  const auto g = static_cast<std::int16_t>(gemm_op_);
  for (unsigned v = 0; v < variants_.size(); ++v) {
    auto& stages = variants_[v].stages;
    if ((v & 1u) != 0) stages.push_back({EngineKind::dma_read, TileRole::a, g});
    if ((v & 2u) != 0) stages.push_back({EngineKind::dma_read, TileRole::b, g});
    stages.push_back({EngineKind::fetch, TileRole::none, g});
    stages.push_back({EngineKind::gemm, TileRole::none, g});
    stages.insert(stages.end(), k_tile.begin(), k_tile.end());
    if ((v & 4u) == 0) continue;
    stages.insert(stages.end(), output_tile.begin(), output_tile.end());
    stages.push_back({EngineKind::store, TileRole::out, g});
    if (shape_.write_out) stages.push_back({EngineKind::dma_write, TileRole::out, g});
  }
}

void PipelinePlan::plan_loop(const PlanParams& params) {
  const OpSpec& op = gemm();
  a_ = op.operand("a");
  b_ = op.operand("b");
  if (a_ == nullptr || b_ == nullptr || !op.has_out)
    refuse(gemm_op_, "operands missing", "operands 'a' and 'b' and an out");
  if (a_->dtype != b_->dtype)
    refuse(gemm_op_, std::string("dtypes ") + name_of(a_->dtype) + " and " + name_of(b_->dtype),
           "one dtype for 'a' and 'b'");

  const auto extent = [&](const char* name) {
    const double value = op.scalar(name, -1);
    if (!(value >= 1) || value > 9007199254740992.0 || value != static_cast<double>(static_cast<std::int64_t>(value)))
      refuse(gemm_op_, std::string(name) + " = " + std::to_string(value), "a whole number from 1");
    return static_cast<std::uint64_t>(value);
  };
  shape_.m = extent("m");
  shape_.k = extent("k");
  shape_.n = extent("n");
  const auto match = [&](const TensorHandle& h, const char* name, std::uint64_t rows, std::uint64_t cols) {
    if (static_cast<std::uint64_t>(h.shape.numel()) != product(rows, cols, 1))
      refuse(gemm_op_, std::string(name) + " of shape " + h.shape.str(),
             std::to_string(rows) + " x " + std::to_string(cols) + " elements");
  };
  match(*a_, "a", shape_.m, shape_.k);
  match(*b_, "b", shape_.k, shape_.n);
  match(op.out, "out", shape_.m, shape_.n);

  const auto streamed = [&](const TensorHandle& h, const char* name) {
    if (h.space == Space::tcm) return false;
    if (h.pinned) refuse(gemm_op_, std::string(name) + " pinned in " + name_of(h.space), "resident operands in TCM");
    return true;
  };
  shape_.stream_a = streamed(*a_, "a");
  shape_.stream_b = streamed(*b_, "b");
  shape_.write_out = op.out.space != Space::tcm;
  shape_.in_bytes = size_of(a_->dtype);
  shape_.out_bytes = size_of(op.out.dtype);

  const auto count = [&](std::uint64_t extent_, std::uint32_t tile) {
    const std::uint64_t tiles = tiles_of(extent_, tile);
    if (tiles > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
      refuse(gemm_op_, std::to_string(tiles) + " tiles along one dimension", "at most 2^31 - 1");
    return static_cast<std::uint32_t>(tiles);
  };
  tile_m_ = params.tile[0];
  tile_k_ = params.tile[1];
  tile_n_ = params.tile[2];
  tiles_m_ = count(shape_.m, params.tile[0]);
  tiles_k_ = count(shape_.k, params.tile[1]);
  tiles_n_ = count(shape_.n, params.tile[2]);
  last_m_ = static_cast<std::int64_t>(shape_.m) - (tiles_m_ - 1) * tile_m_;
  last_k_ = static_cast<std::int64_t>(shape_.k) - (tiles_k_ - 1) * tile_k_;
  last_n_ = static_cast<std::int64_t>(shape_.n) - (tiles_n_ - 1) * tile_n_;
  block_ = choose_block(shape_, params);
}

void PipelinePlan::refuse(int op, const std::string& found, const std::string& expected) const {
  std::string where = std::string("command ") + std::to_string(command_->id) + " (" + name_of(command_->kind) + ")";
  if (op >= 0) where += ", op " + std::to_string(op) + " '" + command_->ops[static_cast<std::size_t>(op)].kind + "'";
  throw ModelError(where + ": found " + found + "; expected " + expected);
}

bool PipelinePlan::streams(TileRole role) const {
  switch (role) {
    case TileRole::a: return shape_.stream_a;
    case TileRole::b: return shape_.stream_b;
    case TileRole::out: return shape_.write_out;
    case TileRole::none: return false;
  }
  return false;
}

StageWork PipelinePlan::tile_transfer(TileRole role, const TileCoord& at) const {
  const OpSpec& op = gemm();
  // The stored matrix: rows x cols in tiles of tile_rows x tile_cols; ours is tile (i, j), height x width.
  std::uint64_t base = 0, cols = 0, i = 0, j = 0;
  std::int64_t tile_rows = 0, tile_cols = 0, height = 0, width = 0;
  const auto place = [&](std::uint64_t c, std::uint64_t ti, std::uint64_t tj, std::int64_t tr, std::int64_t tc,
                         std::int64_t h, std::int64_t w) {
    cols = c;
    i = ti;
    j = tj;
    tile_rows = tr;
    tile_cols = tc;
    height = h;
    width = w;
  };
  const std::int64_t m = size_m(at.m), n = size_n(at.n), k = size_k(at.k);
  std::uint64_t element = shape_.in_bytes;
  switch (role) {
    case TileRole::a:
      base = a_->addr;
      if (op.trans_a)
        place(shape_.m, at.k, at.m, tile_k_, tile_m_, k, m);
      else
        place(shape_.k, at.m, at.k, tile_m_, tile_k_, m, k);
      break;
    case TileRole::b:
      base = b_->addr;
      if (op.trans_b)
        place(shape_.k, at.n, at.k, tile_n_, tile_k_, n, k);
      else
        place(shape_.n, at.k, at.n, tile_k_, tile_n_, k, n);
      break;
    case TileRole::out:
    case TileRole::none:
      base = op.out.addr;
      element = shape_.out_bytes;
      place(shape_.n, at.m, at.n, tile_m_, tile_n_, m, n);
      break;
  }
  StageWork w;
  w.address = base + (i * static_cast<std::uint64_t>(tile_rows) * cols +
                      j * static_cast<std::uint64_t>(tile_cols) * static_cast<std::uint64_t>(height)) *
                         element;
  w.bytes = static_cast<std::uint64_t>(height * width) * element;
  return w;
}

StageWork PipelinePlan::work(const Stage& stage, const TileCoord& at) const {
  StageWork w;
  const OpSpec& op = command_->ops[static_cast<std::size_t>(stage.op)];
  const bool tile_wise = stage.op == gemm_op_ || (gemm_op_ >= 0 && op.scope != OpScope::kernel);
  switch (stage.engine) {
    case EngineKind::dma_read:
    case EngineKind::dma_write:
      if (stage.role != TileRole::none) return tile_transfer(stage.role, at);
      w.address = stage.engine == EngineKind::dma_read ? op.operand("src")->addr : op.out.addr;
      w.bytes = transfer_bytes(*command_);
      return w;
    case EngineKind::fetch:
      w.m = size_m(at.m);
      w.k = size_k(at.k);
      w.n = size_n(at.n);
      w.bytes = static_cast<std::uint64_t>((w.m + w.n) * w.k) * shape_.in_bytes;
      return w;
    case EngineKind::gemm:
      w.m = size_m(at.m);
      w.k = size_k(at.k);
      w.n = size_n(at.n);
      return w;
    case EngineKind::store:
      w.m = size_m(at.m);
      w.n = size_n(at.n);
      w.bytes = static_cast<std::uint64_t>(w.m * w.n) * shape_.out_bytes;
      return w;
    case EngineKind::math:
      if (tile_wise) {
        w.m = size_m(at.m);
        w.n = size_n(at.n);
        w.elements = static_cast<std::uint64_t>(w.m * w.n);
      } else {
        w.elements = math_elements(op);
      }
      return w;
    default: return w;
  }
}

PlanSummary PipelinePlan::summary() const {
  PlanSummary s;
  for (const TilePlan* chain : {&prologue_, &epilogue_}) {
    for (const Stage& stage : chain->stages) {
      ++s.stages;
      const StageWork w = work(stage, {});
      s.math_elements = sum(s.math_elements, w.elements);
      if (stage.engine == EngineKind::dma_read) {
        ++s.dma_reads;
        s.dma_read_bytes = s.must_read_bytes = w.bytes;
      } else if (stage.engine == EngineKind::dma_write) {
        ++s.dma_writes;
        s.dma_write_bytes = s.must_write_bytes = w.bytes;
      }
    }
  }
  if (!has_loop()) return s;

  const std::uint64_t rounds_a = ceil_div(tiles_n_, block_.nb);
  const std::uint64_t rounds_b = ceil_div(tiles_m_, block_.mb);
  const std::uint64_t mn_tiles = product(tiles_m_, tiles_n_, 1);
  const std::uint64_t a_bytes = product(shape_.m, shape_.k, shape_.in_bytes);
  const std::uint64_t b_bytes = product(shape_.k, shape_.n, shape_.in_bytes);
  const std::uint64_t out_bytes = product(shape_.m, shape_.n, shape_.out_bytes);
  s.tile_steps = product(mn_tiles, tiles_k_, 1);
  s.macs = product(shape_.m, shape_.k, shape_.n);
  if (shape_.stream_a) {
    s.dma_reads = sum(s.dma_reads, product(tiles_m_, tiles_k_, rounds_a));
    s.dma_read_bytes = sum(s.dma_read_bytes, product(a_bytes, rounds_a, 1));
    s.must_read_bytes = sum(s.must_read_bytes, a_bytes);
  }
  if (shape_.stream_b) {
    s.dma_reads = sum(s.dma_reads, product(tiles_n_, tiles_k_, rounds_b));
    s.dma_read_bytes = sum(s.dma_read_bytes, product(b_bytes, rounds_b, 1));
    s.must_read_bytes = sum(s.must_read_bytes, b_bytes);
  }
  if (shape_.write_out) {
    s.dma_writes = mn_tiles;
    s.dma_write_bytes = s.must_write_bytes = out_bytes;
  }
  s.fetch_bytes = sum(product(a_bytes, tiles_n_, 1), product(b_bytes, tiles_m_, 1));
  s.store_bytes = out_bytes;
  std::uint64_t k_tile_ops = 0, output_ops = 0;
  for (const Stage& stage : variant(false, false, true).stages) {
    if (stage.engine != EngineKind::math) continue;
    const bool per_k = command_->ops[static_cast<std::size_t>(stage.op)].scope == OpScope::k_tile;
    ++(per_k ? k_tile_ops : output_ops);
  }
  const std::uint64_t out_elements = product(shape_.m, shape_.n, 1);
  s.math_elements = sum(s.math_elements, sum(product(out_elements, tiles_k_, k_tile_ops),
                                             product(out_elements, output_ops, 1)));
  // FETCH, GEMM and k_tile ops per step; STORE and output ops per (m, n); the reads and writes.
  s.stages = sum(s.stages, product(s.tile_steps, 2 + k_tile_ops, 1));
  s.stages = sum(s.stages, product(mn_tiles, 1 + output_ops, 1));
  s.stages = sum(s.stages, sum(s.dma_reads, s.dma_writes));
  return s;
}

TileCursor::TileCursor(const PipelinePlan& plan) : plan_(&plan), done_(!plan.has_loop()) {
  if (done_) return;
  rows_ = std::min(plan.block().mb, plan.tiles_m());
  cols_ = std::min(plan.block().nb, plan.tiles_n());
  describe();
}

void TileCursor::advance() {
  const bool m_outer = plan_->block().m_outer;
  std::uint32_t& inner = m_outer ? col_ : row_;
  std::uint32_t& outer = m_outer ? row_ : col_;
  const std::uint32_t inner_count = m_outer ? cols_ : rows_;
  const std::uint32_t outer_count = m_outer ? rows_ : cols_;
  if (++inner == inner_count) {
    inner = 0;
    if (++outer == outer_count) {
      outer = 0;
      if (++k_ == plan_->tiles_k()) {
        k_ = 0;
        // The next block: along n first when m is outer.
        block_m_ += m_outer ? 0 : plan_->block().mb;
        block_n_ += m_outer ? plan_->block().nb : 0;
        if (m_outer && block_n_ >= plan_->tiles_n()) {
          block_n_ = 0;
          block_m_ += plan_->block().mb;
        } else if (!m_outer && block_m_ >= plan_->tiles_m()) {
          block_m_ = 0;
          block_n_ += plan_->block().nb;
        }
        if (block_m_ >= plan_->tiles_m() || block_n_ >= plan_->tiles_n()) {
          done_ = true;
          return;
        }
        rows_ = std::min(plan_->block().mb, plan_->tiles_m() - block_m_);
        cols_ = std::min(plan_->block().nb, plan_->tiles_n() - block_n_);
      }
    }
  }
  describe();
}

void TileCursor::describe() {
  const bool m_outer = plan_->block().m_outer;
  step_.at = {block_m_ + row_, block_n_ + col_, k_};
  step_.block_index = m_outer ? row_ * cols_ + col_ : col_ * rows_ + row_;
  step_.block_tiles = rows_ * cols_;
  step_.first_k = k_ == 0;
  step_.last_k = k_ + 1 == plan_->tiles_k();
  step_.block_starts = k_ == 0 && row_ == 0 && col_ == 0;
  step_.reads_a = plan_->shape().stream_a && col_ == 0;
  step_.reads_b = plan_->shape().stream_b && row_ == 0;
  step_.last_a = plan_->shape().stream_a && col_ + 1 == cols_;
  step_.last_b = plan_->shape().stream_b && row_ + 1 == rows_;
  step_.tile = &plan_->variant(step_.reads_a, step_.reads_b, step_.last_k);
}

std::uint64_t math_elements(const OpSpec& op) {
  std::int64_t elements = op.has_out ? op.out.shape.numel() : 0;
  for (const auto& o : op.operands) elements = std::max(elements, o.handle.shape.numel());
  return static_cast<std::uint64_t>(elements);
}

std::uint64_t transfer_bytes(const Command& command) {
  const OpSpec& op = command.ops[0];
  if (op.has_scalar("bytes")) return static_cast<std::uint64_t>(op.scalar("bytes"));
  const TensorHandle* src = op.operand("src");
  return src == nullptr ? op.out.bytes() : src->bytes();
}

}  // namespace kb
