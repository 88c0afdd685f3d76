#include <kb/cli/cli.h>

#include <systemc>

int sc_main(int argc, char** argv) {
  kb::BenchRegistry benches;
  kb::add_standard_benches(benches);
  return kb::run_cli(argc, argv, benches);
}
