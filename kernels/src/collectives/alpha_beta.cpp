#include <kb/kernels/collectives/plan.h>

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>

namespace kb::collectives {

namespace {

/// When something is there, and how many messages it took.
struct Ready {
  double ns = 0;
  std::uint32_t chain = 0;
};

Ready later(const Ready& a, const Ready& b) {
  return {std::max(a.ns, b.ns), std::max(a.chain, b.chain)};
}

/// When the pieces of one rank's vector had their present value. Spans of different cuts may overlap.
class Values {
 public:
  void set(const Span& span, const Ready& ready) {
    longest_ = std::max(longest_, span.count);
    pieces_[span.begin] = {span, ready};
  }
  Ready of(const Span& span) const {
    Ready all;
    for (auto it = pieces_.lower_bound(span.begin - longest_);
         it != pieces_.end() && it->first <= span.begin + span.count; ++it)
      if (it->second.first == span || it->second.first.overlaps(span)) all = later(all, it->second.second);
    return all;
  }

 private:
  std::map<std::int64_t, std::pair<Span, Ready>> pieces_;
  std::int64_t longest_ = 0;
};

struct Message {
  std::int64_t count = 0;
  Ready arrives;
};

struct Queue {
  std::deque<Message> messages;
  double free_ns = 0;  // the last message has left
};

struct Rank {
  Moves moves;
  std::size_t next = 0;
  Values values;
};

}  // namespace

AlphaBeta alpha_beta(const MachineInfo& machine, const Plan& plan) {
  Command send;
  send.kind = CommandKind::ipcq_send;
  OpSpec op;
  op.kind = "ipcq_send";
  op.operands = {{"src", {}}};
  send.ops = {op};
  const double dispatch_ns = machine.cost_model.cycles(send) / machine.clock_ghz;

  AlphaBeta result;
  result.alpha_ns = dispatch_ns + machine.dma_overhead_ns;
  result.beta_gbs = machine.pe_dma_bw_gbs;
  const double element_ns = size_of(plan.spec().dtype) / result.beta_gbs;

  using End = std::pair<std::uint32_t, Direction>;
  std::map<End, End> far_end;
  for (const QueueRoute& q : plan.queues().routes()) far_end[{q.from, q.direction}] = {q.to, q.arrives_as};
  std::map<End, Queue> queues;  // by receiver
  std::map<std::uint32_t, Rank> ranks;
  for (const std::uint32_t rank : plan.participants()) {
    Rank& r = ranks[rank];
    r.moves = plan.moves(rank);
    const MoveCounts c = count(r.moves);
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(std::max(c.elements_sent, c.elements_received)) * size_of(plan.spec().dtype);
    result.messages = std::max(result.messages, c.sends);
    result.bytes_per_rank = std::max(result.bytes_per_rank, bytes);
    result.bytes_total += static_cast<std::uint64_t>(c.elements_sent) * size_of(plan.spec().dtype);
  }
  if (result.messages > 0) result.bound_ns = dispatch_ns;
  if (result.bytes_per_rank > 0)
    result.bound_ns = result.alpha_ns + static_cast<double>(result.bytes_per_rank) / result.beta_gbs;

  // Each rank goes as far as messages let it; times do not depend on the order in which ranks are looked at.
  bool moved = true;
  while (moved) {
    moved = false;
    for (auto& [rank, r] : ranks)
      for (; r.next < r.moves.size(); ++r.next, moved = true) {
        const Move& m = r.moves[r.next];
        if (m.kind == Move::Kind::send) {
          Queue& queue = queues[far_end.at({rank, m.direction})];
          const Ready value = r.values.of(m.span);
          const double start = std::max(value.ns + (m.span.count > 0 ? result.alpha_ns : dispatch_ns), queue.free_ns);
          const Ready arrives{start + static_cast<double>(m.span.count) * element_ns, value.chain + 1};
          queue.free_ns = arrives.ns;
          queue.messages.push_back({m.span.count, arrives});
          result.bound_ns = std::max(result.bound_ns, arrives.ns);
          result.chain = std::max(result.chain, arrives.chain);
        } else {
          Queue& queue = queues[{rank, m.direction}];
          if (queue.messages.empty()) break;
          const Message message = queue.messages.front();
          queue.messages.pop_front();
          if (message.count != m.span.count)
            throw std::logic_error("collective plan: rank " + std::to_string(rank) + " expects " +
                                   std::to_string(m.span.count) + " elements where " + std::to_string(message.count) +
                                   " are sent");
          r.values.set(m.span,
                       m.kind == Move::Kind::add ? later(message.arrives, r.values.of(m.span)) : message.arrives);
        }
      }
  }
  for (const auto& [rank, r] : ranks)
    if (r.next < r.moves.size())
      throw std::logic_error("collective plan: rank " + std::to_string(rank) +
                             " waits for a message that nobody sends");
  for (const auto& [end, queue] : queues)
    if (!queue.messages.empty())
      throw std::logic_error("collective plan: a message to rank " + std::to_string(end.first) + " is never received");
  return result;
}

}  // namespace kb::collectives
