#include <kb/traces/metrics.h>

namespace kb {

const std::vector<MetricDefinition>& metric_definitions() {
  static const std::vector<MetricDefinition> kMetrics = {
      {"latency_ns", "ns",
       "kernel time: common start of the launch to the last PE done, dispatch included, launch and host copies not; "
       "dma-contention and probe: first DMA issue to last DMA completion; h2d: message at the host port to write "
       "response; d2h: to the last byte"},
      {"wall_s", "s", "real time of the simulation, setup and data pass included"},
      {"sim.activations", "count", "processes that the SystemC kernel woke"},
      {"sim.tile_stages", "count", "stages of tile tokens finished by engines, prologue and epilogue stages included"},
      {"sim.messages", "count", "messages delivered by the fabric: requests, data trains, responses, launches"},
      {"sim.peak_rss_mb", "MiB", "largest resident memory of the process"},
      {"dispatch.cycles_total", "cycles", "cpu cycles spent issuing commands, over all PEs"},
      {"dispatch.cycles_max_pe", "cycles", "the same on the PE that spent most"},
      {"dispatch.bytes_total", "bytes", "logical size of all commands issued"},
      {"dispatch.commands", "count", "commands issued, by kind"},
      {"dma.reads", "count", "transfers of the DMA read engines"},
      {"dma.read_bytes", "bytes", "bytes of these transfers"},
      {"dma.writes", "count", "transfers of the DMA write engines"},
      {"dma.write_bytes", "bytes", "bytes of these transfers"},
      {"ipcq.sends", "count", "messages handed to queue engines; a split send counts once"},
      {"ipcq.recvs", "count", "messages taken out of queues"},
      {"ipcq.bytes", "bytes", "payload of the messages sent"},
      {"engines.*.busy_ns", "ns", "time in which the engine worked, summed over the PEs of the launch"},
      {"engines.*.stall_ns", "ns",
       "time in which work was coming but could not start, by cause: operands_dma, operands_fetch, operands_gemm, "
       "operands_math, operands_ipcq (the next operand is still at that engine), hazard (an earlier command "
       "conflicts), buffer (no free tile buffer or accumulator), engine (queued behind other work), credit (no free "
       "slot at the peer), command_queue (scheduler overhead or queue_depth commands in flight), dispatch (the cpu "
       "has not issued the command yet)"},
      {"engines.*.idle_ns", "ns", "time in which no further work came; busy + stalls + idle = kernel time x PEs"},
      {"engines.*.utilization", "1", "busy_ns / (kernel time x PEs of the launch), between 0 and 1"},
      {"engines.gemm.macs_useful", "MAC", "M*K*N of every tile step, exactly"},
      {"engines.gemm.macs_padded", "MAC", "slots of the MAC array occupied, ragged edges padded to its shape"},
      {"engines.math.elements", "count",
       "elements that the vector unit passed over: of outputs, of inputs where it reduced"},
      {"bounds.compute_ns", "ns", "largest MAC-array or vector time of any PE for its own work"},
      {"bounds.memory_ns", "ns",
       "largest, over HBM channels and links, of the bytes that any plan must move (each operand byte once per "
       "required read) / bandwidth"},
      {"bounds.tcm_ns", "ns",
       "largest, over PEs and the two TCM channels, of the bytes of FETCH, STORE and queue slots / bandwidth"},
      {"bounds.dispatch_ns", "ns", "largest dispatch time of any PE"},
      {"bounds.serial_ns", "ns",
       "over all PEs the sum of dispatch, overheads, path latencies, channel turnarounds and uncontended stage times"},
      {"bounds.bound_by", "-", "the largest of compute, memory, tcm and dispatch"},
      {"bounds.ratio", "1",
       "latency / the largest bound; below 1 is a fault of the model and ends the run with exit code 3"},
      {"numerics.max_abs_err", "value", "largest absolute difference from the double-precision reference"},
      {"numerics.rel_rmse", "1", "root mean square error / root mean square of the reference"},
      {"numerics.tolerance", "1", "largest rel_rmse that passes"},
      {"numerics.pass", "-", "rel_rmse within tolerance, and no NaN or inf on either side"},
      {"tables.latency_breakdown", "ns",
       "attention: the latency of the PE that is done last, each instant counted once, for the first that applies of "
       "reduction (its oldest unfinished command merges partial results of PEs or waits for them), gemm (the MAC array "
       "works), math (the vector unit works), kv_dma (the DMA moves data, or a message of the ring is moved or waited "
       "for), dispatch (the cpu issues a command) and idle (none of these: TCM accesses, scheduler overhead, waits); "
       "the parts add up to latency_ns"},
      {"critical_pe", "rank", "attention: the PE that is done last; on a tie the lowest rank"},
      {"limited_by", "-",
       "attention: the part that is at work longest on that PE, in full also where others overlap it (in the breakdown "
       "it counts only where none before it applies)"},
      {"read_gbs_busiest_pe", "GB/s", "attention: bytes that the PE with most of them read / latency"},
      {"read_share_of_slice", "1", "the same / the bandwidth of an HBM slice"},
      {"stream_gbs_in_composites", "GB/s",
       "attention: bytes that composites read tile by tile / the time of their streaming windows, first read issued to "
       "last read complete, over all composites of all PEs"},
      {"stream_share_of_slice", "1", "the same / the bandwidth of an HBM slice"},
      {"scratch_peak_bytes", "bytes", "attention: most of the kernel's scratch arena in use at once, on any PE"},
      {"commands_per_pe_max", "count", "attention: commands of the PE that issued most; commands_per_pe_min: fewest"},
      {"queue_messages", "count", "attention: messages sent over the PE-to-PE queues, by reductions and rings"},
      {"op_log.records", "count", "records of op_log.jsonl"},
      {"op_log.hash", "-", "hash of its lines; `replay` refuses a log that has another"},
  };
  return kMetrics;
}

}  // namespace kb
