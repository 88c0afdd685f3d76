// A simulation kernel of its own for each platform of a process.
#pragma once

#include <kb/tlm_if/units.h>

#include <cmath>
#include <memory>
#include <systemc>

namespace kb {

/// While it lives, SystemC's current context is a fresh one: time 0, nothing elaborated. Several platforms can so
/// follow one another in a process. Modules must be gone before it is. Not needed by a program with one simulation.
class KernelScope {
 public:
  /// Its time resolution is that of the context outside of it, or as given, in femtoseconds.
  explicit KernelScope(double resolution_fs = current_resolution_fs())
      : outer_(sc_core::sc_curr_simcontext),
        outer_default_(sc_core::sc_default_global_context),
        context_(std::make_unique<sc_core::sc_simcontext>()) {
    sc_core::sc_curr_simcontext = context_.get();
    sc_core::sc_default_global_context = context_.get();
    detail::time_scale = {};
    if (resolution_fs == kDefaultFs) return;  // may still be set
    sc_core::sc_set_time_resolution(resolution_fs, sc_core::SC_FS);
  }
  ~KernelScope() {
    context_.reset();
    sc_core::sc_curr_simcontext = outer_;
    sc_core::sc_default_global_context = outer_default_;
    detail::time_scale = outer_scale_;
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  static constexpr double kDefaultFs = 1000;  // SystemC's default
  static double current_resolution_fs() {
    if (sc_core::sc_curr_simcontext == nullptr) return kDefaultFs;
    return std::round(sc_core::sc_get_time_resolution().to_seconds() * 1e15);
  }

  sc_core::sc_simcontext* outer_;
  sc_core::sc_simcontext* outer_default_;
  detail::TimeScale outer_scale_ = detail::time_scale;
  std::unique_ptr<sc_core::sc_simcontext> context_;
};

}  // namespace kb
