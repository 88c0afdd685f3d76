#include <kb/traces/reserved_space.h>

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace kb {

ReservedSpace::ReservedSpace(const std::string& dir) noexcept {
  if (dir.empty()) return;
  const std::string path = dir + "/.reserved";
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd_ < 0) return;
  ::unlink(path.c_str());
  if (::posix_fallocate(fd_, 0, 1 << 20) != 0) release();
}

void ReservedSpace::release() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace kb
