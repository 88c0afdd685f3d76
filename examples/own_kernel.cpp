// The command line of kernbench with one more bench: every command and option works on it as on the built-in ones.
//
//   own_kernel run --topology one_pe.yaml --bench rms_norm --set bench.rows=1024 --mode data --out out --trace vcd
#include "rms_norm.h"

#include <kb/cli/cli.h>

#include <systemc>

int sc_main(int argc, char* argv[]) {
  kb::BenchRegistry benches;
  kb::add_standard_benches(benches);
  benches.add(make_rms_norm_bench());
  return kb::run_cli(argc, argv, benches);
}
