// What random command streams compute: the same tensors as strict in-order execution (spec 2.3).
#include "pe_bench.h"

#include <kb/platform/data_pass.h>
#include <kb/platform/math_table.h>
#include <kb/traces/op_sorter.h>

#include <sc_fixture.h>
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <random>

using namespace kb;
using namespace kb::test;

namespace {

constexpr std::uint64_t kHbmBase = 0x10000000;
constexpr std::uint64_t kRegion = 0x10000;  // tensors of a stream share six regions of each memory, so they collide
constexpr unsigned kRegions = 6;

/// The regions of TCM and HBM, filled with small finite values whatever dtype they are read as.
class Regions : public MemoryView {
 public:
  Regions() {
    std::mt19937 random(7);
    for (auto& bank : banks_) {
      bank.resize(kRegion * kRegions);
      // 0x3800 .. 0x3bff in both halves: 0.5 .. 1 as f16, about 3e-5 as f32.
      for (std::size_t i = 0; i < bank.size(); i += 2) {
        const std::uint16_t half = static_cast<std::uint16_t>(0x3800 + random() % 0x400);
        std::memcpy(bank.data() + i, &half, 2);
      }
    }
  }
  void read(std::uint32_t, Space space, std::uint64_t addr, void* to, std::size_t bytes) override {
    std::memcpy(to, at(space, addr, bytes), bytes);
  }
  void write(std::uint32_t, Space space, std::uint64_t addr, const void* from, std::size_t bytes) override {
    std::memcpy(at(space, addr, bytes), from, bytes);
  }
  std::vector<unsigned char> banks_[2];

 private:
  unsigned char* at(Space space, std::uint64_t addr, std::size_t bytes) {
    auto& bank = banks_[space == Space::tcm ? 0 : 1];
    const std::uint64_t offset = space == Space::tcm ? addr : addr - kHbmBase;
    if (offset + bytes > bank.size()) throw ModelError("outside the regions");
    return bank.data() + offset;
  }
};

/// A command whose tensors begin anywhere in the first half of a region, what it writes in the first quarter; none
/// reads what it writes, so that its value is defined, but commands overlap each other in all ways.
Command random_command(std::mt19937& random) {
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  const std::uint64_t written = pick(kRegions);
  const auto inside = [&] { return 256 * pick(kRegion / 512); };
  const auto from = [&](Space space) {
    const std::uint64_t region = (written + 1 + pick(kRegions - 1)) % kRegions;
    return (space == Space::hbm ? kHbmBase : 0) + region * kRegion + inside();
  };
  const auto to = [&](Space space) {
    return (space == Space::hbm ? kHbmBase : 0) + written * kRegion + 256 * pick(64);
  };
  const std::int64_t count = 1 + static_cast<std::int64_t>(pick(4096));
  switch (pick(6)) {
    case 0: return read_command(hbm_tensor(from(Space::hbm), {count}), tcm_tensor(to(Space::tcm), {count}, DType::f16));
    case 1:
      return write_command(tcm_tensor(from(Space::tcm), {count}, DType::f16), hbm_tensor(to(Space::hbm), {count}));
    case 2:
      return single(
          CommandKind::math,
          math_op("add", {{"a", tcm_tensor(from(Space::tcm), {count})}, {"b", tcm_tensor(from(Space::tcm), {count})}},
                  tcm_tensor(to(Space::tcm), {count})));
    case 3:
      return single(CommandKind::copy, math_op("copy", {{"src", tcm_tensor(from(Space::tcm), {count}, DType::f16)}},
                                               tcm_tensor(to(Space::tcm), {count}, DType::f16)));
    default: {
      const auto dim = [&](std::uint64_t most) { return 1 + static_cast<std::int64_t>(pick(most)); };
      const std::int64_t m = dim(70), k = dim(100), n = dim(70);
      const auto operand = [&](const Shape& s) {
        return pick(2) ? hbm_tensor(from(Space::hbm), s) : tcm_tensor(from(Space::tcm), s, DType::f16);
      };
      const TensorHandle out =
          pick(2) ? hbm_tensor(to(Space::hbm), {m, n}) : tcm_tensor(to(Space::tcm), {m, n}, DType::f16);
      std::vector<OpSpec> ops;
      TensorHandle a = operand({m, k});
      if (pick(2)) {  // a prologue makes operand a, in a region that nothing else of the command touches
        a = tcm_tensor(written * kRegion + kRegion / 2 + 256 * pick(64), {m, k}, DType::f16);
        ops.push_back(math_op("exp", {{"src", tcm_tensor(from(Space::tcm), {m, k}, DType::f16)}}, a));
      }
      ops.push_back(gemm_op(a, operand({k, n}), out, m, k, n));
      if (pick(2)) ops.push_back(tile_op("relu", OpScope::output_tile));
      return composite(ops);
    }
  }
}

/// The memories after the stream, and how long it took.
struct Outcome {
  Ps latency = 0;
  std::vector<unsigned char> tcm, hbm;
};
Outcome execute(const std::vector<Command>& commands, const PeParams& p, bool strict) {
  FreshContext fresh;
  OnePe::Options o;
  o.latency_ns = 30;
  OnePe bench(p, o);
  Outcome out;
  out.latency = bench.run([&](PePort& pe) {
    for (const Command& c : commands) {
      const CommandId id = pe.issue(c);
      if (strict) pe.wait(id, "test");
    }
  });
  Regions memory;
  const MathTable table = MathTable::builtin();
  DataPass pass(bench.machine, memory, table);
  OpSorter sorter(OpSorter::Clock::manual);
  sorter.add_sink(pass);
  for (OpRecord& r : bench.recorder.records) sorter.emit(std::move(r));
  sorter.flush();
  out.tcm = std::move(memory.banks_[0]);
  out.hbm = std::move(memory.banks_[1]);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stream_values)

// 500 random streams: the memories end with the same bytes as when each command starts after the one before it
// has completed, and not later.
BOOST_AUTO_TEST_CASE(streams_compute_what_in_order_execution_computes) {
  std::mt19937 random(11);
  unsigned overlapped = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<Command> commands;
    const unsigned count = 2 + random() % 10;
    for (unsigned i = 0; i < count; ++i) commands.push_back(random_command(random));
    PeParams p;
    p.scheduler.queue_depth = 1 + random() % 32;
    p.scheduler.prefetch_across_prologue = random() % 2;
    p.dma.outstanding = 1 + random() % 4;
    const Outcome free_run = execute(commands, p, false);
    const Outcome strict = execute(commands, p, true);
    BOOST_REQUIRE_MESSAGE(free_run.tcm == strict.tcm && free_run.hbm == strict.hbm, "round " << round);
    BOOST_REQUIRE_LE(free_run.latency, strict.latency);
    overlapped += free_run.latency < strict.latency ? 1u : 0u;
  }
  BOOST_CHECK_GE(overlapped, 400u);
}

BOOST_AUTO_TEST_SUITE_END()
