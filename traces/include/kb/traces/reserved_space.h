// Room on the disk that is kept free for the files that are written last.
#pragma once

#include <string>

namespace kb {

/// A run may fill its disk. So that the summary can say so even then, a nameless file of a megabyte lies in `dir` until
/// release() gives its place to the files that are written at the end.
class ReservedSpace {
 public:
  /// Reserves nothing where `dir` is empty, or where there is nothing left to reserve.
  explicit ReservedSpace(const std::string& dir) noexcept;
  ~ReservedSpace() { release(); }
  ReservedSpace(const ReservedSpace&) = delete;
  ReservedSpace& operator=(const ReservedSpace&) = delete;

  void release() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace kb
