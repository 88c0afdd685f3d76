// Computes what a run's operations did to memory, from the stream of their records (spec 2.4).
#pragma once

#include <kb/platform/math_table.h>
#include <kb/platform/memory_view.h>
#include <kb/tlm_if/machine_info.h>
#include <kb/tlm_if/op_log.h>

#include <cstdint>
#include <memory>

namespace kb {

/// Replays records in their order on real tensors.
///
/// What a record does:
///   dma_read, no role    the DmaRead command's copy src -> out
///   dma_read, role a, b  the tile of the streamed operand is taken as it is now, and kept until its last use
///                        in the block (command record: block_m, block_n)
///   gemm                 the product of one tile step, summed from k = 0 of the tile upwards in f32 (i32 for
///                        integers, which wraps); a resident operand is read now
///   math                 op `op`: whole tensors for ops of scope kernel; of scope k_tile, on this k tile's product
///                        before it is added; of scope output_tile, on the complete sum
///   store                the sum, rounded once to out's dtype, goes into out (TCM) or waits for its dma_write
///   dma_write, no role   the DmaWrite command's copy src -> out;   role out: the stored tile goes to memory
///   send, recv           the value of src now; delivered to out of the recv of the same message
///   others               nothing
///
/// The products of k tiles are added to the accumulator in the order of k, whatever order they finish in.
///
/// Every record is checked against the command it belongs to: known, inside the tile grid, sizes and addresses
/// those of the tile, no step twice or out of turn; a command must be complete at its command_done, and
/// all commands done, messages delivered and record numbers gapless at `flush`. Whatever fails throws ModelError
/// naming the record and the field.
class DataPass : public OpSink {
 public:
  /// `components` gives names for messages and bounds the component field; it may be null. All references
  /// must outlive the pass.
  DataPass(const MachineInfo& machine, MemoryView& memory, const MathTable& table,
           const ComponentTable* components = nullptr);
  ~DataPass() override;

  void record(const OpRecord& r) override;
  /// End of a launch.
  void flush() override;

  /// Records replayed so far.
  std::uint64_t records() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
