#include <kb/traces/op_sorter.h>

#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <string>
#include <utility>

namespace kb {

namespace {
// Records between two looks at the clock. Sorting in batches touches memory in order, which a heap does not.
constexpr std::size_t kBatch = 4096;
}  // namespace

void OpSorter::add_sink(OpSink& sink) {
  sinks_.push_back(&sink);
}

void OpSorter::remove_sink(OpSink& sink) {
  sinks_.erase(std::remove(sinks_.begin(), sinks_.end(), &sink), sinks_.end());
}

void OpSorter::emit(OpRecord&& r) {
  if (r.t_end < passed_)
    throw ModelError("op log: found a record of component " + std::to_string(r.component) + " (" + name_of(r.name) +
                     " #" + std::to_string(r.number) + ") that ends at " + std::to_string(r.t_end) +
                     " ps; allowed: not before " + std::to_string(passed_) + " ps, up to which the log is complete");
  std::uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(records_.size());
    records_.push_back(std::move(r));
  } else {
    slot = free_.back();
    free_.pop_back();
    records_[slot] = std::move(r);
  }
  const OpRecord& kept = records_[slot];
  held_.push_back({kept.t_end, (static_cast<std::uint64_t>(kept.kind) << 32) | kept.component, kept.number, slot});
  if (clock_ == Clock::simulation && held_.size() >= std::max(due_, kBatch)) {
    advance(now_ps());
    due_ = held_.size() + kBatch;
  }
}

void OpSorter::advance(Ps now) {
  const auto end = std::partition(held_.begin(), held_.end(), [now](const Key& k) { return k.t_end < now; });
  passed_ = std::max(passed_, now);
  deliver(static_cast<std::size_t>(end - held_.begin()));
}

void OpSorter::drain() {
  deliver(held_.size());
}

void OpSorter::flush(Ps now) {
  const bool commands = std::any_of(held_.begin(), held_.end(), [this, now](const Key& k) {
    return k.t_end == now && records_[k.slot].command != nullptr;
  });
  const auto end = std::partition(held_.begin(), held_.end(), [now, commands](const Key& k) {
    return k.t_end < now || (commands && k.t_end == now);
  });
  if (now != kNever) passed_ = std::max(passed_, now);
  deliver(static_cast<std::size_t>(end - held_.begin()));
  for (OpSink* sink : sinks_) sink->flush();
}

/// Delivers the first `count` of held_. Each record is taken out before its sinks see it, so that a sink that
/// throws leaves nothing to be delivered twice.
void OpSorter::deliver(std::size_t count) {
  std::sort(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
  struct Cut {
    OpSorter& sorter;
    std::size_t done = 0;
    ~Cut() { sorter.held_.erase(sorter.held_.begin(), sorter.held_.begin() + static_cast<std::ptrdiff_t>(done)); }
  } cut{*this};
  while (cut.done < count) {
    const std::uint32_t slot = held_[cut.done++].slot;
    OpRecord& r = records_[slot];
    struct Recycle {
      OpSorter& sorter;
      std::uint32_t slot;
      ~Recycle() {
        sorter.records_[slot].command.reset();
        sorter.free_.push_back(slot);
      }
    } recycle{*this, slot};
    passed_ = std::max(passed_, r.t_end);
    ++delivered_;
    for (OpSink* sink : sinks_) sink->record(r);
  }
}

}  // namespace kb
