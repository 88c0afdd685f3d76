// Hand-computed times of single operations, tiles and pipelines. Rates: f16 tile 32x64x32; TCM 512 GB/s.
#include "pe_bench.h"

#include <boost/test/unit_test.hpp>
#include <sc_fixture.h>

using namespace kb;
using namespace kb::test;

namespace {

constexpr std::uint64_t kA = 0x10000, kB = 0x40000, kOut = 0x80000;
constexpr std::uint64_t kHbmA = 0x1000000, kHbmB = 0x2000000, kHbmOut = 0x3000000;

std::vector<std::pair<Ps, Ps>> spans(const std::vector<OpRecord>& records) {
  std::vector<std::pair<Ps, Ps>> s;
  for (const auto& r : records) s.emplace_back(r.t_start, r.t_end);
  return s;
}

/// GEMM out of TCM into TCM.
Command resident_gemm(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype = DType::f16) {
  return composite({gemm_op(tcm_tensor(kA, {m, k}, dtype), tcm_tensor(kB, {k, n}, dtype),
                            tcm_tensor(kOut, {m, n}, DType::f32), m, k, n)});
}

std::vector<OpRecord> three_reads(std::uint32_t outstanding) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  p.dma.outstanding = outstanding;
  OnePe::Options o;
  o.latency_ns = 20;
  OnePe bench(p, o);
  bench.run([](PePort& pe) {
    for (std::uint64_t i = 0; i < 3; ++i)
      pe.issue(read_command(hbm_tensor(kHbmA + 4096 * i, {2048}), tcm_tensor(kA + 4096 * i, {2048}, DType::f16)));
  });
  bench.stats();
  return bench.recorder.of(OpName::dma_read);
}

}  // namespace

#define CHECK_SPANS(records, ...)                                          \
  do {                                                                     \
    const auto found = spans(records);                                     \
    const std::vector<std::pair<Ps, Ps>> expected{__VA_ARGS__};            \
    BOOST_REQUIRE_EQUAL(found.size(), expected.size());                    \
    for (std::size_t i_ = 0; i_ < expected.size(); ++i_) {                 \
      BOOST_CHECK_EQUAL(found[i_].first, expected[i_].first);              \
      BOOST_CHECK_EQUAL(found[i_].second, expected[i_].second);            \
    }                                                                      \
  } while (false)

using P = std::pair<Ps, Ps>;

BOOST_AUTO_TEST_SUITE(times)

// FETCH (32*64 + 64*32) * 2 B = 8192 B at 512 B/ns: 16 ns. GEMM 2*4*2 steps of 1 ns: 16 ns. STORE 4096 B: 8 ns.
BOOST_FIXTURE_TEST_CASE(one_resident_tile, FreshContext) {
  OnePe bench(free_params());
  BOOST_CHECK_EQUAL(bench.run([](PePort& pe) { pe.issue(resident_gemm(32, 64, 32)); }), 40000);
  CHECK_SPANS(bench.recorder.of(OpName::fetch), P{0, 16000});
  CHECK_SPANS(bench.recorder.of(OpName::gemm), P{16000, 32000});
  CHECK_SPANS(bench.recorder.of(OpName::store), P{32000, 40000});
  const PeStats s = bench.stats();
  BOOST_CHECK_EQUAL(s.macs_useful, 32u * 64 * 32);
  BOOST_CHECK_EQUAL(s.macs_padded, 32u * 64 * 32);
  BOOST_CHECK_EQUAL(s.tile_stages, 3u);
  BOOST_CHECK_EQUAL(s.serial_ps, 40000);
  BOOST_CHECK(!bench.recorder.late);
}

// Defaults: launch 2 ns, dispatch 40 cycles, scheduler 1 ns, then the 40 ns of the tile.
BOOST_FIXTURE_TEST_CASE(one_resident_tile_with_its_fixed_costs, FreshContext) {
  OnePe bench{PeParams{}};
  // Kernel time counts from the common start, after the launch's 2 ns.
  bench.run([](PePort& pe) { pe.issue(resident_gemm(32, 64, 32)); });
  BOOST_CHECK_EQUAL(bench.pe->finish_time(), 2000 + 40000 + 1000 + 40000);
  CHECK_SPANS(bench.recorder.of(OpName::command), P{42000, 43000});
  const PeStats s = bench.pe->stats(2000, bench.pe->finish_time());
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)][Cause::dispatch], 40000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)][Cause::command_queue], 1000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)][Cause::operands_fetch], 16000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)].idle, 8000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::store)][Cause::operands_gemm], 16000);
  BOOST_CHECK_EQUAL(s.serial_ps, 81000);
}

