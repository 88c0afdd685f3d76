#include "workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace kb::cli {

namespace {

constexpr std::chrono::milliseconds kTick{200};
constexpr std::chrono::seconds kPatience{5};  // between SIGTERM and SIGKILL

/// Holds back the signals that run() takes itself, and gives the old mask back to children and at the end.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&set_);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, s);
    // A blocked SIGCHLD is only queued while its action is not "ignore".
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &old_child_);
    sigprocmask(SIG_BLOCK, &set_, &old_);
  }
  ~SignalsHeld() {
    sigprocmask(SIG_SETMASK, &old_, nullptr);
    sigaction(SIGCHLD, &old_child_, nullptr);
  }
  /// The signal that came within the time; 0: none.
  int wait(std::chrono::milliseconds time) const {
    timespec limit{time.count() / 1000, (time.count() % 1000) * 1'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_, old_;
  struct sigaction old_child_ {};
};

/// An unnamed file: nothing is left of it whatever happens.
int scratch_file() {
  std::string path = "/tmp/kernbench-XXXXXX";
  if (const char* dir = std::getenv("TMPDIR"); dir != nullptr && *dir != '\0')
    path = std::string(dir) + "/kernbench-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) throw IoError(fmt::format("{}: a scratch file cannot be made: {}", path, std::strerror(errno)));
  unlink(path.c_str());
  return fd;
}

std::string content_of(int fd) {
  std::string text;
  char buffer[65536];
  off_t at = 0;
  while (true) {
    const ssize_t n = pread(fd, buffer, sizeof buffer, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    at += n;
  }
}

/// Runs in the child; only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, const char* directory, int out, int err, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Terminals send SIGINT to the whole group; only the parent decides.
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
#else
  (void)parent;
#endif
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
    _exit(127);
  if (*directory != '\0' && chdir(directory) != 0) _exit(127);
  execv(argv[0], argv);
  static constexpr char kMessage[] = "the program cannot be started\n";
  const ssize_t ignored = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  (void)ignored;
  _exit(127);
}

}  // namespace

std::string program_path(const std::string& argv0) {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n > 0 && static_cast<std::size_t>(n) < sizeof path) return {path, static_cast<std::size_t>(n)};
  return argv0;
}

std::size_t available_processors() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
#endif
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<std::size_t>(n) : 1;
}

WorkerPool::~WorkerPool() {
  end_all(SIGKILL);
}

void WorkerPool::start(const Job& job) {
  // Children's error streams are recorded: SystemC's banner is no part of an error.
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 1);
  std::vector<char*> argv;
  argv.reserve(job.argv.size() + 1);
  for (const auto& a : job.argv) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  Child child;
  child.id = job.id;
  child.out = scratch_file();
  child.err = scratch_file();
  child.begin = std::chrono::steady_clock::now();
  const pid_t parent = getpid();
  child.pid = fork();
  if (child.pid == 0) become(argv.data(), job.directory.c_str(), child.out, child.err, parent);
  if (child.pid < 0) {
    const int error = errno;
    close(child.out);
    close(child.err);
    throw IoError(fmt::format("{}: the process cannot be started: {}", job.argv.front(), std::strerror(error)));
  }
  children_.push_back(child);
}

bool WorkerPool::reap(const std::function<void(const JobResult&)>& done) {
  bool any = false;
  for (std::size_t i = 0; i < children_.size();) {
    int status = 0;
    if (waitpid(children_[i].pid, &status, WNOHANG) != children_[i].pid) {
      ++i;
      continue;
    }
    const Child child = children_[i];
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    JobResult result;
    result.id = child.id;
    result.signalled = WIFSIGNALED(status);
    result.code = result.signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    result.out = content_of(child.out);
    result.err = content_of(child.err);
    result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - child.begin).count();
    close(child.out);
    close(child.err);
    any = true;
    done(result);
  }
  return any;
}

void WorkerPool::end_all(int signal) {
  for (const auto& c : children_) kill(c.pid, signal);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!children_.empty()) {
    reap([](const JobResult&) {});
    if (children_.empty()) break;
    if (std::chrono::steady_clock::now() > until)
      for (const auto& c : children_) kill(c.pid, SIGKILL);
    usleep(5000);
  }
}

void WorkerPool::run(const std::function<bool(Job&)>& next, const std::function<void(const JobResult&)>& done,
                     const std::function<void(const State&)>& tick) {
  const SignalsHeld signals;
  const auto begin = std::chrono::steady_clock::now();
  State state;
  bool more = true;
  while (true) {
    while (more && children_.size() < jobs_) {
      Job job;
      more = next(job);
      if (more) start(job);
    }
    if (children_.empty()) break;
    const int signal = signals.wait(kTick);
    if (signal != 0 && signal != SIGCHLD) {
      end_all(SIGTERM);
      throw Interrupted(fmt::format("interrupted by {}", strsignal(signal)));
    }
    const bool any = reap([&](const JobResult& r) {
      ++state.finished;
      done(r);
    });
    if (any) more = true;
    state.running = children_.size();
    state.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (tick) tick(state);
  }
}

std::vector<JobResult> WorkerPool::run_all(const std::vector<Job>& list,
                                           const std::function<void(const State&)>& tick) {
  std::vector<JobResult> results(list.size());
  std::size_t at = 0;
  run(
      [&](Job& job) {
        if (at == list.size()) return false;
        job = list[at];
        job.id = at++;
        return true;
      },
      [&](const JobResult& r) { results[r.id] = r; },
      [&](State s) {
        s.waiting = list.size() - at;
        if (tick) tick(s);
      });
  return results;
}

}  // namespace kb::cli
