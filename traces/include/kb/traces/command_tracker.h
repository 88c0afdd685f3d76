// Which commands of a record stream are in flight, with what an observer keeps about each.
#pragma once

#include <kb/tlm_if/op_log.h>

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kb {

/// Commands are known from their `command` record on, until some more of their PE have finished after them (late
/// records, such as responses and credits, still find theirs). Queue commands have finished when their value has
/// moved too, which may be long after the scheduler let them go. Memory is that of the commands in flight.
template <typename T>
class CommandTracker {
 public:
  static constexpr std::uint32_t kMaxPes = 1u << 24;
  static constexpr CommandId kMaxId = CommandId{1} << 40;

  /// Null when the command is not known. Valid until the next call of track().
  T* find(std::uint32_t pe, CommandId id) {
    const auto found = known_.find(key_of(pe, id));
    return found == known_.end() ? nullptr : &found->second.value;
  }

  /// A command is accepted; its number may be that of a finished one (of an earlier launch).
  void add(std::uint32_t pe, const CommandPtr& command, T value) {
    known_[key_of(pe, command->id)] = Known{command, std::move(value), false, !is_queue(command->kind)};
  }

  /// Sees every other record.
  void track(const OpRecord& r) {
    if (!r.command || (r.name != OpName::command_done && r.name != OpName::send && r.name != OpName::recv)) return;
    const auto found = known_.find(key_of(r.pe, r.command->id));
    if (found == known_.end()) return;
    Known& known = found->second;
    const bool was = known.done && known.moved;
    (r.name == OpName::command_done ? known.done : known.moved) = true;
    if (was || !known.done || !known.moved) return;
    if (finished_.size() <= r.pe) finished_.resize(r.pe + 1);
    auto& queue = finished_[r.pe];
    queue.push_back(known.command);
    if (queue.size() <= kKept) return;
    const auto oldest = known_.find(key_of(r.pe, queue.front()->id));
    if (oldest != known_.end() && oldest->second.command == queue.front()) known_.erase(oldest);
    queue.pop_front();
  }

  /// `visit(pe, command, value)` for all that are known, in no order.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (auto& [key, known] : known_) visit(static_cast<std::uint32_t>(key >> 40), known.command, known.value);
  }

  std::size_t size() const { return known_.size(); }

 private:
  static constexpr std::size_t kKept = 256;  // finished commands of a PE

  struct Known {
    CommandPtr command;
    T value;
    bool done = false, moved = false;
  };
  static std::uint64_t key_of(std::uint32_t pe, CommandId id) { return (static_cast<std::uint64_t>(pe) << 40) | id; }

  std::unordered_map<std::uint64_t, Known> known_;  // by PE and number; in no order that matters
  std::vector<std::deque<CommandPtr>> finished_;    // per PE, oldest first
};

}  // namespace kb
