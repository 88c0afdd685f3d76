// Runs the program as a user does, in a folder of the test's own.
#pragma once

#include "temp_dir.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace kb::test {

struct Ended {
  int code = 0;  // 128 + signal where one ended it
  std::string out, err;
};

/// A program under way.
class Process {
 public:
  Process(const TempDir& dir, std::vector<std::string> argv) : out_(dir / "stdout.txt"), err_(dir / "stderr.txt") {
    std::vector<char*> raw;
    for (auto& a : argv) raw.push_back(a.data());
    raw.push_back(nullptr);
    pid_ = fork();
    BOOST_REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 1);
    const int null = open("/dev/null", O_RDONLY);
    const int out = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || chdir(dir.path().c_str()) != 0) _exit(126);
    execv(raw[0], raw.data());
    _exit(127);
  }
  void send(int signal) const { kill(pid_, signal); }
  Ended wait() {
    int status = 0;
    BOOST_REQUIRE(waitpid(pid_, &status, 0) == pid_);
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read_text(out_), read_text(err_)};
  }

 private:
  std::string out_, err_;
  pid_t pid_ = -1;
};

/// `kernbench ARGUMENTS` in the folder, to its end.
inline Ended kernbench(const TempDir& dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), KB_PROGRAM);
  return Process(dir, std::move(arguments)).wait();
}

inline std::string topology(const std::string& name) {
  return std::string(KB_SOURCE_DIR) + "/topologies/" + name;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace kb::test
