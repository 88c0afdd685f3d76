// The command line of kernbench, usable from a program with benches of its own.
#pragma once

#include <kb/kernels/bench.h>

namespace kb {

/// Parses and runs a command line; returns the process's exit code (spec 7.1). Call it from sc_main.
int run_cli(int argc, char** argv, const BenchRegistry& benches);

}  // namespace kb
