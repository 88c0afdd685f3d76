// The op log as a file of JSON lines (spec 7.2).
#pragma once

#include <kb/tlm_if/op_log.h>
#include <kb/traces/output_file.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kb {

/// Hash of an op log's text, line after line: FNV-1a over the little-endian 8-byte words of each line (the line
/// feed included), the last word filled with zeros. Any change of one line changes it.
inline constexpr std::uint64_t kOpLogHashStart = 14695981039346656037ull;
std::uint64_t op_log_hash(std::uint64_t hash, const char* line, std::size_t size);

/// A command as one JSON object, as the `command` record carries it:
///   {"kind", "id", "ops": [{"kind", "scope", "operands": {name: handle}, "extra": {name: number}, "out": handle,
///    "trans_a", "trans_b"}], "rw_handles": [handle], "direction", "split", "consume"}
///   handle: {"id", "shape", "strides", "dtype", "space", "addr", "pinned"}
/// Absent where they say nothing: strides of dense tensors, transposition bits that are off, lists that are
/// empty, queue fields of other commands.
std::string command_json(const Command& command);

/// Writes one line per record:
///   {"t_start_ns":..,"t_end_ns":..,"component":"..","op_kind":"..","op_name":"..","command":N|null,
///    "tile":[m,n,k]|null,"params":{..}}
/// `command` is the number of the command in its PE; a tile coordinate that has no meaning is -1. `params` starts with
/// the place of the record in the order of ties (component's index, number among the component's own) and the rank
/// of the PE, and goes on with what says something about this operation, in a fixed order. The `command` record
/// carries the command itself. Times are printed from integer picoseconds.
class OpLogWriter : public OpSink {
 public:
  /// Throws IoError. `components` must outlive the writer; it may still grow.
  OpLogWriter(const std::string& path, const ComponentTable& components);

  void record(const OpRecord& r) override;

  /// Gives the file its name. Throws IoError.
  void finish() { file_.finish(); }
  /// Closes it as NAME.part.
  void abandon() noexcept { file_.abandon(); }

  std::uint64_t records() const { return records_; }
  /// Of all lines so far; OpLogReader computes the same.
  std::uint64_t hash() const { return hash_; }

 private:
  const std::string& component(std::uint32_t index);

  OutputFile file_;
  const ComponentTable& components_;
  std::vector<std::string> names_;  // `,"component":"NAME","op_kind":"`
  std::uint64_t records_ = 0;
  std::uint64_t hash_ = kOpLogHashStart;
};

}  // namespace kb
