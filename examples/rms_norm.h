// A bench of one's own: root-mean-square normalisation of the rows of a matrix, on one PE.
#pragma once

#include <kb/kernels/bench.h>

#include <memory>

std::unique_ptr<kb::Bench> make_rms_norm_bench();
