#include <kb/platform/data_pass.h>

#include "tensor_io.h"
#include "tile_product.h"

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/numerics.h>
#include <kb/tlm_if/plan.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kb {

namespace {

/// Values of a tile or tensor: f32, or i32 as two's complement in unsigned arithmetic.
struct Buffer {
  std::vector<float> f;
  std::vector<std::uint32_t> u;

  float* floats(std::int64_t n) {
    if (f.size() < static_cast<std::size_t>(n)) f.resize(static_cast<std::size_t>(n));
    return f.data();
  }
  std::uint32_t* words(std::int64_t n) {
    if (u.size() < static_cast<std::size_t>(n)) u.resize(static_cast<std::size_t>(n));
    return u.data();
  }
  /// The integer values as floats.
  void to_float(std::int64_t n) {
    floats(n);
    for (std::int64_t i = 0; i < n; ++i)
      f[static_cast<std::size_t>(i)] = static_cast<float>(static_cast<std::int32_t>(u[static_cast<std::size_t>(i)]));
  }
};

/// Owns objects that are handed out and taken back, so that a steady state allocates nothing.
template <typename T>
class Pool {
 public:
  std::unique_ptr<T> take() {
    if (free_.empty()) return std::make_unique<T>();
    auto object = std::move(free_.back());
    free_.pop_back();
    return object;
  }
  void give(std::unique_ptr<T> object) { free_.push_back(std::move(object)); }

 private:
  std::vector<std::unique_ptr<T>> free_;
};

/// Takes element `i` out of `list`, whose order does not matter.
template <typename T>
T extract(std::vector<T>& list, std::size_t i) {
  T value = std::move(list[i]);
  if (i + 1 != list.size()) list[i] = std::move(list.back());
  list.pop_back();
  return value;
}

/// A streamed operand's tile as its DMA read found it.
struct Snapshot {
  TileRole role = TileRole::a;
  std::int32_t index = 0;  // tile_m of a, tile_n of b
  std::int32_t tile_k = 0;
  std::uint64_t order = 0;  // of reading, within the command
  std::int64_t uses = 0;
  Buffer values;
};

/// A k tile's product that epilogues have still to work on, or that waits for its turn.
struct Partial {
  std::int32_t tile_k = 0;
  std::size_t next_op = 0;  // in Loop::k_ops
  Buffer values;
};

struct Accumulator {
  std::int32_t tile_m = 0, tile_n = 0;
  std::int64_t next_k = 0;  // products added so far
  std::size_t next_op = 0;  // in Loop::out_ops
  bool integer = false;
  Buffer values;
  std::vector<std::unique_ptr<Partial>> pending;
};

/// A stored tile on its way to memory.
struct Staged {
  std::int32_t tile_m = 0, tile_n = 0;
  std::vector<unsigned char> bytes;
};

/// A GEMM operand or output in its logical orientation.
struct Matrix {
  const TensorHandle* handle = nullptr;
  std::int64_t row_step = 0, col_step = 0;

  std::uint64_t addr(std::int64_t row, std::int64_t col) const {
    return handle->addr + static_cast<std::uint64_t>(row * row_step + col * col_step) * size_of(handle->dtype);
  }
};

/// State of a command's GEMM tile loop.
struct Loop {
  Loop(const CommandPtr& command, const PlanParams& params) : plan(command, params) {}

  PipelinePlan plan;
  std::int64_t m = 0, k = 0, n = 0;
  std::int64_t tiles_m = 0, tiles_k = 0, tiles_n = 0;
  std::int64_t block_m = 1, block_n = 1;
  Matrix a, b, out;
  bool integer = false;
  bool written = false;  // out lives in memory: tiles go there by DMA
  std::vector<int> k_ops, out_ops;
  std::vector<std::unique_ptr<Snapshot>> snapshots;
  std::vector<std::unique_ptr<Accumulator>> accumulators;
  std::vector<std::unique_ptr<Staged>> staged;
  std::vector<bool> stored;
  std::uint64_t reads = 0;
  std::int64_t steps = 0, stores = 0, writes = 0;
};

/// A command between its acceptance and its completion.
struct Live {
  CommandPtr command;
  std::vector<const MathOp*> meanings;  // per op; null for those that are no math
  std::vector<bool> done;               // per op of scope kernel, and the one op of a single command
  std::unique_ptr<Loop> loop;
  bool completed = false;  // command_done was seen (queue commands move their value later)
};

/// A tensor sent and not yet received.
struct Message {
  std::uint32_t from = 0;
  std::vector<unsigned char> bytes;
};

/// Commands for the queue engine are of its kind, so that they stand before a send of the same picosecond.
OpKind kind_of(const OpRecord& r) {
  switch (r.name) {
    case OpName::dma_read:
    case OpName::dma_write:
    case OpName::fetch:
    case OpName::store:
    case OpName::mem_read:
    case OpName::mem_write: return OpKind::memory;
    case OpName::gemm: return OpKind::gemm;
    case OpName::math: return OpKind::math;
    case OpName::send:
    case OpName::recv:
    case OpName::slot_write:
    case OpName::credit: return OpKind::ipcq;
    case OpName::command: return r.command && is_queue(r.command->kind) ? OpKind::ipcq : OpKind::control;
    case OpName::command_done:
    case OpName::launch:
    case OpName::launch_done: return OpKind::control;
  }
  return OpKind::control;
}

std::string ns_text(Ps ps) {
  std::string fraction = std::to_string(ps % 1000);
  return std::to_string(ps / 1000) + "." + std::string(3 - std::min<std::size_t>(3, fraction.size()), '0') + fraction;
}

std::string range_text(std::int64_t count) {
  return "0.." + std::to_string(count - 1);
}

/// Runs `f`, which calls user-visible helpers that throw ModelError without knowing the record.
template <typename F, typename Fail>
auto in_context(F f, Fail fail) {
  try {
    return f();
  } catch (const ModelError& e) {
    fail(e.what());
    throw;
  }
}

}  // namespace

