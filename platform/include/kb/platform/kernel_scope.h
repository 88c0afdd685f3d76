// A simulation kernel of its own for each platform of a process.
#pragma once

#include <memory>
#include <systemc>

namespace kb {

/// While it lives, SystemC's current context is a fresh one: time 0, nothing elaborated. Several platforms can so
/// follow one another in a process. Modules must be gone before it is. Not needed by a program with one simulation.
class KernelScope {
 public:
  KernelScope()
      : outer_(sc_core::sc_curr_simcontext),
        outer_default_(sc_core::sc_default_global_context),
        context_(std::make_unique<sc_core::sc_simcontext>()) {
    sc_core::sc_curr_simcontext = context_.get();
    sc_core::sc_default_global_context = context_.get();
  }
  ~KernelScope() {
    context_.reset();
    sc_core::sc_curr_simcontext = outer_;
    sc_core::sc_default_global_context = outer_default_;
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  sc_core::sc_simcontext* outer_;
  sc_core::sc_simcontext* outer_default_;
  std::unique_ptr<sc_core::sc_simcontext> context_;
};

}  // namespace kb
