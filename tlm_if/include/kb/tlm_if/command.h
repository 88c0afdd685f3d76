// Commands that a kernel issues to its PE, and their logical size (spec 3.1, 3.2).
#pragma once

#include <kb/tlm_if/handle.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kb {

enum class CommandKind : std::uint8_t { dma_read, dma_write, gemm, math, copy, composite, ipcq_send, ipcq_recv };
inline constexpr int kCommandKinds = 8;
const char* name_of(CommandKind k);
/// Whether the queue engine carries it out.
inline bool is_queue(CommandKind k) { return k == CommandKind::ipcq_send || k == CommandKind::ipcq_recv; }

enum class OpScope : std::uint8_t { kernel, k_tile, output_tile };
const char* name_of(OpScope s);

/// A named tensor operand of an op.
struct Operand {
  std::string name;
  TensorHandle handle;
};

/// A named scalar of an op: sizes, axes, factors.
struct Scalar {
  std::string name;
  double value = 0;
};

/// One operation of a command. Operands and scalars keep the order in which they were given.
struct OpSpec {
  std::string kind;  // "gemm", "exp_diff", "rmax", ...; opaque to scheduler and engines but for "gemm"
  OpScope scope = OpScope::kernel;
  std::vector<Operand> operands;
  std::vector<Scalar> extra;
  bool has_out = false;
  TensorHandle out;
  bool trans_a = false;  // GEMM only; bits of the opcode byte
  bool trans_b = false;

  const TensorHandle* operand(const char* name) const;
  /// Value of a scalar, or `fallback` where the op has none of that name.
  double scalar(const char* name, double fallback = 0) const;
  bool has_scalar(const char* name) const;
  /// 1 opcode + 1 scope + (1 + 8 per operand) + (8 with an out) + (1 + 4 per scalar).
  std::uint32_t logical_bytes() const;
};

/// Queue directions of a PE (spec 5.1).
enum class Direction : std::uint8_t {
  N, S, E, W, intra_N, intra_S, intra_E, intra_W, global_N, global_S, global_E, global_W
};
inline constexpr int kDirections = 12;
const char* name_of(Direction d);

/// A command as handed to the scheduler. Immutable once issued.
///
/// Operand names of single ops: dma_read {src, out} + bytes; dma_write {src} + out (the destination) + bytes;
/// gemm {a, b} + out + m, k, n; math {src} | {a, b} | {a, b, c} + out (+ axis or scalar); copy {src} + out;
/// ipcq_send {src}; ipcq_recv + out.
struct Command {
  CommandKind kind = CommandKind::math;
  CommandId id = 0;  // set by the cpu at issue
  std::vector<OpSpec> ops;  // exactly one unless composite
  std::vector<TensorHandle> rw_handles;
  // ipcq commands
  Direction direction = Direction::N;
  bool split = false;    // send: segment over slots; recv: the sender does
  bool consume = true;   // recv: charge the slot read

  /// Index of the GEMM among the ops, or -1.
  int gemm_index() const;
  /// 4 framing + its one op; composite: 4 + 1 + ops + 1 + 8 per rw handle.
  std::uint32_t logical_bytes() const;
};
using CommandPtr = std::shared_ptr<const Command>;

/// What a command reads and writes, by address, merged per handle (spec 2.3).
struct CommandRanges {
  std::vector<AddressRange> reads;
  std::vector<AddressRange> writes;
};
CommandRanges ranges_of(const Command& command);

}  // namespace kb