class DataPass::Impl {
 public:
  Impl(const MachineInfo& machine, MemoryView& memory, const MathTable& table, const ComponentTable* components)
      : machine_(machine), io_(memory), table_(table), components_(components), live_(machine.total_pes()) {}

  void record(const OpRecord& r) {
    r_ = &r;
    check_stream();
    switch (r.name) {
      case OpName::command: accept(); break;
      case OpName::command_done: complete(); break;
      case OpName::dma_read:
        if (r.role == TileRole::none)
          transfer(CommandKind::dma_read, "src");
        else
          read_tile();
        break;
      case OpName::dma_write:
        if (r.role == TileRole::none)
          transfer(CommandKind::dma_write, "out");
        else
          write_tile();
        break;
      case OpName::fetch: {
        const Loop& loop = the_loop();
        check_tile(loop);
        break;
      }
      case OpName::gemm: step(); break;
      case OpName::math: math(); break;
      case OpName::store: store(); break;
      case OpName::send: send(); break;
      case OpName::recv: receive(); break;
      case OpName::slot_write:
      case OpName::credit:
        if (r.peer >= machine_.total_pes()) fail("peer", std::to_string(r.peer), range_text(machine_.total_pes()));
        break;
      case OpName::mem_read:
      case OpName::mem_write:
      case OpName::launch:
      case OpName::launch_done: break;
    }
    ++records_;
    r_ = nullptr;
  }

