#include "experiment.h"

#include "progress.h"

#include <fmt/format.h>
#include <algorithm>

namespace kb::cli {

using Json = nlohmann::ordered_json;

Trial Trial::with(const std::string& key, const std::string& value) const {
  Trial t = *this;
  for (auto& s : t.settings)
    if (s.first == key) {
      s.second = value;
      return t;
    }
  t.settings.emplace_back(key, value);
  return t;
}

std::string Trial::text() const {
  std::string text = bench;
  for (const auto& [key, value] : settings)
    text += (key.rfind("bench.", 0) == 0 ? " " + key.substr(6) : ", " + key) + " " + value;
  return text;
}

Json at_path(const Json& object, const std::string& path) {
  const Json* at = &object;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
    begin = end + 1;
  }
  return *at;
}

double TrialResult::number(const std::string& path) const {
  const Json value = at_path(summary, path);
  return value.is_number() ? value.get<double>() : 0;
}

Experiment::Experiment(std::string program, const SystemConfig& machine, std::size_t jobs)
    : program_(std::move(program)), machine_(dump_config(machine)), jobs_(jobs) {
  write_atomically(scratch_ / "machine.yaml", machine_);
}

std::size_t Experiment::add(const Trial& trial) {
  std::string key = trial.bench + '\0' + trial.mode + '\0' + trial.traces + '\0' + trial.machine + '\0' +
                    std::to_string(trial.seed) + (trial.log ? "+" : "-");
  for (const auto& [name, value] : trial.settings) key += '\0' + name + '=' + value;
  // Runs that keep their files are asked for one by one: two of them are compared with each other.
  if (!trial.log)
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
  trials_.push_back(trial);
  known_[key] = trials_.size() - 1;
  return trials_.size() - 1;
}

void Experiment::run(const std::string& what) {
  const std::size_t first = results_.size();
  results_.resize(trials_.size());
  std::vector<Job> jobs;
  for (std::size_t i = first; i < trials_.size(); ++i) {
    const Trial& t = trials_[i];
    std::string machine = "machine.yaml";
    if (!t.machine.empty()) {
      machine = fmt::format("machine{}.yaml", i);
      write_atomically(scratch_ / machine, t.machine);
    }
    Job job;
    job.directory = scratch_.path();
    job.argv = {program_, "run",    "--topology",           machine, "--bench", t.bench, "--mode",
                t.mode,   "--seed", std::to_string(t.seed), "--json"};
    for (const auto& [key, value] : t.settings) job.argv.insert(job.argv.end(), {"--set", key + "=" + value});
    if (t.log) {
      results_[i].dir = scratch_ / fmt::format("run{}", i);
      job.argv.insert(job.argv.end(), {"--out", results_[i].dir});
      if (!t.traces.empty()) job.argv.insert(job.argv.end(), {"--trace", t.traces});
    } else {
      job.argv.insert(job.argv.end(), {"--log", "off"});
    }
    jobs.push_back(std::move(job));
  }
  CountedProgress line(what, jobs.size());
  WorkerPool pool(jobs_);
  const auto done = pool.run_all(jobs, [&](const WorkerPool::State& s) { line.show(s.finished, 0); });
  line.clear();
  for (std::size_t i = 0; i < done.size(); ++i) {
    TrialResult& r = results_[first + i];
    r.code = done[i].code;
    r.summary = Json::parse(done[i].out.substr(std::min(done[i].out.find('{'), done[i].out.size())), nullptr, false);
    if (!r.summary.is_object()) r.summary = nullptr;
    r.error = done[i].err;
    while (!r.error.empty() && r.error.back() == '\n') r.error.pop_back();
    if (r.error.rfind("kernbench: ", 0) == 0) r.error.erase(0, 11);
  }
}

}  // namespace kb::cli
