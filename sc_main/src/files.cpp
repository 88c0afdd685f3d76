#include "files.h"

#include <kb/tlm_if/errors.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kb::cli {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw IoError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

void sync(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be opened");
  const bool synced = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  if (!synced && error != EINVAL && error != EROFS) fail(path, "cannot be written to disk");
}

}  // namespace

void publish(const std::string& path) {
  sync(path + ".part", O_RDONLY);
  if (std::rename((path + ".part").c_str(), path.c_str()) != 0) fail(path, "cannot be renamed into place");
  const std::string folder = fs::path(path).parent_path().string();
  sync(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
}

void write_atomically(const std::string& path, const std::string& content) {
  const std::string part = path + ".part";
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail(part, "cannot be written");
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t n = write(fd, content.data() + at, content.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      close(fd);
      errno = error;
      fail(part, "cannot be written");
    }
    at += static_cast<std::size_t>(n);
  }
  if (close(fd) != 0) fail(part, "cannot be written");
  publish(path);
}

std::string read_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw IoError(path + ": cannot be read: it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) fail(path, "cannot be read");
  return text.str();
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!fs::is_directory(path)) throw IoError(fmt::format("{}: the folder cannot be made: {}", path, error.message()));
}

ScratchDirectory::ScratchDirectory() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/kernbench-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) fail(path_, "the folder cannot be made");
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace kb::cli
