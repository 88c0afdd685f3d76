// Errors that end a run. Each carries the exit code of the command line (spec 7.1).
#pragma once

#include <stdexcept>
#include <string>

namespace kb {

enum class ExitCode : int {
  done = 0,
  wrong_result = 1,   // numerics, selfcheck, diff, a sweep point
  bad_input = 2,      // found before simulation
  model_error = 3,    // found during simulation
  io_error = 4,
  interrupted = 130,
};

/// Base of all errors of this library: one message that names the place, what was found and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Bad files, options, parameters, allocations and launch checks: found before simulation.
class InputError : public Error {
 public:
  explicit InputError(const std::string& what) : Error(ExitCode::bad_input, what) {}
};

/// Kernel shape errors, scratch, byte cap, addresses, deadlock, broken laws: found during simulation.
class ModelError : public Error {
 public:
  explicit ModelError(const std::string& what) : Error(ExitCode::model_error, what) {}
};

class IoError : public Error {
 public:
  explicit IoError(const std::string& what) : Error(ExitCode::io_error, what) {}
};

/// The user asked the run to stop.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& what) : Error(ExitCode::interrupted, what) {}
};

}  // namespace kb
