#include <kb/kernels/collectives/run.h>
#include <kb/tlm_if/units.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

namespace kb::collectives {

namespace {

using Kind = Move::Kind;
using tl::Handle;

class Runner {
 public:
  Runner(tl::Context& tl, const Vector& x, const Moves& moves, const RunOptions& options)
      : tl_(tl), x_(x), moves_(moves), options_(options) {
    allocate_buffers();
  }

  void run() {
    for (at_ = 0; at_ < moves_.size(); ++at_) {
      const Move& m = moves_[at_];
      if (staged_ && staged_->span != m.span) unstage();
      if (m.kind == Kind::send) {
        if (empty_ && empty_->span == m.span) tl_.wait(empty_->incoming);  // an empty message orders the steps too
        const Handle value = value_of(m.span);
        tl_.send(m.direction, value, value.bytes() > tl_.machine().ipcq_slot_bytes);
        continue;
      }
      post();
      const Pending pending = pending_.front();
      pending_.pop_front();
      last_[static_cast<std::size_t>(m.direction)] = pending.incoming;
      empty_.reset();
      if (m.span.count == 0) {
        empty_ = Empty{m.span, pending.incoming};
        if (m.kind == Kind::add) tl_.wait(pending.incoming);
      } else if (m.kind == Kind::receive) {
        take(m, pending);
      } else {
        add(m, pending);
      }
    }
    if (staged_) unstage();
    // Messages into the vector that no later move has looked at. Each queue delivers in order.
    for (const Handle& h : last_)
      if (h.valid()) tl_.wait(h);
  }

 private:
  static constexpr std::size_t kPostsPerMove = 2;  // so that the first message is not held up by dispatch

  /// A buffer of scratch by its index; none where the data lies in the vector itself.
  using Buffer = std::optional<std::size_t>;
  /// A message that has been asked for, and the rank's own value of its span where that has to be loaded.
  struct Pending {
    Handle incoming;
    Buffer incoming_buffer;
    Handle own;
    Buffer own_buffer;
  };
  /// HBM: the piece that is in scratch now.
  struct Staged {
    Span span;
    Handle value;
    Buffer buffer;
    bool dirty = false;  // to be stored
  };

  /// The message of no elements that came last.
  struct Empty {
    Span span;
    Handle incoming;
  };

  void allocate_buffers() {
    std::int64_t longest = 0;
    for (const Move& m : moves_)
      if (m.kind == Kind::add || !x_.in_tcm()) longest = std::max(longest, m.span.count);
    if (longest == 0) return;
    const std::uint64_t bytes = x_.bytes({0, longest});
    const std::uint64_t aligned = ceil_div(bytes, tl::ScratchArena::kAlignment) * tl::ScratchArena::kAlignment;
    const std::uint64_t fit = (tl_.scratch().capacity() - tl_.scratch().in_use()) / aligned;
    const std::uint64_t least = x_.in_tcm() ? 1 : 2;
    const std::uint64_t many = std::max(least, std::min<std::uint64_t>(fit, options_.buffers));
    for (std::size_t i = 0; i < many; ++i) {
      buffers_.push_back(tl_.empty(Shape{longest}, x_.dtype()));
      free_.push_back(i);
    }
  }

  Buffer take_buffer() {
    const std::size_t i = free_.front();  // the one that has been free for longest
    free_.pop_front();
    return i;
  }
  void give_back(Buffer buffer) {
    if (buffer) free_.push_back(*buffer);
  }
  Handle view(Buffer buffer, const Span& span) const { return head_of(buffers_[*buffer], Shape{span.count}); }

  // ---- receives, ahead of their use ----------------------------------------------------------------------------

  void post() {
    next_ = std::max(next_, at_);
    std::size_t posts = 0;
    for (; next_ < moves_.size(); ++next_) {
      if (moves_[next_].kind == Kind::send) continue;
      // The move itself finds nothing pending and so enough buffers.
      if (next_ != at_ && (pending_.size() >= options_.ahead || posts >= kPostsPerMove || !may_post(next_))) return;
      pending_.push_back(post(moves_[next_], loads(next_)));
      ++posts;
    }
  }

  /// Whether an add has to load the rank's own value, which the moves before it have not left in scratch.
  bool loads(std::size_t i) const {
    return !x_.in_tcm() && moves_[i].kind == Kind::add && moves_[i].span.count > 0 &&
           (i == 0 || moves_[i - 1].span != moves_[i].span);
  }

