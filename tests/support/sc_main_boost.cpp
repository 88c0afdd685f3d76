// Entry point of every test program: SystemC owns main, so Boost.Test runs from sc_main.
#include <boost/test/unit_test.hpp>
#include <systemc>

namespace {
bool init_unit_test() {
  return true;
}
}  // namespace

int sc_main(int argc, char* argv[]) {
  return boost::unit_test::unit_test_main(&init_unit_test, argc, argv);
}
