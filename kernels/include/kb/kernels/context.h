// The kernel API `tl` (spec 4): what a kernel calls to move data, compute and talk to other PEs.
#pragma once

#include <kb/kernels/composite.h>
#include <kb/kernels/handle.h>
#include <kb/kernels/recipe.h>
#include <kb/kernels/scratch.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/program.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kb::tl {

struct EpilogueRule;

/// ceil(a / b) for non-negative a and positive b.
template <typename T>
constexpr T cdiv(T a, T b) {
  return (a + b - 1) / b;
}

/// Positions of queries and keys in the sequence, for a causal mask. Row r is the query at
/// row_pos + row_stride * (r mod row_period), column c the key at col_pos + col_stride * c. Attention folds the heads
/// of a group into the rows, one period per head; tokens dealt round-robin to N PEs have stride N.
struct CausalWindow {
  std::int64_t row_pos = 0;
  std::int64_t col_pos = 0;
  std::int64_t row_period = 0;  // 0: all rows are one period
  std::int64_t row_stride = 1;
  std::int64_t col_stride = 1;
};

/// While it lives, the commands of its PE count as a reduction where latency is split (LatencyPart).
class [[nodiscard]] ReductionPhase {
 public:
  explicit ReductionPhase(PePort& pe) : pe_(pe) { pe_.enter(KernelPhase::reduction); }
  ~ReductionPhase() { pe_.enter(KernelPhase::compute); }
  ReductionPhase(const ReductionPhase&) = delete;
  ReductionPhase& operator=(const ReductionPhase&) = delete;

 private:
  PePort& pe_;
};

/// One kernel's view of its PE, alive while the kernel runs.
///
/// Calls issue commands and return handles at once; the scheduler keeps commands in order where their addresses
/// conflict. The kernel's thread waits only in dot, wait and recv, and when the command queue is full. Handles that
/// are computed lie in scratch, in the innermost scope. Shapes are checked at the call: a ModelError names the call,
/// the PE, what was found and what is allowed.
///
/// Default types: element-wise operations give the wider type of their operands; functions that leave the integers
/// (exp, log, sqrt, rsqrt, sigmoid, division) give f32 for integers; dot and composite give f32 (i32 for i8) in TCM.
class Context {
 public:
  explicit Context(PePort& pe, const RecipeRegistry& recipes = RecipeRegistry::standard());
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // ---- where am I ------------------------------------------------------------------------------------------
  /// Axis 0: PE in its cube, 1: cube in its SIP, 2: SIP.
  std::uint32_t program_id(int axis) const;
  /// Number of PEs per cube, cubes per SIP, SIPs of the machine.
  std::uint32_t num_programs(int axis) const;
  /// Rank of this PE in (sip, cube, pe) order.
  std::uint32_t rank() const { return machine().rank_of(pe_.id()); }
  const MachineInfo& machine() const { return pe_.machine(); }
  Mode mode() const { return pe_.mode(); }
  /// This PE's shard of a host tensor; ModelError when it has none.
  const Shard& shard_of(const Tensor& tensor) const;

  // ---- names and allocation, no commands --------------------------------------------------------------------
  /// Data in HBM at a virtual address, dense; no traffic. GEMMs stream it.
  Handle ref(std::uint64_t addr, const Shape& shape, DType dtype);
  /// A tensor that the host allocated in this PE's TCM, at an offset into it.
  Handle resident(std::uint64_t offset, const Shape& shape, DType dtype);
  /// Scratch without a value (data mode: NaN until written).
  Handle empty(const Shape& shape, DType dtype);
  /// What is allocated until the returned object dies is recycled then. `label` appears in messages.
  ScratchScope scratch_scope(const std::string& label = "scope") { return {arena_, label}; }
  const ScratchArena& scratch() const { return arena_; }

  // ---- memory -----------------------------------------------------------------------------------------------
  /// DMA read of a dense tensor into scratch (or `dest`). Returns at once. One DmaRead.
  Handle load(std::uint64_t addr, const Shape& shape, DType dtype, const Dest& dest = {});
  /// DMA write of a dense tensor. Returns at once. One DmaWrite.
  void store(std::uint64_t addr, const Handle& h);

