#include <kb/cli/cli.h>

#include <csignal>
#include <cstdlib>
#include <systemc>

// SystemC's banner has no place in the output of a tool that is read by scripts.
int main(int argc, char** argv) {
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
  return sc_core::sc_elab_and_sim(argc, argv);
}

int sc_main(int argc, char** argv) {
  // A limit on the size of files is an error of a write like a full disk, and not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  kb::BenchRegistry benches;
  kb::add_standard_benches(benches);
  return kb::run_cli(argc, argv, benches);
}