  bool may_post(std::size_t i) const {
    const Move& m = moves_[i];
    if (m.span.count == 0) return true;
    const bool in_place = x_.in_tcm() && m.kind == Kind::receive;
    const bool load = loads(i);
    const std::size_t reserve = x_.in_tcm() ? 0 : 1;  // for a span that is sent before it
    if (free_.size() < (in_place ? 0u : 1u) + (load ? 1u : 0u) + reserve) return false;
    // A message into the vector must not overtake moves that still use the old value, nor a load those that
    // still write it.
    if (!in_place && !load) return true;
    if (staged_ && staged_->dirty && staged_->span.overlaps(m.span)) return false;
    for (std::size_t k = at_; k < i; ++k)
      if (moves_[k].span.overlaps(m.span) && (in_place || moves_[k].kind != Kind::send)) return false;
    return true;
  }

  Pending post(const Move& m, bool load) {
    Pending p;
    const Shape shape{m.span.count};
    if (m.span.count == 0) {
      p.incoming = tl_.recv_async(m.direction, shape, x_.dtype());
      return p;
    }
    if (x_.in_tcm() && m.kind == Kind::receive) {
      p.incoming = tl_.recv_async(m.direction, shape, x_.dtype(), into(x_.part(m.span)));
      return p;
    }
    p.incoming_buffer = take_buffer();
    p.incoming = tl_.recv_async(m.direction, shape, x_.dtype(), into(view(p.incoming_buffer, m.span)));
    if (load) {
      p.own_buffer = take_buffer();
      p.own = tl_.load(x_.address(m.span), shape, x_.dtype(), into(view(p.own_buffer, m.span)));
    }
    return p;
  }

  // ---- their use -----------------------------------------------------------------------------------------------

  void take(const Move& m, const Pending& pending) {
    if (x_.in_tcm()) return;
    if (staged_) give_back(staged_->buffer);  // replaced before anyone needed it
    staged_ = Staged{m.span, pending.incoming, pending.incoming_buffer, m.keep};
  }

  void add(const Move& m, const Pending& pending) {
    if (x_.in_tcm()) {
      const Handle own = x_.part(m.span);
      tl_.add(own, pending.incoming, into(own));
    } else {
      if (!staged_) staged_ = Staged{m.span, pending.own, pending.own_buffer, false};
      tl_.add(staged_->value, pending.incoming, into(staged_->value));
      staged_->dirty = m.keep;
    }
    give_back(pending.incoming_buffer);
  }

  Handle value_of(const Span& span) {
    if (x_.in_tcm() || span.count == 0) return x_.in_tcm() ? x_.part(span) : tl_.empty(Shape{0}, x_.dtype());
    if (!staged_) {
      Staged s{span, {}, take_buffer(), false};
      s.value = tl_.load(x_.address(span), Shape{span.count}, x_.dtype(), into(view(s.buffer, span)));
      staged_ = s;
    }
    return staged_->value;
  }

  void unstage() {
    if (staged_->dirty) tl_.store(x_.address(staged_->span), staged_->value);
    give_back(staged_->buffer);
    staged_.reset();
  }

  tl::Context& tl_;
  const Vector& x_;
  const Moves& moves_;
  const RunOptions options_;
  std::vector<Handle> buffers_;
  std::deque<std::size_t> free_;
  std::deque<Pending> pending_;
  std::optional<Staged> staged_;
  std::optional<Empty> empty_;
  std::array<Handle, kDirections> last_;  // received from each direction
  std::size_t at_ = 0;                    // the move that is being carried out
  std::size_t next_ = 0;                  // the first that has not been looked at for posting
};

}  // namespace

std::int64_t piece_elements(std::uint64_t chunk_bytes, DType dtype) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes / size_of(dtype)));
}

void run(tl::Context& tl, const Vector& x, const Moves& moves, const RunOptions& options) {
  const tl::ScratchScope scope = tl.scratch_scope("collective");
  Runner(tl, x, moves, options).run();
}

void ring_all_reduce(tl::Context& tl, const RingPlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::ring_all_reduce(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void ring_reduce_scatter(tl::Context& tl, const RingPlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::ring_reduce_scatter(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void ring_all_gather(tl::Context& tl, const RingPlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::ring_all_gather(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void ring_reduce(tl::Context& tl, const RingPlace& place, std::uint32_t root, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::ring_reduce(place, root, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void ring_broadcast(tl::Context& tl, const RingPlace& place, std::uint32_t root, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::ring_broadcast(place, root, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void tree_all_reduce(tl::Context& tl, const TreePlace& place, const Vector& x, std::int64_t lag, const RunOptions& o) {
  run(tl, x, collectives::tree_all_reduce(place, x.size(), piece_elements(o.chunk_bytes, x.dtype()), lag), o);
}

void tree_reduce(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::tree_reduce(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void tree_broadcast(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::tree_broadcast(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void tree_gather(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::tree_gather(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

void tree_scatter(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& o) {
  run(tl, x, collectives::tree_scatter(place, x.size(), piece_elements(o.chunk_bytes, x.dtype())), o);
}

}  // namespace kb::collectives
