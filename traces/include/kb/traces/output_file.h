// A file that is written as NAME.part and gets its name when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kb {

/// Buffered and append-only. A file that could not be finished stays NAME.part, closed; one that did not fit the disk
/// is cut after its last whole line, so that text made of lines stays readable.
class OutputFile {
 public:
  /// Throws IoError naming the path and the system's reason.
  explicit OutputFile(std::string path);
  /// Abandons what has not been finished.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Room for `bytes` at the end of the buffer; valid until the next call. Throws IoError when the buffer has to
  /// be written and cannot be.
  char* room(std::size_t bytes) {
    if (capacity_ - used_ < bytes) make_room(bytes);
    return buffer_.data() + used_;
  }
  /// The text up to `end`, which lies in the room given last, is part of the file.
  void commit(const char* end) { used_ = static_cast<std::size_t>(end - buffer_.data()); }
  void append(std::string_view text);

  /// Writes what is buffered, closes, and gives the file its name. Throws IoError.
  void finish();
  /// Writes what can be written and closes; the file stays NAME.part.
  void abandon() noexcept;

  const std::string& path() const { return path_; }
  /// Bytes appended so far.
  std::uint64_t size() const { return written_ + used_; }

 private:
  void make_room(std::size_t bytes);
  void write_buffer();
  [[noreturn]] void fail(const char* what);

  std::string path_, part_;
  int fd_ = -1;
  std::vector<char> buffer_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace kb
