// Entry point of every test program: SystemC owns main, so Boost.Test runs from sc_main.
//
// KB_TIME_RESOLUTION_FS is the time resolution that all cases run at, in femtoseconds; SystemC's 1000 without it.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <systemc>

namespace {
bool init_unit_test() {
  return true;
}
}  // namespace

int sc_main(int argc, char* argv[]) {
  if (const char* fs = std::getenv("KB_TIME_RESOLUTION_FS"))
    sc_core::sc_set_time_resolution(std::atof(fs), sc_core::SC_FS);
  return boost::unit_test::unit_test_main(&init_unit_test, argc, argv);
}
