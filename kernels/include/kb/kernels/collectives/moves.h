// What one rank does in a collective, as a list of moves: pure functions of its place, readable and countable
// without a machine (spec 5.2).
#pragma once

#include <kb/tlm_if/command.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kb::collectives {

/// Elements [begin, begin + count) of a vector.
struct Span {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t end() const { return begin + count; }
  bool overlaps(const Span& o) const { return begin < o.end() && o.begin < end(); }
  friend bool operator==(const Span& a, const Span& b) { return a.begin == b.begin && a.count == b.count; }
  friend bool operator!=(const Span& a, const Span& b) { return !(a == b); }
};

/// Chunk i of N of a vector of n elements: [i*n/N, (i+1)*n/N).
Span chunk(std::int64_t n, std::uint32_t i, std::uint32_t parts);

/// The pieces of a span, each sent as one message: of `piece` elements but for the last. An empty span is one empty
/// piece, so that it too takes a message.
std::vector<Span> pieces(const Span& span, std::int64_t piece);

/// max(1, ceil(count / piece)): the number of pieces.
std::int64_t piece_count(std::int64_t count, std::int64_t piece);

/// One message, sent or received, and what becomes of it.
struct Move {
  enum class Kind : std::uint8_t {
    send,     // the rank's present value of the span
    receive,  // the message replaces the value
    add,      // the message is added to the value, in f32, and the sum rounded once
  };
  Kind kind = Kind::send;
  Direction direction = Direction::N;
  bool keep = true;  // receive, add: the value is needed after the moves on this span that follow without a gap
  Span span;
};
using Moves = std::vector<Move>;

/// Elements, messages and pieces that a list sends or receives.
struct MoveCounts {
  std::uint64_t sends = 0, receives = 0, adds = 0;  // receives: with the adds
  std::int64_t elements_sent = 0, elements_received = 0;
};
MoveCounts count(const Moves& moves);

// ---- rings -----------------------------------------------------------------------------------------------------

/// A rank's place on a ring: it sends to position + 1 and receives from position - 1.
struct RingPlace {
  std::uint32_t position = 0;
  std::uint32_t size = 1;
  Direction next = Direction::E;
  Direction previous = Direction::W;
  /// Chunk that belongs to each position; empty: chunk p to position p.
  std::vector<std::uint32_t> chunks;
  std::uint32_t chunk_at(std::int64_t place) const;  // taken modulo the size
};

/// N - 1 steps, one chunk sent and one received in each. Position p ends with the sum of its chunk; the other chunks
/// hold partial sums. Chunk of p: p+1 starts, p+2 adds, ..., p adds last.
/// `send_on` sends the finished chunk in pieces as they are summed: the first step of an all-gather.
Moves ring_reduce_scatter(const RingPlace& place, std::int64_t n, std::int64_t piece, bool send_on = false);
/// N - 1 steps. Position p begins with its chunk and ends with all. `first_sent`: the first step has been sent.
Moves ring_all_gather(const RingPlace& place, std::int64_t n, std::int64_t piece, bool first_sent = false);
/// Reduce-scatter and all-gather in 2 (N - 1) steps, without a gap between the two.
Moves ring_all_reduce(const RingPlace& place, std::int64_t n, std::int64_t piece);
/// The whole vector runs from the position after `root` round to it, piece after piece; the sum is kept at the root.
Moves ring_reduce(const RingPlace& place, std::uint32_t root, std::int64_t n, std::int64_t piece);
/// The root's vector runs round to the position before it, piece after piece.
Moves ring_broadcast(const RingPlace& place, std::uint32_t root, std::int64_t n, std::int64_t piece);

// ---- trees -----------------------------------------------------------------------------------------------------

/// A rank's place in a tree.
struct TreePlace {
  struct Child {
    Direction direction = Direction::N;  // to receive from it
    Direction back = Direction::N;       // to send to it
    std::vector<std::uint32_t> chunks;   // of its subtree, in the order of RankTree::subtree
  };
  bool is_root = true;
  Direction up = Direction::N;    // to send to the parent
  Direction down = Direction::N;  // to receive from it
  std::vector<Child> children;    // in order of summation
  std::uint32_t chunk = 0;        // this rank's own
  std::uint32_t size = 1;         // ranks in the tree
};

/// Piece after piece: adds the children's in order, sends the sum to the parent. Kept at the root.
Moves tree_reduce(const TreePlace& place, std::int64_t n, std::int64_t piece);
/// Piece after piece from the parent to the children, the last in order of summation first.
Moves tree_broadcast(const TreePlace& place, std::int64_t n, std::int64_t piece);
/// Reduce and broadcast back. A piece goes down as soon as the root has its sum; the other ranks take part `lag` pieces
/// later than in its way up.
Moves tree_all_reduce(const TreePlace& place, std::int64_t n, std::int64_t piece, std::int64_t lag);
/// Each rank's chunk, and those of the ranks below it, to the root.
Moves tree_gather(const TreePlace& place, std::int64_t n, std::int64_t piece);
/// From the root to each rank its chunk.
Moves tree_scatter(const TreePlace& place, std::int64_t n, std::int64_t piece);

/// Appends one list to another.
Moves& operator+=(Moves& moves, const Moves& more);

}  // namespace kb::collectives
