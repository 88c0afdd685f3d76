// Where the time of each memory transaction went, place by place, as it was simulated.
#pragma once

#include <kb/modules/fabric/context.h>
#include <kb/tlm_if/route.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kb {

/// One part of the way of a transaction.
struct TransferPart {
  /// source (a write waits for its last flit), request, data, memory (to the last flit's departure, or to the
  /// response), response
  const char* stage = "";
  std::uint32_t node = 0;    // the component, topology number
  const Hop* hop = nullptr;  // the link behind it; null: none
  Ps fixed = 0;              // overhead and propagation; the rest is transmission and waiting
};

/// The parts of a transaction from `forth.from` to `forth.to` and back, in the order in which it meets them.
std::vector<TransferPart> transfer_parts(const Route& forth, bool write);

/// A finished transaction. For data a part ends when the message's last flit is at the next place, so that the parts
/// add up to end - begin.
struct TransferTimes {
  const Route* forth = nullptr;
  bool write = false;
  std::uint64_t bytes = 0;
  Ps begin = 0;  // the request, or a write's first flit, is at the source
  Ps end = 0;    // the response, or a read's last flit, is back
  Ps alone = 0;  // time of the same transaction on an idle machine
  std::vector<Ps> parts;
};

/// Puts the messages of each transaction together. Memory is that of the transactions in flight.
class TransferSplitter final : public MessageObserver {
 public:
  /// `finished` is called for every transaction when its response arrives.
  explicit TransferSplitter(std::function<void(const TransferTimes&)> finished) : finished_(std::move(finished)) {}

  void message_arrived(const Message& message) override;

 private:
  std::function<void(const TransferTimes&)> finished_;
  std::unordered_map<std::uint64_t, Message> requests_;  // by context; looked up only
  TransferTimes times_;
};

}  // namespace kb
