// Speed of the PE model: tile stages and SystemC activations per second and per stage, beside the bare kernel's
// thread switches and method activations measured in the same run. Run by hand:
//   bench_pe [M K N]      (4096 4096 4096; f16, all operands in memory)
#include "../tests/pe/pe_bench.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace kb;
using namespace kb::test;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A thread and a method that wake themselves every ns.
class Bare : public sc_core::sc_module {
 public:
  static constexpr int kRounds = 5000000;
  explicit Bare(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    SC_HAS_PROCESS(Bare);
    SC_THREAD(thread);
    SC_METHOD(method);
    sensitive << method_event_;
    dont_initialize();
  }
  double thread_s = 0, method_s = 0;

 private:
  void thread() {
    const sc_core::sc_time step(1, sc_core::SC_NS);
    double begin = seconds();
    for (int i = 0; i < kRounds; ++i) sc_core::wait(step);
    thread_s = seconds() - begin;
    method_begin_ = seconds();
    method_event_.notify(step);
    sc_core::wait(done_);
  }
  void method() {
    if (++rounds_ < kRounds) {
      method_event_.notify(step_);
      return;
    }
    method_s = seconds() - method_begin_;
    done_.notify(sc_core::SC_ZERO_TIME);
  }
  sc_core::sc_time step_{1, sc_core::SC_NS};
  sc_core::sc_event method_event_, done_;
  double method_begin_ = 0;
  int rounds_ = 0;
};

}  // namespace

int sc_main(int argc, char* argv[]) {
  std::int64_t m = 4096, k = 4096, n = 4096;
  if (argc == 4) {
    m = std::atoll(argv[1]);
    k = std::atoll(argv[2]);
    n = std::atoll(argv[3]);
  }
  {
    Bare bare("bare");
    sc_core::sc_start();
    std::printf("bare kernel: %.1f M thread switches/s, %.1f M method activations/s\n",
                Bare::kRounds / bare.thread_s / 1e6, Bare::kRounds / bare.method_s / 1e6);
  }
  auto* context = new sc_core::sc_simcontext;  // the second simulation of this process
  sc_core::sc_curr_simcontext = context;
  sc_core::sc_default_global_context = context;

  PeParams params;
  OnePe::Options options;
  options.latency_ns = 9;
  options.record = false;
  options.catch_faults = false;
  OnePe bench(params, options);
  const auto kernel = [&](PePort& pe) {
    pe.issue(composite({gemm_op(hbm_tensor(0x100000000, {m, k}), hbm_tensor(0x200000000, {k, n}),
                                hbm_tensor(0x300000000, {m, n}), m, k, n)}));
  };
  const double begin = seconds();
  const Ps time = bench.run(kernel);
  const double wall = seconds() - begin;
  const PeStats s = bench.pe->stats(bench.pe->finish_time() - time + 2000, bench.pe->finish_time());
  const auto stages = static_cast<double>(s.tile_stages);
  const auto activations = static_cast<double>(bench.pe->activations());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("gemm %lld x %lld x %lld: %.3f ms simulated, bound %.3f ms, %.2f s wall, %ld MiB\n",
              static_cast<long long>(m), static_cast<long long>(k), static_cast<long long>(n), ns_from_ps(time) / 1e6,
              ns_from_ps(s.compute_ps) / 1e6, wall, usage.ru_maxrss / 1024);
  std::printf("%.3f M tile stages (%.2f M/s), %.2f activations of the PE per stage (memory stub not counted)\n",
              stages / 1e6, stages / wall / 1e6, activations / stages);
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    const EngineTime& e = s.engines[i];
    std::printf("  %-10s busy %5.1f %%", name_of(static_cast<EngineKind>(i)),
                100.0 * static_cast<double>(e.busy) / static_cast<double>(e.total()));
    for (std::size_t c = 0; c < kCauses; ++c)
      if (e.stall[c] != 0)
        std::printf("  %s %.1f %%", name_of(static_cast<Cause>(c)),
                    100.0 * static_cast<double>(e.stall[c]) / static_cast<double>(e.total()));
    std::printf("  idle %.1f %%\n", 100.0 * static_cast<double>(e.idle) / static_cast<double>(e.total()));
  }
  return 0;
}
