// The benches of this library, one factory each.
#pragma once

#include <kb/kernels/bench.h>

#include <memory>

namespace kb {

std::unique_ptr<Bench> make_gemm_bench();
std::unique_ptr<Bench> make_decode_long_bench();
std::unique_ptr<Bench> make_decode_short_bench();
std::unique_ptr<Bench> make_prefill_long_bench();
std::unique_ptr<Bench> make_prefill_short_bench();
std::unique_ptr<Bench> make_headline_bench();
std::unique_ptr<Bench> make_allreduce_bench();
std::unique_ptr<Bench> make_pe2pe_bench();
std::unique_ptr<Bench> make_dma_contention_bench();
std::unique_ptr<Bench> make_h2d_bench();
std::unique_ptr<Bench> make_d2h_bench();

}  // namespace kb
