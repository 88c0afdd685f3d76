// Reads an op log back: records with their commands, as the run's own sinks saw them.
#pragma once

#include <kb/tlm_if/op_log.h>
#include <kb/traces/command_tracker.h>
#include <kb/traces/op_log_writer.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kb {

/// One record after the other, with memory for the commands in flight. Records of one command share one Command,
/// rebuilt from its `command` record; what the log does not carry (Handle::pending, Handle::scope) is 0.
class OpLogReader {
 public:
  /// Throws IoError when the file cannot be opened.
  explicit OpLogReader(const std::string& path);
  ~OpLogReader();
  OpLogReader(const OpLogReader&) = delete;
  OpLogReader& operator=(const OpLogReader&) = delete;

  /// The next record; false at the end. Throws InputError naming file, line and column for what is no record (an
  /// incomplete last line included), and IoError when the file cannot be read.
  bool next(OpRecord& r);

  /// Names of the components seen so far, under their indices; "" where none was seen.
  const ComponentTable& components() const { return components_; }
  std::uint64_t records() const { return records_; }
  std::uint64_t hash() const { return hash_; }
  /// The text of the record read last, without its line feed.
  std::string_view line() const { return line_; }
  /// "FILE:LINE" of the record read last.
  const std::string& where() const { return where_; }

 private:
  bool next_line();
  void parse(OpRecord& r);

  std::string path_;
  int fd_ = -1;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // unread part of the buffer
  bool at_end_ = false;
  std::string_view line_;
  std::string where_;
  std::uint64_t lines_ = 0, records_ = 0;
  std::uint64_t hash_ = kOpLogHashStart;
  ComponentTable components_;
  CommandTracker<CommandPtr> commands_;
};

}  // namespace kb