// f32 takes two cycles per step and twice the bytes: FETCH 32 ns, GEMM 32 ns.
BOOST_FIXTURE_TEST_CASE(f32_takes_two_cycles_per_step, FreshContext) {
  OnePe bench(free_params());
  BOOST_CHECK_EQUAL(bench.run([](PePort& pe) { pe.issue(resident_gemm(32, 64, 32, DType::f32)); }), 72000);
  CHECK_SPANS(bench.recorder.of(OpName::gemm), P{32000, 64000});
}

// 8 x 128 x 32: two k steps of FETCH (8*64 + 64*32) * 2 = 5120 B = 10 ns and GEMM 1*4*2 = 8 ns; half of the
// array's rows carry nothing. STORE 8*32*4 = 1024 B = 2 ns.
//   F0 0-10, F1 10-20, G0 10-18, G1 20-28, S 28-30
BOOST_FIXTURE_TEST_CASE(two_overlapping_steps_of_eight_rows, FreshContext) {
  OnePe bench(free_params());
  BOOST_CHECK_EQUAL(bench.run([](PePort& pe) { pe.issue(resident_gemm(8, 128, 32)); }), 30000);
  CHECK_SPANS(bench.recorder.of(OpName::fetch), P{0, 10000}, P{10000, 20000});
  CHECK_SPANS(bench.recorder.of(OpName::gemm), P{10000, 18000}, P{20000, 28000});
  const PeStats s = bench.stats();
  BOOST_CHECK_EQUAL(s.macs_useful * 2, s.macs_padded);
}

// The register file holds two tiles: with FETCH 16 ns (f16) and GEMM slowed to 40 ns by its overhead,
// FETCH(2) waits for the end of GEMM(0), FETCH(3) for that of GEMM(1).
//   F0 0-16 F1 16-32 G0 16-56 F2 56-72 G1 56-96 F3 96-112 G2 96-136 G3 136-176 S 176-184
BOOST_FIXTURE_TEST_CASE(two_register_tiles, FreshContext) {
  PeParams p = free_params();
  p.gemm.overhead_ns = 24;
  OnePe bench(p);
  BOOST_CHECK_EQUAL(bench.run([](PePort& pe) { pe.issue(resident_gemm(32, 256, 32)); }), 184000);
  CHECK_SPANS(bench.recorder.of(OpName::fetch), P{0, 16000}, P{16000, 32000}, P{56000, 72000}, P{96000, 112000});
  CHECK_SPANS(bench.recorder.of(OpName::gemm), P{16000, 56000}, P{56000, 96000}, P{96000, 136000},
              P{136000, 176000});
}

// One tile with both operands and the output in HBM, memory 100 ns away, 256 GB/s, DMA issue 2 ns:
//   A: 2 issue, 100 latency, 4096 B / 256 = 16: 0-118. B behind it: 118-236. F 236-252, G 252-268,
//   S 32*32*2 B = 2048 B: 4 ns, 268-272; W: 2 + 100 + 8 = 110: 272-382.
BOOST_FIXTURE_TEST_CASE(one_streamed_tile, FreshContext) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe::Options o;
  o.latency_ns = 100;
  OnePe bench(p, o);
  const auto kernel = [](PePort& pe) {
    pe.issue(composite({gemm_op(hbm_tensor(kHbmA, {32, 64}), hbm_tensor(kHbmB, {64, 32}),
                                hbm_tensor(kHbmOut, {32, 32}), 32, 64, 32)}));
  };
  BOOST_CHECK_EQUAL(bench.run(kernel), 382000);
  CHECK_SPANS(bench.recorder.of(OpName::dma_read, TileRole::a), P{0, 118000});
  CHECK_SPANS(bench.recorder.of(OpName::dma_read, TileRole::b), P{118000, 236000});
  CHECK_SPANS(bench.recorder.of(OpName::store), P{268000, 272000});
  CHECK_SPANS(bench.recorder.of(OpName::dma_write, TileRole::out), P{272000, 382000});
  const PeStats s = bench.stats();
  BOOST_CHECK_EQUAL(s.dma_read_bytes, 8192u);
  BOOST_CHECK_EQUAL(s.dma_write_bytes, 2048u);
  BOOST_CHECK_EQUAL(s.must_read_bytes, 8192u);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)][Cause::operands_dma], 236000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)][Cause::operands_fetch], 16000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)].busy, 16000);
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::gemm)].idle, 114000);
  BOOST_CHECK_EQUAL(bench.pool.out(), 0u);
}

