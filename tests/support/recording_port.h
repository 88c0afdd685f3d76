// A PE port that keeps the commands of a kernel, for tests of what a kernel issues.
#pragma once

#include <kb/kernels/context.h>
#include <kb/kernels/emit_port.h>

#include <string>
#include <vector>

namespace kb::test {

/// EmitPort that records commands and waits in order.
class RecordingPort : public EmitPort {
 public:
  explicit RecordingPort(const MachineInfo& machine = {}, PeId id = {}) : EmitPort(machine, id) {
    on_issue = [this](const Command& c) { commands.push_back(c); };
  }
  void wait(CommandId id, const char* why) override { waits.push_back({id, why, commands.size()}); }

  struct Wait {
    CommandId id = 0;
    std::string why;
    std::size_t after = 0;  // commands issued before the wait
  };
  std::vector<Command> commands;
  std::vector<Wait> waits;

  /// Kind of each single op, "composite" for composites.
  std::vector<std::string> kinds() const {
    std::vector<std::string> all;
    for (const auto& c : commands) all.push_back(c.kind == CommandKind::composite ? "composite" : c.ops[0].kind);
    return all;
  }
  std::uint64_t bytes() const { return counts().bytes; }
};

/// Runs `f` and returns the message of the error it throws; empty when it throws none.
template <typename F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace kb::test
