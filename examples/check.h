// The examples check themselves: a line per check, and an exit code.
#pragma once

#include <iostream>
#include <string>

class Checks {
 public:
  template <typename T>
  void equal(const std::string& what, const T& found, const T& expected) {
    const bool good = found == expected;
    all_good_ = all_good_ && good;
    std::cout << (good ? "ok    " : "WRONG ") << what << ": " << found;
    if (!good) std::cout << ", expected " << expected;
    std::cout << '\n';
  }
  int exit_code() const { return all_good_ ? 0 : 1; }

 private:
  bool all_good_ = true;
};
