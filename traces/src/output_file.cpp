#include <kb/traces/output_file.h>

#include <kb/tlm_if/errors.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace kb {

namespace {
constexpr std::size_t kWriteBuffer = 1 << 20;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), part_(path_ + ".part") {
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw IoError(part_ + ": cannot create: " + std::strerror(errno));
  buffer_.resize(kWriteBuffer);
  capacity_ = kWriteBuffer;
}

OutputFile::~OutputFile() {
  abandon();
}

void OutputFile::append(std::string_view text) {
  char* to = room(text.size());
  std::memcpy(to, text.data(), text.size());
  commit(to + text.size());
}

void OutputFile::make_room(std::size_t bytes) {
  write_buffer();
  if (capacity_ < bytes) {
    buffer_.resize(bytes);
    capacity_ = bytes;
  }
}

void OutputFile::fail(const char* what) {
  const int reason = errno;
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  used_ = 0;
  throw IoError(part_ + ": cannot " + what + ": " + std::strerror(reason));
}

void OutputFile::write_buffer() {
  if (used_ == 0) return;
  if (fd_ < 0) throw IoError(part_ + ": cannot write: the file is closed");
  std::size_t done = 0;
  while (done < used_) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, used_ - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int reason = n < 0 ? errno : ENOSPC;
      // Cut after the last whole line.
      std::size_t whole = done;
      while (whole > 0 && buffer_[whole - 1] != '\n') --whole;
      if (::ftruncate(fd_, static_cast<off_t>(written_ + whole)) == 0) written_ += whole;
      errno = reason;
      fail("write");
    }
    done += static_cast<std::size_t>(n);
  }
  written_ += used_;
  used_ = 0;
}

void OutputFile::finish() {
  if (fd_ < 0) throw IoError(part_ + ": cannot finish: the file is closed");
  write_buffer();
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail("close");
  if (std::rename(part_.c_str(), path_.c_str()) != 0) fail("rename");
}

void OutputFile::abandon() noexcept {
  if (fd_ < 0) return;
  try {
    write_buffer();
  } catch (const IoError&) {  // closed and cut
    return;
  }
  ::close(std::exchange(fd_, -1));
}

}  // namespace kb
