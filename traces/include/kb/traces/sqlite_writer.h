// The run as an SQLite database, for questions that nobody has asked yet.
#pragma once

#include <kb/tlm_if/op_log.h>
#include <kb/traces/trace_filter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// Tables (times are integer picoseconds; what does not apply is NULL):
///   meta        key, value: schema_version
///   config      key, value: the effective configuration, as set_config() was given it
///   components  id, name: in topology order
///   op_names    id, name, kind: memory, gemm, math, ipcq or control
///   commands    id, pe, number (of the command in its PE), kind, ops, logical_bytes, block_m, block_n, m_outer,
///               plan_bytes, accepted_ps, done_ps, spec (the command as JSON, as in op_log.jsonl)
///   events      id (in the order of the op log), t_start_ps, t_end_ps, work (works.id), number, command (commands.id),
///               tile_m, tile_n, tile_k, address, ready_ps, message
///   works       what records have in common: id, component, op_name, pe, op (index into the command's ops), label (of
///               math: "exp_diff"; else NULL), role (a, b, out), bytes, m, k, n, elements, path_ps, peer, arrives
///   paths       id, op (read, write), origin, target: ways of memory transactions
///   path_parts  path, part (from 0), stage, component, link, gb_per_s, fixed_ps (overhead and propagation)
///   transfers   id, path, bytes, begin_ps, end_ps, alone_ps (on an idle machine), parts_ps (JSON: the time of each
///               part; they add up to end_ps - begin_ps)
/// Views, each the answer to a question:
///   records          events with their works: one row per record of the op log, all columns
///   log              the records with names in place of numbers, times in ns
///   engine_use       per component and operation: how often, busy time, share of the run, mean wait, bytes
///   slowest_commands accepted to done, longest first
///   command_time     per command and operation: summed time, first start, last end
///   contention       operations that took longer than their path alone, by component
///   transfer_parts   the parts of each transfer, a row each
///   hop_latency      per path and part: transfers, mean, least, largest time; the means add up to the mean latency
///   slowest_transfers memory transactions by what they took longer than alone
///   queue_occupancy  slots in use per receiving PE and direction, after each change
/// Indexes (events by command, commands by PE) are built when the database is finished.
///
/// docs/trace-database.md has them with queries to start from. Rows go in by prepared statements, committed in batches:
/// after an error the rows of finished batches stay.
class SqliteWriter : public OpSink {
 public:
  /// Throws IoError. `components` must outlive the writer. Scope and window choose the records; commands are
  /// always all there.
  SqliteWriter(const std::string& path, const ComponentTable& components, TraceFilter filter = {});
  ~SqliteWriter() override;

  /// The effective configuration as keys and values.
  void set_config(const std::vector<std::pair<std::string, std::string>>& items);
  void record(const OpRecord& r) override;

  /// The way of memory transactions, part by part as they meet it.
  struct PathPart {
    std::string stage, component;
    std::string link;  // empty: none
    double gb_per_s = 0;
    Ps fixed = 0;
  };
  struct Path {
    bool write = false;
    std::string origin, target;
    std::vector<PathPart> parts;
  };
  /// Returns its number, for transfer(); 0 when the scope covers neither end.
  std::uint32_t add_path(const Path& path);
  /// A finished memory transaction with the time of each part of its path.
  void transfer(std::uint32_t path, std::uint64_t bytes, Ps begin, Ps end, Ps alone, const std::vector<Ps>& parts);

  /// Builds the indexes, closes, and gives the file its name. Throws IoError.
  void finish();
  /// Commits what there is and closes; the file stays NAME.part.
  void abandon() noexcept;

  std::uint64_t records() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kb