// The same tile with every kind of target gives the same times.
BOOST_FIXTURE_TEST_CASE(a_train_that_grows, FreshContext) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe::Options o;
  o.latency_ns = 100;
  o.style = StubMemory::Style::growing_train;
  OnePe bench(p, o);
  bench.run([](PePort& pe) {
    pe.issue(read_command(hbm_tensor(kHbmA, {4, 1024}), tcm_tensor(kA, {4, 1024}, DType::f16)));
  });
  CHECK_SPANS(bench.recorder.of(OpName::dma_read), P{0, 134000});
  BOOST_CHECK_EQUAL(bench.pool.out(), 0u);
}

BOOST_FIXTURE_TEST_CASE(a_target_without_extension, FreshContext) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe::Options o;
  o.latency_ns = 100;
  o.style = StubMemory::Style::plain;
  OnePe bench(p, o);
  bench.run([](PePort& pe) {
    pe.issue(read_command(hbm_tensor(kHbmA, {4, 1024}), tcm_tensor(kA, {4, 1024}, DType::f16)));
  });
  CHECK_SPANS(bench.recorder.of(OpName::dma_read), P{0, 134000});
}

BOOST_FIXTURE_TEST_CASE(a_target_that_completes_at_once, FreshContext) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe::Options o;
  o.latency_ns = 100;
  o.style = StubMemory::Style::early;
  OnePe bench(p, o);
  bench.run([](PePort& pe) {
    pe.issue(read_command(hbm_tensor(kHbmA, {4, 1024}), tcm_tensor(kA, {4, 1024}, DType::f16)));
    pe.issue(write_command(tcm_tensor(kA, {4, 1024}, DType::f16), hbm_tensor(kHbmOut, {4, 1024})));
  });
  CHECK_SPANS(bench.recorder.of(OpName::dma_read), P{0, 134000});
  CHECK_SPANS(bench.recorder.of(OpName::dma_write), P{134000, 268000});
}

// Full tile buffers. K = 4 tiles, B streamed in tiles of 4096 B, A resident; reads of 16 ns back to back
// (no overhead, no latency); GEMM slowed to 100 ns. One buffer: READ(k+1) waits for the end of FETCH(k).
//   R0 0-16 F0 16-32 R1 32-48 F1 48-64 R2 64-80 G0 32-132 F2 132-148 (register of G0) R3 148-164 F3 232-248
// Two buffers: R0 0-16 R1 16-32 F0 16-32 R2 32-48 F1 32-48 R3 48-64 (buffer of F1).
BOOST_FIXTURE_TEST_CASE(one_tile_buffer, FreshContext) {
  PeParams p = free_params();
  p.gemm.overhead_ns = 84;
  p.scheduler.tile_buffers = 1;
  OnePe bench(p);
  bench.run([](PePort& pe) {
    pe.issue(composite({gemm_op(tcm_tensor(kA, {32, 256}, DType::f16), hbm_tensor(kHbmB, {256, 32}),
                                tcm_tensor(kOut, {32, 32}), 32, 256, 32)}));
  });
  CHECK_SPANS(bench.recorder.of(OpName::dma_read), P{0, 16000}, P{32000, 48000}, P{64000, 80000}, P{148000, 164000});
  CHECK_SPANS(bench.recorder.of(OpName::fetch), P{16000, 32000}, P{48000, 64000}, P{132000, 148000},
              P{232000, 248000});
  const PeStats s = bench.stats();
  // Between R0 and R1, R1 and R2 and R2 and R3 the engine waits for the buffer.
  BOOST_CHECK_EQUAL(s.engines[static_cast<std::size_t>(EngineKind::dma_read)][Cause::buffer], 16000 + 16000 + 68000);
}

BOOST_FIXTURE_TEST_CASE(two_tile_buffers, FreshContext) {
  PeParams p = free_params();
  p.gemm.overhead_ns = 84;
  p.scheduler.tile_buffers = 2;
  OnePe bench(p);
  bench.run([](PePort& pe) {
    pe.issue(composite({gemm_op(tcm_tensor(kA, {32, 256}, DType::f16), hbm_tensor(kHbmB, {256, 32}),
                                tcm_tensor(kOut, {32, 32}), 32, 256, 32)}));
  });
  CHECK_SPANS(bench.recorder.of(OpName::dma_read), P{0, 16000}, P{16000, 32000}, P{32000, 48000}, P{48000, 64000});
  CHECK_SPANS(bench.recorder.of(OpName::fetch), P{16000, 32000}, P{32000, 48000}, P{132000, 148000},
              P{232000, 248000});
}