  // ---- matrix engine ----------------------------------------------------------------------------------------
  /// a [M,K] x b [K,N], both of one dtype, in HBM (streamed) or TCM. Blocks until done. One Gemm.
  Handle dot(const Handle& a, const Handle& b, const Dest& dest = {}, bool trans_a = false, bool trans_b = false);
  /// Issues a composite and returns its output. One Composite.
  Handle composite(const Composite& c);

  /// Blocks until the command that produces `h` is done.
  void wait(const Handle& h);

  // ---- element-wise, one Math each --------------------------------------------------------------------------
  Handle exp(const Handle& x, const Dest& dest = {});
  Handle log(const Handle& x, const Dest& dest = {});
  Handle sqrt(const Handle& x, const Dest& dest = {});
  Handle rsqrt(const Handle& x, const Dest& dest = {});
  Handle abs(const Handle& x, const Dest& dest = {});
  Handle neg(const Handle& x, const Dest& dest = {});
  Handle sigmoid(const Handle& x, const Dest& dest = {});
  Handle add(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle sub(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle mul(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle div(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle maximum(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle minimum(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle add(const Handle& a, double b, const Dest& dest = {});
  Handle sub(const Handle& a, double b, const Dest& dest = {});
  Handle mul(const Handle& a, double b, const Dest& dest = {});
  Handle div(const Handle& a, double b, const Dest& dest = {});
  Handle maximum(const Handle& a, double b, const Dest& dest = {});
  Handle minimum(const Handle& a, double b, const Dest& dest = {});
  /// value - x and value / x.
  Handle rsub(double value, const Handle& x, const Dest& dest = {});
  Handle rdiv(double value, const Handle& x, const Dest& dest = {});
  /// a * b + c.
  Handle fma(const Handle& a, const Handle& b, const Handle& c, const Dest& dest = {});
  /// min(max(x, lo), hi).
  Handle clamp(const Handle& x, double lo, double hi, const Dest& dest = {});
  /// a where cond is not 0, else b.
  Handle where(const Handle& cond, const Handle& a, const Handle& b, const Dest& dest = {});
  /// 0 where a = -inf, else exp(a - b), in f32.
  Handle exp_diff(const Handle& a, const Handle& b, const Dest& dest = {});
  Handle cast(const Handle& x, DType dtype);

  // ---- reductions: the axis stays, with size 1. One Math each -----------------------------------------------
  Handle max(const Handle& x, int axis, const Dest& dest = {});
  Handle sum(const Handle& x, int axis, const Dest& dest = {});
  /// exp(x - max) / sum, along `axis`. Five Math.
  Handle softmax(const Handle& x, int axis = -1);

  // ---- constants, one Math each -----------------------------------------------------------------------------
  Handle full(const Shape& shape, double value, DType dtype);
  /// Sets every element of an existing tensor.
  void fill(const Handle& h, double value);
  /// f32 [rows, cols]: 0 where key c is not after query r, else -inf. One Math.
  Handle causal_mask(std::int64_t rows, std::int64_t cols, const CausalWindow& window, const Dest& dest = {});
  /// The same for consecutive positions from row_pos and col_pos on.
  Handle causal_mask(std::int64_t rows, std::int64_t cols, std::int64_t row_pos, std::int64_t col_pos) {
    return causal_mask(rows, cols, CausalWindow{row_pos, col_pos});
  }

  // ---- views ------------------------------------------------------------------------------------------------
  /// Swaps the two axes. A GEMM operand is read transposed at no cost; any other use costs one Math pass.
  Handle trans(const Handle& h);
  /// Repeats axes of size 1 (and leading axes) without moving data.
  Handle broadcast(const Handle& h, const Shape& shape);
  /// The same bytes in another shape; the tensor must be dense.
  Handle reshape(const Handle& h, const Shape& shape);
  /// Part of a dense tensor: `shape` elements from element `first` on, dense.
  Handle slice(const Handle& h, std::int64_t first, const Shape& shape);

  /// Writes `src` into `dst`, which keeps its place. Same shape and dtype. One Copy.
  void copy_to(const Handle& dst, const Handle& src);

  // ---- queues -----------------------------------------------------------------------------------------------
  /// Hands the value that `h` has now to the queue engine and returns. `split` lets it travel in as many slots as it
  /// needs; without, a message larger than a slot is refused. One IpcqSend.
  void send(Direction direction, const Handle& h, bool split = false);
  /// Blocks until a message of this shape has come. One IpcqRecv.
  Handle recv(Direction direction, const Shape& shape, DType dtype, const Dest& dest = {});
  /// Returns at once; wait(h), or the first use of the handle, blocks until the message has come. One IpcqRecv.
  Handle recv_async(Direction direction, const Shape& shape, DType dtype, const Dest& dest = {});
  /// Diagnostic: as recv, but the slot read is not charged.
  Handle recv_no_consume(Direction direction, const Shape& shape, DType dtype, const Dest& dest = {});

  /// What is issued until the returned object dies merges partial results of PEs: for the split of the latency.
  ReductionPhase reduction_phase() { return ReductionPhase(pe_); }

  /// Explicit cpu work in cycles; outside the dispatch cost model.
  void cpu_overhead(double cycles) { pe_.spend_cycles(cycles); }

 private:
  struct GemmOperand {
    TensorHandle handle;  // dense, as stored
    bool trans = false;
  };
  struct HeadDims {
    std::int64_t m = 0, k = 0, n = 0;
  };

  [[noreturn]] void fail(const std::string& call, const std::string& found, const std::string& allowed) const;
  TensorHandle fresh(const std::string& call, const Shape& shape, DType dtype);
  Handle wrap(const TensorHandle& raw) { return {*this, raw}; }
  Handle view(const Handle& h, const Shape& shape, const std::array<std::int64_t, Shape::kMaxRank>& strides);
  /// Checks that the handle may be used by a command now: this kernel's, scope alive, not empty, message arrived.
  void check_use(const std::string& call, const Handle& h);
  /// A TCM operand of an element-wise op; transposed views are passed through the math engine first.
  TensorHandle math_operand(const std::string& call, const Handle& h);
  /// A dense TCM tensor with the value of `h`.
  TensorHandle dense_operand(const std::string& call, const Handle& h);
  GemmOperand gemm_operand(const std::string& call, const char* name, const Handle& h, bool trans);
  TensorHandle destination(const std::string& call, const Dest& dest, const Shape& shape, DType default_dtype);
  HeadDims check_gemm(const std::string& call, const GemmOperand& a, const GemmOperand& b) const;
  OpSpec gemm_op(const GemmOperand& a, const GemmOperand& b, const HeadDims& dims) const;
  Handle emit(CommandKind kind, OpSpec op);
  /// An op without its output, and the output's shape and default type.
  struct MathResult {
    OpSpec op;
    Shape shape;
    DType dtype = DType::f32;
  };
  using NamedHandles = std::vector<std::pair<std::string, Handle>>;
  MathResult build_math(const std::string& call, const std::string& kind, const NamedHandles& operands,
                        std::vector<Scalar> extra);
  Handle elementwise(const std::string& call, const std::string& kind, const NamedHandles& operands,
                     std::vector<Scalar> extra, const Dest& dest);
  Handle receive(const std::string& call, Direction direction, const Shape& shape, DType dtype, const Dest& dest,
                 bool consume);

  /// Waits for messages under way to an address range that is about to be read or reused.
  void settle(const AddressRange& range, const char* why);
  void settle(CommandId id);

  struct PendingRecv {
    CommandId id = 0;
    AddressRange range;
  };

  // composite lowering, composite.cpp
  struct Lowering;
  void lower_prologue(Lowering& l, const Composite& c);
  void lower_gemm_head(Lowering& l, const Composite& c);
  void lower_math_head(Lowering& l, const Composite& c);
  void lower_gemm_epilogue(Lowering& l, const EpilogueItem& item);
  const EpilogueRule& check_epilogue(const Lowering& l, const EpilogueItem& item) const;

  PePort& pe_;
  const RecipeRegistry& recipes_;
  ScratchArena arena_;
  std::uint32_t last_id_ = 0;
  std::vector<PendingRecv> pending_recvs_;
};

}  // namespace kb::tl
