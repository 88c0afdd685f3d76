// Target side of the base protocol's response exclusion rule: one BEGIN_RESP at a time, the rest wait.
#pragma once

#include <kb/modules/fabric/sockets.h>
#include <kb/tlm_if/units.h>

#include <algorithm>
#include <deque>

namespace kb {

/// `Item` has `tlm::tlm_generic_payload* trans` and `Ps response_at`.
template <typename Item>
class ResponseGate {
 public:
  explicit ResponseGate(BaseTargetSocket& socket) : socket_(socket) {}

  /// True when BEGIN_RESP has gone out; false when the item waits for ended() and next().
  bool offer(Item& item) {
    if (busy_) {
      waiting_.push_back(&item);
      return false;
    }
    send(item);
    return true;
  }
  /// END_RESP has come. True when somebody waits: call next() one delta later.
  bool ended() {
    busy_ = false;
    return !waiting_.empty();
  }
  /// Sends the BEGIN_RESP that has waited longest and returns its item; null when none may go.
  Item* next() {
    if (busy_ || waiting_.empty()) return nullptr;
    Item* item = waiting_.front();
    waiting_.pop_front();
    send(*item);
    return item;
  }
  bool busy() const { return busy_; }
  bool quiet() const { return waiting_.empty() && !busy_; }

 private:
  void send(Item& item) {
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = to_sc_time(std::max<Ps>(0, item.response_at - now_ps()));
    busy_ = true;
    const auto answer = socket_->nb_transport_bw(*item.trans, phase, delay);
    if (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::END_RESP)) busy_ = false;
  }

  BaseTargetSocket& socket_;
  std::deque<Item*> waiting_;
  bool busy_ = false;
};

}  // namespace kb