// A GEMM's first step on an accumulator waits for the STORE of the tile that had it. With room for one
// accumulator, two tiles along n, K of one tile:
//   F0 0-16 G0 16-32 S0 32-40 F1 16-32 G1 40-56 S1 56-64
BOOST_FIXTURE_TEST_CASE(one_accumulator, FreshContext) {
  PeParams p = free_params();
  p.gemm.accumulator_bytes = 4096;
  OnePe bench(p);
  BOOST_CHECK_EQUAL(bench.run([](PePort& pe) { pe.issue(resident_gemm(32, 64, 64)); }), 64000);
  CHECK_SPANS(bench.recorder.of(OpName::gemm), P{16000, 32000}, P{40000, 56000});
  BOOST_CHECK_EQUAL(bench.stats().engines[static_cast<std::size_t>(EngineKind::gemm)][Cause::buffer], 8000);
}

// Epilogues: k_tile ops hold up the next step on their accumulator, output_tile ops come before the STORE.
// 1024 elements at 256 per cycle: 4 ns an op.
//   F0 0-16 G0 16-32 dequant 32-36 | F1 16-32 G1 36-52 dequant 52-56 scale 56-60 S 60-68
BOOST_FIXTURE_TEST_CASE(epilogues, FreshContext) {
  OnePe bench(free_params());
  const auto kernel = [](PePort& pe) {
    Command c = resident_gemm(32, 128, 32);
    c.ops.push_back(tile_op("scale", OpScope::output_tile));
    c.ops.push_back(tile_op("dequant", OpScope::k_tile, {{"scale", tcm_tensor(0, {1})}}));
    pe.issue(std::move(c));
  };
  BOOST_CHECK_EQUAL(bench.run(kernel), 68000);
  CHECK_SPANS(bench.recorder.of(OpName::math), P{32000, 36000}, P{52000, 56000}, P{56000, 60000});
  CHECK_SPANS(bench.recorder.of(OpName::gemm), P{16000, 32000}, P{36000, 52000});
}

// A chain of math ops: 2048 elements 8 ns, a reduction counts its input, a copy its output; cycles round up.
BOOST_FIXTURE_TEST_CASE(math_only, FreshContext) {
  OnePe bench(free_params());
  const auto kernel = [](PePort& pe) {
    const auto s = tcm_tensor(0, {8, 256}), m = tcm_tensor(0x8000, {8, 1});
    OpSpec rmax = math_op("rmax", {{"src", s}}, m);
    rmax.extra = {{"axis", -1}};
    pe.issue(composite({math_op("exp", {{"src", s}}, s), rmax, math_op("copy", {{"src", m}}, m)}));
  };
  BOOST_CHECK_EQUAL(bench.run(kernel), 8000 + 8000 + 1000);
  CHECK_SPANS(bench.recorder.of(OpName::math), P{0, 8000}, P{8000, 16000}, P{16000, 17000});
}

// A transfer is held from its issue to its last response; the overhead is paid once, at issue. 4096 B, 20 ns
// latency, 2 ns overhead: 38 ns. With one outstanding transfer they follow one another; with two, the second is
// issued 2 ns after the first, and the memory's channel keeps them 16 ns apart.
BOOST_FIXTURE_TEST_CASE(one_outstanding_transfer, FreshContext) {
  CHECK_SPANS(three_reads(1), P{0, 38000}, P{38000, 76000}, P{76000, 114000});
}
BOOST_FIXTURE_TEST_CASE(two_outstanding_transfers, FreshContext) {
  CHECK_SPANS(three_reads(2), P{0, 38000}, P{2000, 54000}, P{38000, 76000});
}

// Reads and writes overlap.
BOOST_FIXTURE_TEST_CASE(directions_overlap, FreshContext) {
  PeParams p = free_params();
  p.dma.overhead_ns = 2;
  OnePe bench(p);
  bench.run([](PePort& pe) {
    pe.issue(read_command(hbm_tensor(kHbmA, {2048}), tcm_tensor(kA, {2048}, DType::f16)));
    pe.issue(write_command(tcm_tensor(kB, {2048}, DType::f16), hbm_tensor(kHbmOut, {2048})));
  });
  CHECK_SPANS(bench.recorder.of(OpName::dma_read), P{0, 18000});
  CHECK_SPANS(bench.recorder.of(OpName::dma_write), P{0, 18000});
}

BOOST_AUTO_TEST_SUITE_END()
