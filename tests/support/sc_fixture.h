// Boost.Test fixture that gives a case a simulation kernel of its own.
#pragma once

#include <kb/platform/kernel_scope.h>

#include <boost/test/unit_test.hpp>
#include <systemc>
#include <tlm>

namespace kb::test {

/// A duration of the machine's as the test's time resolution has it: exact at 1 ps and finer. Expected times are sums
/// of these; whole multiples of 10 ps need none.
inline Ps rounded(Ps exact) {
  return ps_from_ns(ns_from_ps(exact));
}

/// A fresh simulation context per case: time 0, nothing elaborated. Derive or name it in
/// BOOST_FIXTURE_TEST_CASE; modules must be locals of the case, so that they go before the context does.
/// The case fails if SystemC issued a warning that it did not announce. The global quantum, which
/// survives a context, is put back to 0.
class FreshContext {
 public:
  FreshContext() {
    tlm::tlm_global_quantum::instance().set(sc_core::SC_ZERO_TIME);
    warnings_before_ = warnings();
  }

  ~FreshContext() {
    BOOST_CHECK_MESSAGE(
        warnings() - warnings_before_ == expected_warnings_,
        "SystemC issued " << warnings() - warnings_before_ << " warnings, expected " << expected_warnings_);
  }

  FreshContext(const FreshContext&) = delete;
  FreshContext& operator=(const FreshContext&) = delete;

  /// Announces that the case provokes `n` SystemC warnings.
  void expect_warnings(int n) { expected_warnings_ = n; }

  /// Simulates until sc_stop; ending any other way (no events left, a time limit) fails the case, because
  /// sc_start returns silently on a deadlock.
  static void run_to_stop() {
    sc_core::sc_start();
    BOOST_REQUIRE_MESSAGE(sc_core::sc_get_status() == sc_core::SC_STOPPED, "the simulation ran out of events at "
                                                                               << sc_core::sc_time_stamp()
                                                                               << " before anything called sc_stop");
  }

 private:
  static int warnings() { return sc_core::sc_report_handler::get_count(sc_core::SC_WARNING); }

  KernelScope kernel_;
  int warnings_before_ = 0;
  int expected_warnings_ = 0;
};

}  // namespace kb::test
