// The folder of a sweep: what is to be run, one record per finished point, and the tables made of them.
#pragma once

#include <kb/platform/sweep.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kb::cli {

/// What became of a point.
struct PointRecord {
  std::size_t index = 0;
  std::string identity;            // of everything that its result depends on
  int code = 0;                    // of the run (spec 7.1); 128 + signal where it was killed
  bool settled = true;             // false: running it again can end otherwise (killed, I/O)
  std::string error;               // what the run wrote to its error stream; empty where it is done
  nlohmann::ordered_json summary;  // null where there is none

  /// done, wrong_result, bad_input, model_error, io_error, killed
  std::string status() const;
  /// Whether it ran to its end, so that its numbers mean something.
  bool has_result() const { return code == 0 || code == 1; }
};

/// DIR/sweep.json (all points), DIR/topology.yaml (the machine without the swept keys), DIR/points/NNNNNN.json.
/// A record is renamed into place when it is on disk, so that a kill loses at most what was running.
class SweepStore {
 public:
  /// Makes the folder, or takes over one that is there when `resume`. Throws InputError when a sweep is there and
  /// `resume` is not set, IoError, and InputError when another process works in it.
  static SweepStore create(const std::string& dir, const SweepSpec& spec, bool resume);
  /// Of a sweep that was created before. `exclusive` as create does.
  static SweepStore open(const std::string& dir, bool exclusive);
  ~SweepStore();
  SweepStore(SweepStore&& other) noexcept;
  SweepStore& operator=(SweepStore&&) = delete;

  const std::string& dir() const { return dir_; }
  const SweepSpec& spec() const { return spec_; }
  std::size_t size() const { return spec_.points.size(); }

  /// Arguments of `kernbench run` for a point, to be run in dir().
  std::vector<std::string> run_arguments(std::size_t index) const;
  std::string identity(std::size_t index) const;
  /// The point's record if it is there, readable and of this sweep.
  std::optional<PointRecord> load(std::size_t index) const;
  void save(const PointRecord& record) const;

  /// Writes results.csv and results.sqlite: one row per point, by index, the same bytes whenever the same points have
  /// the same results. Wall times, process statistics and versions are left out.
  void write_results() const;

 private:
  SweepStore(std::string dir, SweepSpec spec) : dir_(std::move(dir)), spec_(std::move(spec)) {}
  void lock();
  std::string record_path(std::size_t index) const;

  std::string dir_;
  SweepSpec spec_;
  std::string machine_;  // content of topology.yaml
  int lock_ = -1;
};

/// The scalars of a summary under dotted names, in its order, without what changes from run to run.
std::vector<std::pair<std::string, nlohmann::ordered_json>> flat_metrics(const nlohmann::ordered_json& summary);

}  // namespace kb::cli
