// The event stream of a run: one record per finished engine operation (spec 7.2). Logs, traces, the data
// pass and reports are all sinks of it.
#pragma once

#include <kb/tlm_if/command.h>
#include <kb/tlm_if/units.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// In the order that ties of t_end are broken by.
enum class OpKind : std::uint8_t { memory, gemm, math, ipcq, control };
const char* name_of(OpKind k);

/// What the operation was, within its command. Fixes which fields of the record are set.
enum class OpName : std::uint8_t {
  // memory
  dma_read,     // tile or tensor, memory to TCM: address, bytes
  dma_write,    // TCM to memory: address, bytes
  fetch,        // TCM to registers: bytes
  store,        // registers to TCM: bytes
  mem_read,     // served by a memory (HBM, SRAM, foreign): address, bytes
  mem_write,
  // gemm, math
  gemm,         // one tile step: m, k, n
  math,         // ops[op]: elements
  // ipcq
  send, recv, slot_write, credit,
  // control
  command,      // accepted by the scheduler; the record that carries the command itself
  command_done,
  launch, launch_done,
};
const char* name_of(OpName n);

/// Role of an operand stream in a GEMM tile loop.
enum class TileRole : std::uint8_t { none, a, b, out };

inline constexpr std::uint32_t kNoPe = 0xffffffffu;

/// Plain data; `command` is valid while the sink is called and as long as the sink holds a copy.
struct OpRecord {
  Ps t_start = 0;
  Ps t_end = 0;
  Ps t_ready = -1;              // when the work reached the component, to wait there until t_start; -1: not said
  std::uint32_t component = 0;  // index in the component table, which is in topology order
  std::uint64_t number = 0;     // counts the component's own records, from 0
  OpKind kind = OpKind::control;
  OpName name = OpName::command;
  TileRole role = TileRole::none;
  std::int16_t op = -1;         // index into command->ops, where the record belongs to one
  std::uint32_t pe = kNoPe;     // rank of the PE that issued the command
  CommandPtr command;           // null for records without a command
  std::int32_t tile_m = -1, tile_n = -1, tile_k = -1;  // tile coordinates in a GEMM loop
  std::uint64_t address = 0;    // virtual for dma, offset for mem_*; slot for ipcq
  std::uint64_t bytes = 0;
  std::int64_t m = 0, k = 0, n = 0;  // sizes of the tile step; m x n for tile-wise math
  std::uint64_t elements = 0;
  Ps path_ps = 0;               // uncontended time of the same operation, for bounds
  std::uint64_t message = 0;    // send, recv: message number within (receiver, direction)
  std::uint32_t peer = kNoPe;   // ipcq: rank of the other PE
  Direction arrives = Direction::N;  // ipcq: the queue's direction as the receiver names it
  // launch, command: block choice of the planner
  std::uint32_t block_m = 0, block_n = 0;
  bool m_outer = true;
  std::uint64_t plan_bytes = 0; // bytes the plan moves to and from memory

  /// Whether `message` says anything: a slot does not tell which message it is part of.
  bool has_message() const { return name == OpName::send || name == OpName::recv; }
};

/// Observer of the event stream. Calls come in the final order: (t_end, kind, component, number).
class OpSink {
 public:
  virtual ~OpSink() = default;
  virtual void record(const OpRecord& r) = 0;
  /// Everything that ended at or before the present time has been delivered (end of a launch or run).
  virtual void flush() {}
};

/// Names of all components in topology order: PEs with their engines, memories, fabric. Filled at
/// elaboration in an order that follows the configuration, never the order of construction.
class ComponentTable {
 public:
  std::uint32_t add(const std::string& name) {
    names_.push_back(name);
    return static_cast<std::uint32_t>(names_.size() - 1);
  }
  /// Names component `index`; those before it that have no name yet get "". For readers of saved logs.
  void set(std::uint32_t index, const std::string& name) {
    if (names_.size() <= index) names_.resize(index + 1);
    names_[index] = name;
  }
  const std::string& name(std::uint32_t index) const { return names_[index]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
};

/// Where modules hand their records in, at any time not later than t_end in model time. One per platform;
/// modules hold a pointer that is null when nobody listens, so that recording costs nothing when off.
class OpRecorder {
 public:
  virtual ~OpRecorder() = default;
  virtual void emit(OpRecord&& r) = 0;
};

}  // namespace kb
