#include "benches.h"

namespace kb {

void add_standard_benches(BenchRegistry& registry) {
  registry.add(make_gemm_bench());
  registry.add(make_decode_long_bench());
  registry.add(make_decode_short_bench());
  registry.add(make_prefill_long_bench());
  registry.add(make_prefill_short_bench());
  registry.add(make_headline_bench());
  registry.add(make_allreduce_bench());
  registry.add(make_pe2pe_bench());
  registry.add(make_dma_contention_bench());
  registry.add(make_h2d_bench());
  registry.add(make_d2h_bench());
}

}  // namespace kb
