#include <kb/tlm_if/flit_train.h>

#include <algorithm>

namespace kb {

void FlitTrain::append(Ps arrival) { append_run(arrival, 0, 1); }

void FlitTrain::append_run(Ps first, Ps step, std::uint32_t count) {
  if (count == 0) return;
  flits_ += count;
  if (runs_.size() != 0) {
    Run& last = runs_.back();
    const Ps gap = first - (last.first + last.step * static_cast<Ps>(last.count - 1));
    if (last.count == 1 && (count == 1 || step == gap)) {
      last.step = gap;
      last.count += count;
      return;
    }
    if (last.count > 1 && gap == last.step && (count == 1 || step == gap)) {
      last.count += count;
      return;
    }
  }
  runs_.push_back({first, step, count});
}

void FlitTrain::shift(Ps by) {
  for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i].first += by;
}

void FlitTrain::append_from(const FlitTrain& from, Cursor& at, std::uint32_t count) {
  while (count > 0) {
    const Run& r = from.runs_[at.run];
    const std::uint32_t n = std::min(count, r.count - at.used);
    append_run(r.first + r.step * static_cast<Ps>(at.used), r.step, n);
    count -= n;
    at.used += n;
    if (at.used == r.count && at.run + 1 < from.runs_.size()) {
      ++at.run;
      at.used = 0;
    }
  }
}

Ps FlitTrain::next(Cursor& at) const {
  if (at.used == runs_[at.run].count) {
    ++at.run;
    at.used = 0;
  }
  const Run& r = runs_[at.run];
  return r.first + r.step * static_cast<Ps>(at.used++);
}

FlitTrain FlitTrain::all_at(Ps at, std::uint32_t count) {
  FlitTrain t;
  t.append_run(at, 0, count);
  return t;
}

void FlitTrain::over_link(Ps free, Ps flit, Ps last_flit, Ps prop, FlitTrain& out) const {
  out.clear();
  Ps left = free;  // when the previous flit has left
  std::uint32_t todo = flits_;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Run& r = runs_[i];
    const bool ends_here = todo == r.count;
    std::uint32_t n = ends_here ? r.count - 1 : r.count;  // flits of ordinary length in this run
    todo -= r.count;
    Ps first = r.first;
    while (n > 0) {
      if (left <= first || r.step <= flit) {
        // Either the link waits for this flit, or it is the bottleneck from here on.
        const Ps start = std::max(left, first);
        const Ps step = start == first ? std::max(flit, r.step) : flit;
        out.append_run(start + flit + prop, step, n);
        left = start + flit + step * static_cast<Ps>(n - 1);
        first += r.step * static_cast<Ps>(n);
        n = 0;
      } else {
        // The link works off a backlog although the train is slower than the link: it catches up after
        // ceil((left - first) / (step - flit)) flits.
        const Ps behind = left - first;
        const Ps gain = r.step - flit;
        const auto catch_up = static_cast<std::uint32_t>(std::min<Ps>((behind + gain - 1) / gain, n));
        out.append_run(left + flit + prop, flit, catch_up);
        left += flit * static_cast<Ps>(catch_up);
        first += r.step * static_cast<Ps>(catch_up);
        n -= catch_up;
      }
    }
    if (ends_here) {
      const Ps arrival = r.first + r.step * static_cast<Ps>(r.count - 1);
      left = std::max(left, arrival) + last_flit;
      out.append(left + prop);
    }
  }
}

}  // namespace kb