  void flush() {
    for (std::uint32_t pe = 0; pe < live_.size(); ++pe)
      for (const auto& live : live_[pe])
        throw ModelError("op log: found no command_done of command " + std::to_string(live->command->id) + " (" +
                         name_of(live->command->kind) + ") of PE " + std::to_string(pe) +
                         "; allowed at the end of a launch: none");
    if (!messages_.empty()) {
      const auto& [key, message] = *messages_.begin();
      throw ModelError("op log: found no recv of message " + std::to_string(std::get<2>(key)) + " from PE " +
                       std::to_string(message->from) + " to PE " + std::to_string(std::get<0>(key)) + ", direction " +
                       name_of(std::get<1>(key)) + "; allowed at the end of a launch: every message received");
    }
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const Numbers& n = numbers_[i];
      if (n.count == 0 || (n.last + 1 == n.count && n.sum == n.count * (n.count - 1) / 2)) continue;
      if (n.foreign && n.count <= n.last) continue;  // some that began earlier go on beyond the launch
      throw ModelError("op log: found " + std::to_string(n.count) + " records of component " + component_name(i) +
                       " with numbers up to " + std::to_string(n.last) + "; allowed: each number from 0 once");
    }
  }

  std::uint64_t records() const { return records_; }

 private:
  /// Numbers of a component's records: each from 0 once, whatever their order.
  struct Numbers {
    std::uint64_t count = 0, last = 0, sum = 0;
    bool foreign = false;  // some of them nobody's of the PEs
  };
  using MessageKey = std::tuple<std::uint32_t, Direction, std::uint64_t>;  // receiver, its direction, number

  // ---- errors ----------------------------------------------------------------------------------------------

  std::string component_name(std::size_t i) const {
    return components_ && i < components_->size() ? components_->name(static_cast<std::uint32_t>(i))
                                                  : std::to_string(i);
  }

  [[noreturn]] void fail_with(const std::string& what) const {
    std::string text = "op log record " + std::to_string(records_) + " (component " + component_name(r_->component) +
                       " #" + std::to_string(r_->number) + ", " + name_of(r_->name);
    if (r_->command) text += ", command " + std::to_string(r_->command->id) + " of PE " + std::to_string(r_->pe);
    throw ModelError(text + ", ends at " + ns_text(r_->t_end) + " ns): " + what);
  }
  [[noreturn]] void fail(const char* field, const std::string& found, const std::string& allowed) const {
    fail_with(std::string("field ") + field + ": found " + found + "; allowed: " + allowed);
  }
  void expect(const char* field, std::int64_t found, std::int64_t allowed) const {
    if (found != allowed) fail(field, std::to_string(found), std::to_string(allowed));
  }
  void expect_u(const char* field, std::uint64_t found, std::uint64_t allowed) const {
    if (found != allowed) fail(field, std::to_string(found), std::to_string(allowed));
  }

  // ---- the stream ------------------------------------------------------------------------------------------

  void check_stream() {
    const OpRecord& r = *r_;
    if (components_ && r.component >= components_->size())
      fail("component", std::to_string(r.component), range_text(static_cast<std::int64_t>(components_->size())));
    if (r.kind != kind_of(r)) fail("kind", kb::name_of(r.kind), kb::name_of(kind_of(r)));
    if (r.t_start > r.t_end) fail("t_start_ns", ns_text(r.t_start), "at most t_end_ns");
    const Order order{r.t_end, r.kind, r.component, r.number};
    if (records_ > 0 && !(last_ < order))
      fail("t_end_ns", ns_text(r.t_end), "records in the order of (t_end, kind, component, number)");
    last_ = order;
    if (numbers_.size() <= r.component) numbers_.resize(r.component + 1);
    Numbers& n = numbers_[r.component];
    ++n.count;
    n.sum += r.number;
    n.last = std::max(n.last, r.number);
    n.foreign = n.foreign || (r.pe == kNoPe && r.kind == OpKind::memory);
    if (r.command && r.pe >= machine_.total_pes()) fail("pe", std::to_string(r.pe), range_text(machine_.total_pes()));
  }

  Live* find_live() {
    if (!r_->command) fail("command", "none", "the command that the operation belongs to");
    for (auto& live : live_[r_->pe])
      if (live->command->id == r_->command->id) return live.get();
    return nullptr;
  }
  Live& the_live() {
    Live* live = find_live();
    if (!live) fail("command", std::to_string(r_->command->id), "a command that was accepted and is not done");
    return *live;
  }
  Loop& the_loop() {
    Live& live = the_live();
    if (!live.loop) fail("command", kb::name_of(live.command->kind), "a command with a GEMM");
    return *live.loop;
  }
  const OpSpec& the_op(const Live& live) const {
    const auto count = static_cast<std::int64_t>(live.command->ops.size());
    if (r_->op < 0 || r_->op >= count) fail("op", std::to_string(r_->op), range_text(count));
    return live.command->ops[static_cast<std::size_t>(r_->op)];
  }

  // ---- commands --------------------------------------------------------------------------------------------

  void accept() {
    const OpRecord& r = *r_;
    if (find_live()) fail("command", std::to_string(r.command->id), "a number that is not in flight");
    auto live = std::make_unique<Live>();
    live->command = r.command;
    const Command& c = *r.command;
    if (c.ops.empty()) fail("command", "no ops", "at least one");
    if (c.kind != CommandKind::composite && c.ops.size() != 1)
      fail("command", std::to_string(c.ops.size()) + " ops", "1 op in a single command");
    live->done.assign(c.ops.size(), false);
    live->meanings.assign(c.ops.size(), nullptr);
    in_context(
        [&] {
          const int gemm = c.kind == CommandKind::gemm || c.kind == CommandKind::composite ? c.gemm_index() : -1;
          if (c.kind == CommandKind::gemm && gemm != 0) throw ModelError("gemm command without a gemm op");
          if (gemm >= 0) live->loop = make_loop(r.command);
          if (c.kind == CommandKind::math || c.kind == CommandKind::copy || c.kind == CommandKind::composite)
            for (std::size_t i = 0; i < c.ops.size(); ++i)
              if (static_cast<int>(i) != gemm) live->meanings[i] = &meaning_of(c, i, live->loop.get());
        },
        [&](const std::string& what) { fail_with("field command: " + what); });
    if (live->loop) {
      if (r.block_m < 1) fail("block_m", "0", "1 and above");
      if (r.block_n < 1) fail("block_n", "0", "1 and above");
      live->loop->block_m = r.block_m;
      live->loop->block_n = r.block_n;
    }
    live_[r.pe].push_back(std::move(live));
  }

  std::unique_ptr<Loop> make_loop(const CommandPtr& command) {
    const Command& c = *command;
    auto loop = std::make_unique<Loop>(command, PlanParams::of(machine_));
    const PipelinePlan& plan = loop->plan;
    const OpSpec& op = plan.gemm();
    loop->m = static_cast<std::int64_t>(plan.shape().m);
    loop->k = static_cast<std::int64_t>(plan.shape().k);
    loop->n = static_cast<std::int64_t>(plan.shape().n);
    loop->a = matrix(*op.operand("a"), "a", op.trans_a, loop->m, loop->k);
    loop->b = matrix(*op.operand("b"), "b", op.trans_b, loop->k, loop->n);
    loop->out = matrix(op.out, "out", false, loop->m, loop->n);
    loop->integer = !is_float(op.operand("a")->dtype);
    loop->written = plan.streams(TileRole::out);
    loop->tiles_m = plan.tiles_m();
    loop->tiles_k = plan.tiles_k();
    loop->tiles_n = plan.tiles_n();
    loop->stored.assign(static_cast<std::size_t>(loop->tiles_m * loop->tiles_n), false);
    for (std::size_t i = 0; i < c.ops.size(); ++i) {
      if (static_cast<int>(i) == plan.gemm_op()) continue;
      if (c.ops[i].scope == OpScope::k_tile) loop->k_ops.push_back(static_cast<int>(i));
      if (c.ops[i].scope == OpScope::output_tile) loop->out_ops.push_back(static_cast<int>(i));
    }
    return loop;
  }

  /// A handle as the rows x cols matrix of the GEMM, turned where it is read transposed. A handle that is not of
  /// two dimensions must be dense; its elements are then taken in their order.
  static Matrix matrix(const TensorHandle& h, const char* name, bool turned, std::int64_t rows, std::int64_t cols) {
    if (turned) std::swap(rows, cols);
    const bool fits = h.shape.rank() == 2 ? h.shape[0] == rows && h.shape[1] == cols : h.dense();
    if (!fits)
      throw ModelError(std::string("gemm: found ") + name + " of shape " + h.shape.str() +
                       "; allowed: " + Shape{rows, cols}.str() + ", or a dense tensor of as many elements");
    Matrix matrix{&h, h.shape.rank() == 2 ? h.strides[0] : cols, h.shape.rank() == 2 ? h.strides[1] : 1};
    if (turned) std::swap(matrix.row_step, matrix.col_step);
    return matrix;
  }

  const MathOp& meaning_of(const Command& c, std::size_t i, const Loop* loop) const {
    const OpSpec& op = c.ops[i];
    const bool tile = op.scope != OpScope::kernel;
    const MathOp& meaning = table_.find(op, tile);
    if (!tile) {
      if (!op.has_out) throw ModelError("math operation " + op.kind + ": found no out; allowed: one");
      return meaning;
    }
    if (meaning.transpose)
      throw ModelError("math operation " + op.kind + ": found in an epilogue; allowed: scope kernel");
    if (!loop) {
      if (!previous_out(c, i)) throw ModelError("math operation " + op.kind + ": found nothing before it to work on");
      return meaning;
    }
    for (const auto& o : op.operands) {
      const Shape& s = o.handle.shape;
      const std::int64_t rows = s.rank() > 1 ? s[s.rank() - 2] : 1;
      const bool per_k = op.scope == OpScope::k_tile && meaning.row_per_k_tile;
      const std::int64_t full_rows = per_k ? loop->tiles_k : loop->m;
      if (s.rank() > 2 || (rows != 1 && rows != full_rows) || (s.back() != 1 && s.back() != loop->n))
        throw ModelError("math operation " + op.kind + ", operand " + o.name + ": found shape " + s.str() +
                         "; allowed: 1 or " + std::to_string(full_rows) + " rows and 1 or " + std::to_string(loop->n) +
                         " columns");
    }
    return meaning;
  }

  /// What an epilogue of a list without GEMM works on.
  static const TensorHandle* previous_out(const Command& c, std::size_t i) {
    while (i-- > 0)
      if (c.ops[i].has_out) return &c.ops[i].out;
    return nullptr;
  }

  void complete() {
    Live& live = the_live();
    if (live.completed) fail("command", std::to_string(live.command->id), "one command_done per command");
    live.completed = true;
    if (!is_queue(live.command->kind)) check_complete(live);
    retire(live);
  }

  void check_complete(const Live& live) const {
    const Command& c = *live.command;
    for (std::size_t i = 0; i < c.ops.size(); ++i) {
      const bool in_loop = live.loop && (c.ops[i].scope != OpScope::kernel || c.ops[i].kind == "gemm");
      if (!in_loop && !live.done[i])
        fail("command", "no operation of ops[" + std::to_string(i) + "] (" + c.ops[i].kind + ")",
             "one before command_done");
    }
    if (!live.loop) return;
    const Loop& loop = *live.loop;
    const auto check = [&](const char* what, std::int64_t found, std::int64_t wanted) {
      if (found != wanted)
        fail("command", std::to_string(found) + " " + what, std::to_string(wanted) + " before command_done");
    };
    const std::int64_t tiles = loop.tiles_m * loop.tiles_n;
    check("gemm steps", loop.steps, tiles * loop.tiles_k);
    check("stores", loop.stores, tiles);
    check("output dma_writes", loop.writes, loop.written ? tiles : 0);
    check("operand tiles still in use", static_cast<std::int64_t>(loop.snapshots.size()), 0);
  }

  /// Forgets a command once it is done and, for queue commands, its value has moved.
  void retire(Live& live) {
    if (!live.completed || (is_queue(live.command->kind) && !live.done[0])) return;
    auto& list = live_[r_->pe];
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].get() == &live) {
        extract(list, i);
        return;
      }
  }

  void mark_done(Live& live, std::size_t op) {
    if (live.done[op]) fail("op", std::to_string(op), "an operation that has not been done");
    live.done[op] = true;
  }

  // ---- single transfers ------------------------------------------------------------------------------------

  /// DmaRead and DmaWrite. `remote` names the operand in memory, whose address the record carries. Transfers
  /// that are issued directly at an engine belong to no command and have no other end.
  void transfer(CommandKind kind, const char* remote) {
    if (!r_->command) return;
    Live& live = the_live();
    const OpSpec& op = live.command->ops[0];
    if (live.command->kind != kind) fail("command", kb::name_of(live.command->kind), kb::name_of(kind));
    const TensorHandle* src = op.operand("src");
    if (!src || !op.has_out) fail("command", "missing operands", "src and out");
    if (src->shape.numel() != op.out.shape.numel() || src->dtype != op.out.dtype)
      fail("command", "out " + op.out.shape.str() + " " + kb::name_of(op.out.dtype),
           "the elements of src " + src->shape.str() + " " + kb::name_of(src->dtype));
    expect_u("bytes", r_->bytes, src->bytes());
    expect_u("address", r_->address, std::strcmp(remote, "src") == 0 ? src->addr : op.out.addr);
    mark_done(live, 0);
    move_raw(*src, op.out);
  }

  void move_raw(const TensorHandle& src, const TensorHandle& out) {
    unsigned char* bytes = raw(src.bytes());
    io_.gather(r_->pe, src, bytes);
    io_.scatter(r_->pe, out, bytes);
  }

  // ---- the tile loop ---------------------------------------------------------------------------------------

  void check_index(const char* field, std::int64_t found, std::int64_t count) const {
    if (found < 0 || found >= count) fail(field, std::to_string(found), range_text(count));
  }
  void check_tile(const Loop& loop) const {
    check_index("tile_m", r_->tile_m, loop.tiles_m);
    check_index("tile_n", r_->tile_n, loop.tiles_n);
    check_index("tile_k", r_->tile_k, loop.tiles_k);
  }

  std::int64_t first(int dim, std::int64_t tile) const { return tile * machine_.tile[static_cast<std::size_t>(dim)]; }
  std::int64_t extent(int dim, std::int64_t tile, std::int64_t size) const {
    return std::min<std::int64_t>(machine_.tile[static_cast<std::size_t>(dim)], size - first(dim, tile));
  }
  std::int64_t rows(const Loop& loop) const { return extent(0, r_->tile_m, loop.m); }
  std::int64_t depth(const Loop& loop) const { return extent(1, r_->tile_k, loop.k); }
  std::int64_t cols(const Loop& loop) const { return extent(2, r_->tile_n, loop.n); }

  Rect rect_of(const Matrix& matrix, std::int64_t row, std::int64_t col, std::int64_t height,
               std::int64_t width) const {
    return Rect{r_->pe,
                matrix.handle->space,
                matrix.addr(row, col),
                size_of(matrix.handle->dtype),
                matrix.row_step,
                matrix.col_step,
                height,
                width};
  }

  /// Reads the record's tile of an operand into `to`; rows of b are padded with zeros for tile_product.
  void load_operand(const Loop& loop, TileRole role, Buffer& to) {
    const Rect rect = operand_rect(loop, role);
    const std::int64_t lanes = role == TileRole::a ? 1 : kProductLanes;
    const DType type = (role == TileRole::a ? loop.a : loop.b).handle->dtype;
    unsigned char* bytes = raw(static_cast<std::uint64_t>(rect.rows * rect.cols) * rect.element);
    io_.gather(rect, bytes);
    const std::int64_t ld = ceil_div(rect.cols, lanes) * lanes;
    const auto width = static_cast<std::size_t>(rect.cols);
    if (loop.integer) {
      std::uint32_t* words = to.words(rect.rows * ld);
      integers_.resize(std::max(integers_.size(), width));
      for (std::int64_t i = 0; i < rect.rows; ++i) {
        num::load_i32(type, bytes + i * rect.cols * rect.element, integers_.data(), width);
        for (std::size_t j = 0; j < width; ++j)
          words[i * ld + static_cast<std::int64_t>(j)] = static_cast<std::uint32_t>(integers_[j]);
        std::fill(words + i * ld + rect.cols, words + (i + 1) * ld, 0u);
      }
      return;
    }
    float* floats = to.floats(rect.rows * ld);
    if (ld == rect.cols) {
      num::load_f32(type, bytes, floats, static_cast<std::size_t>(rect.rows * rect.cols));
      return;
    }
    for (std::int64_t i = 0; i < rect.rows; ++i) {
      num::load_f32(type, bytes + i * rect.cols * rect.element, floats + i * ld, width);
      std::fill(floats + i * ld + rect.cols, floats + (i + 1) * ld, 0.0f);
    }
  }

  Rect operand_rect(const Loop& loop, TileRole role) const {
    return role == TileRole::a ? rect_of(loop.a, first(0, r_->tile_m), first(1, r_->tile_k), rows(loop), depth(loop))
                               : rect_of(loop.b, first(1, r_->tile_k), first(2, r_->tile_n), depth(loop), cols(loop));
  }
  /// A tile lies contiguously in memory (blocked layout, spec 1.4): address and bytes are those of the plan.
  /// Its elements are found by their place in the tensor, since the host lays tensors out row-major.
  void check_transfer(const Loop& loop) const {
    const auto at = [](std::int32_t tile) { return static_cast<std::uint32_t>(std::max(tile, 0)); };
    const StageWork work = loop.plan.tile_transfer(r_->role, {at(r_->tile_m), at(r_->tile_n), at(r_->tile_k)});
    expect_u("bytes", r_->bytes, work.bytes);
    expect_u("address", r_->address, work.address);
  }

  void read_tile() {
    Loop& loop = the_loop();
    const TileRole role = r_->role;
    if (role == TileRole::out) fail("role", "out", "a or b");
    if (!loop.plan.streams(role)) fail("role", role == TileRole::a ? "a" : "b", "an operand that is not resident");
    if (role == TileRole::a)
      check_index("tile_m", r_->tile_m, loop.tiles_m);
    else
      check_index("tile_n", r_->tile_n, loop.tiles_n);
    check_index("tile_k", r_->tile_k, loop.tiles_k);
    check_transfer(loop);
    auto snapshot = snapshots_.take();
    snapshot->role = role;
    snapshot->index = role == TileRole::a ? r_->tile_m : r_->tile_n;
    snapshot->tile_k = r_->tile_k;
    snapshot->order = loop.reads++;
    snapshot->uses = 0;
    load_operand(loop, role, snapshot->values);
    loop.snapshots.push_back(std::move(snapshot));
  }

  /// The oldest snapshot of the tile that this step multiplies.
  std::size_t find_snapshot(const Loop& loop, TileRole role) const {
    const std::int32_t index = role == TileRole::a ? r_->tile_m : r_->tile_n;
    std::size_t best = loop.snapshots.size();
    for (std::size_t i = 0; i < loop.snapshots.size(); ++i) {
      const Snapshot& s = *loop.snapshots[i];
      if (s.role == role && s.index == index && s.tile_k == r_->tile_k &&
          (best == loop.snapshots.size() || s.order < loop.snapshots[best]->order))
        best = i;
    }
    if (best == loop.snapshots.size())
      fail(
          role == TileRole::a ? "tile_m" : "tile_n",
          std::to_string(index) + " with tile_k " + std::to_string(r_->tile_k),
          std::string("a tile of operand ") + (role == TileRole::a ? "a" : "b") + " that has been read for this block");
    return best;
  }

  static std::int64_t block_size(std::int64_t tile, std::int64_t block, std::int64_t tiles) {
    return std::min(block, tiles - tile / block * block);
  }

  /// The values of an operand's tile for this step. `release` is set to the snapshot's index + 1 where
  /// this is the last use of one.
  Buffer& operand(Loop& loop, TileRole role, Buffer& scratch, std::size_t& release) {
    release = 0;
    if (!loop.plan.streams(role)) {
      load_operand(loop, role, scratch);
      return scratch;
    }
    const std::size_t i = find_snapshot(loop, role);
    Snapshot& s = *loop.snapshots[i];
    const std::int64_t uses = role == TileRole::a ? block_size(r_->tile_n, loop.block_n, loop.tiles_n)
                                                  : block_size(r_->tile_m, loop.block_m, loop.tiles_m);
    if (++s.uses == uses) release = i + 1;
    return s.values;
  }

  Accumulator* find_accumulator(Loop& loop) const {
    for (auto& acc : loop.accumulators)
      if (acc->tile_m == r_->tile_m && acc->tile_n == r_->tile_n) return acc.get();
    return nullptr;
  }

  std::size_t tile_number(const Loop& loop) const {
    return static_cast<std::size_t>(r_->tile_m * loop.tiles_n + r_->tile_n);
  }

  void step() {
    Loop& loop = the_loop();
    check_tile(loop);
    const std::int64_t m = rows(loop), k = depth(loop), n = cols(loop);
    expect("m", r_->m, m);
    expect("k", r_->k, k);
    expect("n", r_->n, n);
    Accumulator* acc = find_accumulator(loop);
    const bool repeated =
        loop.stored[tile_number(loop)] ||
        (acc && (r_->tile_k < acc->next_k || std::any_of(acc->pending.begin(), acc->pending.end(),
                                                         [&](const auto& p) { return p->tile_k == r_->tile_k; })));
    if (repeated) fail("tile_k", std::to_string(r_->tile_k), "a step that has not been done");
    if (!acc) {
      loop.accumulators.push_back(accumulators_.take());
      acc = loop.accumulators.back().get();
      acc->tile_m = r_->tile_m;
      acc->tile_n = r_->tile_n;
      acc->next_k = 0;
      acc->next_op = 0;
      acc->integer = loop.integer && loop.k_ops.empty();
      if (acc->integer)
        std::fill_n(acc->values.words(m * n), m * n, 0u);
      else
        std::fill_n(acc->values.floats(m * n), m * n, 0.0f);
    }
    std::size_t release_a = 0, release_b = 0;
    Buffer& a = operand(loop, TileRole::a, a_, release_a);
    Buffer& b = operand(loop, TileRole::b, b_, release_b);
    if (loop.k_ops.empty() && r_->tile_k == acc->next_k) {
      product(loop.integer, a, b, acc->values, m, k, n, true);
      ++acc->next_k;
      add_ready(loop, *acc, m * n);
    } else {
      auto partial = partials_.take();
      partial->tile_k = r_->tile_k;
      partial->next_op = 0;
      product(loop.integer, a, b, partial->values, m, k, n, false);
      if (loop.integer && !loop.k_ops.empty()) partial->values.to_float(m * n);
      acc->pending.push_back(std::move(partial));
    }
    // The larger index goes first, because taking one out moves the last one.
    if (release_a < release_b) std::swap(release_a, release_b);
    for (std::size_t release : {release_a, release_b})
      if (release > 0) snapshots_.give(extract(loop.snapshots, release - 1));
    ++loop.steps;
  }

  static void product(bool integer, Buffer& a, Buffer& b, Buffer& to, std::int64_t m, std::int64_t k, std::int64_t n,
                      bool accumulate) {
    if (integer)
      tile_product(a.u.data(), b.u.data(), to.words(m * n), m, k, n, accumulate);
    else
      tile_product(a.f.data(), b.f.data(), to.floats(m * n), m, k, n, accumulate);
  }

  /// Adds the products whose epilogues are done and whose turn has come.
  void add_ready(const Loop& loop, Accumulator& acc, std::int64_t elements) {
    for (std::size_t i = 0; i < acc.pending.size();) {
      Partial& p = *acc.pending[i];
      if (p.tile_k != acc.next_k || p.next_op != loop.k_ops.size()) {
        ++i;
        continue;
      }
      if (acc.integer) {
        for (std::int64_t j = 0; j < elements; ++j)
          acc.values.u[static_cast<std::size_t>(j)] += p.values.u[static_cast<std::size_t>(j)];
      } else {
        Eigen::Map<Eigen::ArrayXf>(acc.values.f.data(), elements) +=
            Eigen::Map<const Eigen::ArrayXf>(p.values.f.data(), elements);
      }
      ++acc.next_k;
      partials_.give(extract(acc.pending, i));
      i = 0;
    }
  }

  Accumulator& the_accumulator(Loop& loop) {
    check_index("tile_m", r_->tile_m, loop.tiles_m);
    check_index("tile_n", r_->tile_n, loop.tiles_n);
    Accumulator* acc = find_accumulator(loop);
    if (!acc)
      fail("tile_m", std::to_string(r_->tile_m) + " with tile_n " + std::to_string(r_->tile_n),
           "a tile that is being accumulated");
    return *acc;
  }
  Accumulator& the_sum(Loop& loop) {
    Accumulator& acc = the_accumulator(loop);
    if (acc.next_k != loop.tiles_k)
      fail("tile_m",
           "tile (" + std::to_string(r_->tile_m) + ", " + std::to_string(r_->tile_n) + ") with " +
               std::to_string(acc.next_k) + " of " + std::to_string(loop.tiles_k) + " k tiles",
           "one whose sum is complete");
    return acc;
  }

  void store() {
    Loop& loop = the_loop();
    Accumulator& acc = the_sum(loop);
    if (acc.next_op != loop.out_ops.size())
      fail("tile_m",
           "tile (" + std::to_string(r_->tile_m) + ", " + std::to_string(r_->tile_n) + ") after " +
               std::to_string(acc.next_op) + " of " + std::to_string(loop.out_ops.size()) + " epilogue operations",
           "one whose epilogue is complete");
    const std::int64_t m = rows(loop), n = cols(loop);
    const auto elements = static_cast<std::size_t>(m * n);
    const DType type = loop.out.handle->dtype;
    const std::uint64_t bytes = elements * size_of(type);
    expect_u("bytes", r_->bytes, bytes);
    std::unique_ptr<Staged> staged;
    unsigned char* to = nullptr;
    if (loop.written) {
      staged = staged_.take();
      staged->bytes.resize(std::max<std::size_t>(staged->bytes.size(), bytes));
      to = staged->bytes.data();
    } else {
      to = raw(bytes);
    }
    if (acc.integer) {
      integers_.resize(std::max(integers_.size(), elements));
      for (std::size_t i = 0; i < elements; ++i) integers_[i] = static_cast<std::int32_t>(acc.values.u[i]);
      num::store_i32(type, integers_.data(), to, elements);
    } else {
      num::store_f32(type, acc.values.f.data(), to, elements);
    }
    if (loop.written) {
      staged->tile_m = r_->tile_m;
      staged->tile_n = r_->tile_n;
      loop.staged.push_back(std::move(staged));
    } else {
      io_.scatter(rect_of(loop.out, first(0, r_->tile_m), first(2, r_->tile_n), m, n), to);
    }
    loop.stored[tile_number(loop)] = true;
    ++loop.stores;
    for (std::size_t i = 0; i < loop.accumulators.size(); ++i)
      if (loop.accumulators[i].get() == &acc) {
        accumulators_.give(extract(loop.accumulators, i));
        break;
      }
  }

  void write_tile() {
    Loop& loop = the_loop();
    if (r_->role != TileRole::out) fail("role", r_->role == TileRole::a ? "a" : "b", "out");
    if (!loop.written) fail("role", "out", "none: the output lives in TCM");
    check_index("tile_m", r_->tile_m, loop.tiles_m);
    check_index("tile_n", r_->tile_n, loop.tiles_n);
    std::size_t i = 0;
    while (i < loop.staged.size() && (loop.staged[i]->tile_m != r_->tile_m || loop.staged[i]->tile_n != r_->tile_n))
      ++i;
    if (i == loop.staged.size())
      fail("tile_m", std::to_string(r_->tile_m) + " with tile_n " + std::to_string(r_->tile_n),
           "a tile that has been stored and not yet written");
    check_transfer(loop);
    const Rect rect = rect_of(loop.out, first(0, r_->tile_m), first(2, r_->tile_n), rows(loop), cols(loop));
    auto staged = extract(loop.staged, i);
    io_.scatter(rect, staged->bytes.data());
    staged_.give(std::move(staged));
    ++loop.writes;
  }

  // ---- math ------------------------------------------------------------------------------------------------

  void math() {
    Live& live = the_live();
    const OpSpec& op = the_op(live);
    const auto index = static_cast<std::size_t>(r_->op);
    const MathOp* meaning = live.meanings[index];
    if (!meaning) fail("op", std::to_string(r_->op) + " (" + op.kind + ")", "a math operation");
    if (live.loop && op.scope != OpScope::kernel) {
      tile_math(*live.loop, *meaning, op);
      return;
    }
    mark_done(live, index);
    in_context([&] { tensor_math(*live.command, index, *meaning); }, [&](const std::string& what) { fail_with(what); });
  }

  /// The operands of `op` in the order of the meaning, the implied tile or tensor included as null.
  void order_operands(const OpSpec& op, const MathOp& meaning) {
    ordered_.clear();
    for (const auto& name : meaning.operands) ordered_.push_back(op.operand(name.c_str()));
  }

  void tensor_math(const Command& command, std::size_t index, const MathOp& meaning) {
    const OpSpec& op = command.ops[index];
    const bool implied = op.scope != OpScope::kernel;
    const TensorHandle& out = implied ? *previous_out(command, index) : op.out;
    order_operands(op, meaning);
    std::int64_t elements = out.shape.numel();
    for (auto& h : ordered_) {
      if (!h) h = &out;
      elements = std::max(elements, h->shape.numel());
    }
    expect_u("elements", r_->elements, static_cast<std::uint64_t>(elements));
    if (!meaning.element && !meaning.whole) {
      move(*ordered_[0], out, meaning.transpose);
      return;
    }
    if (inputs_.size() < ordered_.size()) inputs_.resize(ordered_.size());
    values_.clear();
    for (std::size_t i = 0; i < ordered_.size(); ++i)
      values_.push_back({ordered_[i]->shape, load_tensor(*ordered_[i], inputs_[i])});
    const std::int64_t n = out.shape.numel();
    if (n == 0) return;
    if (result_.size() < static_cast<std::size_t>(n)) result_.resize(static_cast<std::size_t>(n));
    evaluate(meaning, op, values_.data(), values_.size(), out.shape, result_.data(), machine_.vector_width, scratch_);
    unsigned char* bytes = raw(out.bytes());
    num::store_f32(out.dtype, result_.data(), bytes, static_cast<std::size_t>(n));
    io_.scatter(r_->pe, out, bytes);
  }

  const float* load_tensor(const TensorHandle& h, std::vector<float>& to) {
    const auto n = static_cast<std::size_t>(h.shape.numel());
    if (to.size() < n) to.resize(n);
    unsigned char* bytes = raw(h.bytes());
    io_.gather(r_->pe, h, bytes);
    num::load_f32(h.dtype, bytes, to.data(), n);
    return to.data();
  }

  /// Copies, casts and transposes: bytes where the dtypes are the same, integers exactly, the rest through f32.
  void move(TensorHandle src, const TensorHandle& out, bool transpose) {
    if (transpose) {
      const int rank = src.shape.rank();
      if (rank < 2) throw ModelError("trans: found shape " + src.shape.str() + "; allowed: two dimensions or more");
      std::swap(src.shape[rank - 1], src.shape[rank - 2]);
      std::swap(src.strides[static_cast<std::size_t>(rank - 1)], src.strides[static_cast<std::size_t>(rank - 2)]);
    }
    if (src.shape != out.shape) {  // numpy's rule; views of the broadcast axes have stride 0
      const int skip = out.shape.rank() - src.shape.rank();
      TensorHandle view = src;
      view.shape = out.shape;
      view.strides = {};
      bool fits = skip >= 0;
      for (int i = 0; fits && i < src.shape.rank(); ++i) {
        fits = src.shape[i] == out.shape[i + skip] || src.shape[i] == 1;
        if (src.shape[i] != 1)
          view.strides[static_cast<std::size_t>(i + skip)] = src.strides[static_cast<std::size_t>(i)];
      }
      if (!fits)
        throw ModelError("moved tensor: found shape " + src.shape.str() + "; allowed: one that broadcasts to " +
                         out.shape.str());
      src = view;
    }
    if (src.dtype == out.dtype) {
      move_raw(src, out);
      return;
    }
    const auto n = static_cast<std::size_t>(out.shape.numel());
    if (is_float(src.dtype) || is_float(out.dtype)) {
      load_tensor(src, result_);
      unsigned char* bytes = raw(out.bytes());
      num::store_f32(out.dtype, result_.data(), bytes, n);
      io_.scatter(r_->pe, out, bytes);
      return;
    }
    integers_.resize(std::max(integers_.size(), n));
    unsigned char* bytes = raw(std::max(src.bytes(), out.bytes()));
    io_.gather(r_->pe, src, bytes);
    num::load_i32(src.dtype, bytes, integers_.data(), n);
    num::store_i32(out.dtype, integers_.data(), bytes, n);
    io_.scatter(r_->pe, out, bytes);
  }

  void tile_math(Loop& loop, const MathOp& meaning, const OpSpec& op) {
    const bool per_k = op.scope == OpScope::k_tile;
    if (per_k) check_index("tile_k", r_->tile_k, loop.tiles_k);
    Accumulator& acc = per_k ? the_accumulator(loop) : the_sum(loop);
    const std::int64_t m = rows(loop), n = cols(loop), elements = m * n;
    expect("m", r_->m, m);
    expect("n", r_->n, n);
    expect_u("elements", r_->elements, static_cast<std::uint64_t>(elements));

    Partial* partial = nullptr;
    if (per_k) {
      for (auto& p : acc.pending)
        if (p->tile_k == r_->tile_k) partial = p.get();
      if (!partial) fail("tile_k", std::to_string(r_->tile_k), "a k tile that has been multiplied and not yet added");
    }
    const std::vector<int>& turn = per_k ? loop.k_ops : loop.out_ops;
    std::size_t& next = per_k ? partial->next_op : acc.next_op;
    if (next == turn.size() || turn[next] != r_->op)
      fail("op", std::to_string(r_->op),
           next == turn.size() ? "none: the epilogue is complete" : std::to_string(turn[next]));
    if (!per_k && acc.integer) {
      acc.values.to_float(elements);
      acc.integer = false;
    }
    Buffer& tile = per_k ? partial->values : acc.values;

    in_context(
        [&] {
          order_operands(op, meaning);
          if (inputs_.size() < ordered_.size()) inputs_.resize(ordered_.size());
          values_.clear();
          for (std::size_t i = 0; i < ordered_.size(); ++i)
            values_.push_back(ordered_[i] ? load_slice(*ordered_[i], per_k && meaning.row_per_k_tile, m, n, inputs_[i])
                                          : Values{Shape{m, n}, tile.f.data()});
          if (result_.size() < static_cast<std::size_t>(elements)) result_.resize(static_cast<std::size_t>(elements));
          evaluate(meaning, op, values_.data(), values_.size(), Shape{m, n}, result_.data(), machine_.vector_width,
                   scratch_);
        },
        [&](const std::string& what) { fail_with(what); });
    std::copy_n(result_.data(), elements, tile.f.data());
    ++next;
    if (per_k) add_ready(loop, acc, elements);
  }

  /// The part of an epilogue operand that belongs to the record's tile.
  Values load_slice(const TensorHandle& h, bool row_per_k_tile, std::int64_t m, std::int64_t n,
                    std::vector<float>& to) {
    const int rank = h.shape.rank();
    const auto step = [&](int back) { return h.strides[static_cast<std::size_t>(rank - back)]; };
    const std::int64_t height = rank > 1 ? h.shape[rank - 2] : 1;
    std::int64_t row = 0, rows_taken = 1;
    if (height > 1) {
      row = row_per_k_tile ? r_->tile_k : first(0, r_->tile_m);
      rows_taken = row_per_k_tile ? 1 : m;
    }
    const bool wide = h.shape.back() > 1;
    const std::int64_t col = wide ? first(2, r_->tile_n) : 0;
    const Matrix matrix{&h, rank > 1 ? step(2) : 0, rank > 0 ? step(1) : 0};
    const Rect rect = rect_of(matrix, row, col, rows_taken, wide ? n : 1);
    const auto count = static_cast<std::size_t>(rect.rows * rect.cols);
    unsigned char* bytes = raw(count * rect.element);
    io_.gather(rect, bytes);
    if (to.size() < count) to.resize(count);
    num::load_f32(h.dtype, bytes, to.data(), count);
    return Values{Shape{rect.rows, rect.cols}, to.data()};
  }

  // ---- queues ----------------------------------------------------------------------------------------------

  void send() {
    Live& live = the_live();
    const Command& c = *live.command;
    if (c.kind != CommandKind::ipcq_send) fail("command", kb::name_of(c.kind), "ipcq_send");
    if (r_->peer >= machine_.total_pes()) fail("peer", std::to_string(r_->peer), range_text(machine_.total_pes()));
    const TensorHandle* src = c.ops[0].operand("src");
    if (!src) fail("command", "missing operands", "src");
    expect_u("bytes", r_->bytes, src->bytes());
    auto message = messages_pool_.take();
    message->from = r_->pe;
    message->bytes.resize(src->bytes());
    io_.gather(r_->pe, *src, message->bytes.data());
    const auto added = messages_.emplace(MessageKey{r_->peer, r_->arrives, r_->message}, std::move(message));
    if (!added.second) fail("message", std::to_string(r_->message), "a number that is not in flight");
    mark_done(live, 0);
    retire(live);
  }

  void receive() {
    Live& live = the_live();
    const Command& c = *live.command;
    if (c.kind != CommandKind::ipcq_recv) fail("command", kb::name_of(c.kind), "ipcq_recv");
    if (r_->arrives != c.direction) fail("arrives", kb::name_of(r_->arrives), kb::name_of(c.direction));
    const auto found = messages_.find(MessageKey{r_->pe, r_->arrives, r_->message});
    if (found == messages_.end()) fail("message", std::to_string(r_->message), "one that has been sent");
    Message& message = *found->second;
    expect("peer", r_->peer, message.from);
    const TensorHandle& out = c.ops[0].out;
    expect_u("bytes", r_->bytes, message.bytes.size());
    expect_u("bytes", r_->bytes, out.bytes());
    io_.scatter(r_->pe, out, message.bytes.data());
    messages_pool_.give(std::move(found->second));
    messages_.erase(found);
    mark_done(live, 0);
    retire(live);
  }

  unsigned char* raw(std::uint64_t bytes) {
    if (raw_.size() < bytes) raw_.resize(bytes);
    return raw_.data();
  }

  using Order = std::tuple<Ps, OpKind, std::uint32_t, std::uint64_t>;

  const MachineInfo machine_;
  TensorIo io_;
  const MathTable& table_;
  const ComponentTable* components_;

  const OpRecord* r_ = nullptr;  // the record being replayed
  std::uint64_t records_ = 0;
  Order last_{};
  std::vector<Numbers> numbers_;                          // by component
  std::vector<std::vector<std::unique_ptr<Live>>> live_;  // by rank; few per PE
  std::map<MessageKey, std::unique_ptr<Message>> messages_;

  Pool<Snapshot> snapshots_;
  Pool<Accumulator> accumulators_;
  Pool<Partial> partials_;
  Pool<Staged> staged_;
  Pool<Message> messages_pool_;

  // Working space of one record.
  Buffer a_, b_;
  std::vector<unsigned char> raw_;
  std::vector<std::int32_t> integers_;
  std::vector<const TensorHandle*> ordered_;
  std::vector<std::vector<float>> inputs_;
  std::vector<Values> values_;
  std::vector<float> result_, scratch_;
};

DataPass::DataPass(const MachineInfo& machine, MemoryView& memory, const MathTable& table,
                   const ComponentTable* components)
    : impl_(std::make_unique<Impl>(machine, memory, table, components)) {}

DataPass::~DataPass() = default;

void DataPass::record(const OpRecord& r) {
  impl_->record(r);
}

void DataPass::flush() {
  impl_->flush();
}

std::uint64_t DataPass::records() const {
  return impl_->records();
}

}  // namespace kb
