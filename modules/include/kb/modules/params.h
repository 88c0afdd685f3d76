// Parameter structs of every component, with the defaults of spec 1.2. The platform fills them from a
// topology file; a co-simulating user may fill them in C++. Modules take these structs, never YAML.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kb {

inline constexpr std::uint64_t KiB = 1024;
inline constexpr std::uint64_t MiB = 1024 * KiB;
inline constexpr std::uint64_t GiB = 1024 * MiB;

/// The name of the built-in implementation; any other name is looked up in the component registry.
inline const std::string kBuiltin = "builtin";

enum class Granularity { packet, flit };
enum class BufferKind { tcm, sram, hbm };
enum class FabricKind { ring_1d, torus_2d, mesh_2d_no_wrap, sw };

struct CpuParams {
  std::string impl = kBuiltin;
  double overhead_ns = 2.0;              // once per launch, before the common start
  std::uint64_t stack_bytes = 256 * KiB; // stack of the kernel's thread; a guard page lies below it
};

struct SchedulerParams {
  std::string impl = kBuiltin;
  double overhead_ns = 1.0;                    // once per command
  std::uint32_t queue_depth = 32;              // commands in flight
  std::array<std::uint32_t, 3> tile{32, 64, 32};  // TILE_M, TILE_K, TILE_N
  std::uint32_t tile_buffers = 8;              // TCM tiles per streamed operand
  bool prefetch_across_prologue = false;
};

struct DmaParams {
  std::string impl = kBuiltin;
  std::uint32_t read_engines = 1;
  std::uint32_t write_engines = 1;
  std::uint32_t outstanding = 1;  // transfers per engine, issue to last response
  double overhead_ns = 2.0;       // once per transfer, at issue
};

struct FetchStoreParams {
  std::string impl = kBuiltin;
  double overhead_ns = 0.0;
};

struct GemmParams {
  std::string impl = kBuiltin;
  double overhead_ns = 0.0;
  std::array<std::uint32_t, 3> mac_shape{16, 16, 16};  // m, k, n of one step
  std::uint64_t accumulator_bytes = 64 * KiB;
};

struct MathParams {
  std::string impl = kBuiltin;
  double overhead_ns = 0.0;
  std::uint32_t vector_width = 256;  // elements per cycle, every dtype
};

struct TcmParams {
  std::string impl = kBuiltin;
  std::uint64_t bytes = 16 * MiB;
  std::uint64_t scratch_bytes = 1 * MiB;
  double read_bw_gbs = 512;
  double write_bw_gbs = 512;
};

struct MmuParams {
  std::string impl = kBuiltin;
  std::uint64_t page_bytes = 2 * MiB;
  double tlb_overhead_ns = 0.0;
};

/// The memory behind a queue's slots, by BufferKind; sram and hbm also pay the path from the PE to the bank.
struct IpcqBufferParams {
  double bw_gbs = 0;
  double access_ns = 0;
};

struct IpcqParams {
  std::string impl = kBuiltin;
  std::uint32_t slots = 4;
  std::uint64_t slot_bytes = 4096;
  std::uint64_t credit_bytes = 16;
  BufferKind buffer_kind = BufferKind::tcm;
  IpcqBufferParams tcm{512, 0.0};
  IpcqBufferParams sram{512, 2.0};
  IpcqBufferParams hbm{256, 6.0};
};

struct CostModelParams {
  double fixed_per_composite_cycles = 40;
  double fixed_per_single_op_cycles = 8;
  double cycles_per_byte = 0.0;
  std::uint32_t max_command_bytes = 1024;
};

struct PeParams {
  double clock_ghz = 1.0;
  CpuParams cpu;
  SchedulerParams scheduler;
  DmaParams dma;
  FetchStoreParams fetch_store;
  GemmParams gemm;
  MathParams math;
  TcmParams tcm;
  MmuParams mmu;
  IpcqParams ipcq;
  CostModelParams cost_model;
};

struct HbmParams {
  std::string impl = kBuiltin;
  double link_bw_gbs = 256;
  std::uint32_t pseudo_channels = 8;  // a power of two
  double pc_bw_gbs = 32;
  std::uint32_t burst_bytes = 256;    // channel interleave, commit unit and flit size
  double access_ns = 0.0;             // latency added to every access, no occupancy
  double switch_penalty_ns = 0.0;     // read/write turnaround per channel
  double slice_gib = 6;
  double link_mm = 0.0;
};

struct SramParams {
  std::string impl = kBuiltin;
  std::uint64_t bytes = 32 * MiB;
  double link_bw_gbs = 128;
  double link_mm = 0.0;
};

struct NocParams {
  std::string impl = kBuiltin;  // router implementation
  std::array<double, 2> pitch_mm{3.0, 2.5};
  double router_overhead_ns = 0.0;
  double link_bw_gbs = 256;
  double pe_dma_bw_gbs = 256;
  double pe_link_mm = 0.0;
};

struct UcieParams {
  std::string impl = kBuiltin;
  std::uint32_t connections = 4;  // per port
  double bw_gbs = 128;            // each connection
  double overhead_ns = 8.0;       // per port; a crossing passes two
  double link_mm = 0.0;
};

struct FabricParams {
  Granularity granularity = Granularity::packet;
  std::uint64_t packet_bytes = 4096;
};

}  // namespace kb
