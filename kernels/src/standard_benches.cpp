#include "benches.h"

namespace kb {

void add_standard_benches(BenchRegistry& registry) {
  registry.add(make_gemm_bench());
  registry.add(make_decode_long_bench());
}

}  // namespace kb
