// Child processes that run this program again: a fixed number side by side, one result each.
#pragma once

#include <kb/tlm_if/errors.h>

#include <sys/types.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kb::cli {

/// One process to start.
struct Job {
  std::size_t id = 0;
  std::vector<std::string> argv;  // argv[0] is the path of the program
  std::string directory;          // working directory; empty: the present one
};

/// What became of it. A process that ended by a signal has code 128 + signal, as in a shell.
struct JobResult {
  std::size_t id = 0;
  int code = 0;
  bool signalled = false;
  std::string out;
  std::string err;
  double wall_s = 0;
};

/// Path of the running program, for starting it again.
std::string program_path(const std::string& argv0);

/// Runs jobs, at most `jobs` at a time. The children end when this process ends, however it does.
///
/// While run() is active SIGINT and SIGTERM are taken as the wish to stop: the children are told to end, their
/// results are dropped and run() throws Interrupted.
class WorkerPool {
 public:
  struct State {
    std::size_t waiting = 0, running = 0, finished = 0;
    double wall_s = 0;
  };

  explicit WorkerPool(std::size_t jobs) : jobs_(jobs == 0 ? 1 : jobs) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// `next` gives the next job, or false when there is none left at present; asked again after each result.
  /// `done` is called once per finished process. `tick` is called a few times a second.
  /// Throws IoError when a process cannot be started, and passes on what the callbacks throw.
  void run(const std::function<bool(Job&)>& next, const std::function<void(const JobResult&)>& done,
           const std::function<void(const State&)>& tick = {});

  /// The same for a list; results in the order of the list.
  std::vector<JobResult> run_all(const std::vector<Job>& list, const std::function<void(const State&)>& tick = {});

 private:
  struct Child {
    std::size_t id = 0;
    pid_t pid = -1;
    int out = -1, err = -1;
    std::chrono::steady_clock::time_point begin;
  };
  void start(const Job& job);
  bool reap(const std::function<void(const JobResult&)>& done);
  void end_all(int signal);

  std::size_t jobs_;
  std::vector<Child> children_;
};

/// Number of processors that this process may use.
std::size_t available_processors();

}  // namespace kb::cli
