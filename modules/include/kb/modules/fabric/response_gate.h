// Target side of the base protocol's response exclusion rule: one BEGIN_RESP at a time, the rest wait.
#pragma once

#include <kb/modules/fabric/sockets.h>
#include <kb/tlm_if/units.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kb {

/// `Item` has `tlm::tlm_generic_payload* trans`, `Ps response_at` and `std::uint64_t number`.
///
/// An initiator that ends every response in the call (TLM_COMPLETED, as ours do) gets each one at once. As soon as
/// one has answered TLM_ACCEPTED, responses wait for a decision one delta later, in the order (time, number), so that
/// it does not matter which of two processes came first. A response phase that its initiator annotates with a time ends
/// then: the next BEGIN_RESP is not for an earlier one.
template <typename Item>
class ResponseGate {
 public:
  /// `decide_always`: from the first response on.
  ResponseGate(BaseTargetSocket& socket, bool decide_always) : socket_(socket), decide_(decide_always) {}

  /// True when BEGIN_RESP has gone out; false when the item waits for next().
  bool offer(Item& item) {
    if (!decide_ && waiting_.empty()) {
      send(item);
      return true;
    }
    waiting_.push_back({&item, sc_core::sc_delta_count()});
    return false;
  }
  /// END_RESP has come, effective at `at`.
  void ended(Ps at) {
    busy_ = false;
    free_ = std::max(free_, at);
  }
  /// A BEGIN_RESP that has gone out, and how it was answered.
  struct Sent {
    Item* item = nullptr;
    bool ended = false;  // in the call, effective after `delay`
    sc_core::sc_time delay;
    explicit operator bool() const { return item != nullptr; }
  };
  /// Sends the BEGIN_RESP whose turn it is; nothing when none may go in this delta.
  Sent next() {
    if (busy_) return {};
    const std::uint64_t delta = sc_core::sc_delta_count();
    std::size_t best = waiting_.size();
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i].delta == delta) continue;
      const Item& a = *waiting_[i].item;
      if (best == waiting_.size() || a.response_at < waiting_[best].item->response_at ||
          (a.response_at == waiting_[best].item->response_at && a.number < waiting_[best].item->number))
        best = i;
    }
    if (best == waiting_.size()) return {};
    Item* item = waiting_[best].item;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(best));
    return send(*item);
  }
  /// Somebody waits who may go in a later delta.
  bool ready() const { return !busy_ && !waiting_.empty(); }
  bool quiet() const { return waiting_.empty() && !busy_; }

 private:
  struct Waiting {
    Item* item;
    std::uint64_t delta;
  };
  Sent send(Item& item) {
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = until(std::max(item.response_at, free_));
    const sc_core::sc_time begins = delay;
    busy_ = true;
    const auto answer = socket_->nb_transport_bw(*item.trans, phase, delay);
    if (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::END_RESP)) {
      busy_ = false;
      if (delay > begins) free_ = after(delay);
    } else {
      decide_ = true;
    }
    return {&item, !busy_, delay};
  }

  BaseTargetSocket& socket_;
  std::vector<Waiting> waiting_;
  bool decide_;
  bool busy_ = false;
  Ps free_ = 0;  // end of the last response phase, where its initiator gave one
};

}  // namespace kb
