#include <kb/kernels/collectives/moves.h>

#include <algorithm>
#include <iterator>

namespace kb::collectives {

namespace {

using Kind = Move::Kind;

/// One pass of a vector up or down a tree, piece by piece.
void up(const TreePlace& place, const Span& piece, Moves& moves) {
  for (const auto& child : place.children) moves.push_back({Kind::add, child.direction, place.is_root, piece});
  if (!place.is_root) moves.push_back({Kind::send, place.up, true, piece});
}

void down(const TreePlace& place, const Span& piece, Moves& moves) {
  if (!place.is_root) moves.push_back({Kind::receive, place.down, true, piece});
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    moves.push_back({Kind::send, child->back, true, piece});
}

}  // namespace

Span chunk(std::int64_t n, std::uint32_t i, std::uint32_t parts) {
  // i * n may pass 63 bits; i * (n / parts) and i * (n % parts) do not.
  const auto cut = [n, parts](std::int64_t j) { return j * (n / parts) + j * (n % parts) / parts; };
  const std::int64_t begin = cut(i);
  return {begin, cut(static_cast<std::int64_t>(i) + 1) - begin};
}

std::int64_t piece_count(std::int64_t count, std::int64_t piece) {
  return std::max<std::int64_t>(1, (count + piece - 1) / piece);
}

std::vector<Span> pieces(const Span& span, std::int64_t piece) {
  std::vector<Span> all;
  const std::int64_t many = piece_count(span.count, piece);
  all.reserve(static_cast<std::size_t>(many));
  for (std::int64_t i = 0; i < many; ++i)
    all.push_back({span.begin + i * piece, std::min(piece, span.count - i * piece)});
  return all;
}

MoveCounts count(const Moves& moves) {
  MoveCounts c;
  for (const Move& m : moves) {
    if (m.kind == Kind::send) {
      ++c.sends;
      c.elements_sent += m.span.count;
    } else {
      ++c.receives;
      c.elements_received += m.span.count;
      if (m.kind == Kind::add) ++c.adds;
    }
  }
  return c;
}

Moves& operator+=(Moves& moves, const Moves& more) {
  moves.insert(moves.end(), more.begin(), more.end());
  return moves;
}

// ---- rings -----------------------------------------------------------------------------------------------------

std::uint32_t RingPlace::chunk_at(std::int64_t place) const {
  const std::int64_t wrapped = (place % size + size) % size;
  return chunks.empty() ? static_cast<std::uint32_t>(wrapped) : chunks[static_cast<std::size_t>(wrapped)];
}

Moves ring_reduce_scatter(const RingPlace& place, std::int64_t n, std::int64_t piece, bool send_on) {
  Moves moves;
  if (place.size == 1) return moves;
  const std::int64_t at = place.position;
  for (const Span& p : pieces(chunk(n, place.chunk_at(at - 1), place.size), piece))
    moves.push_back({Kind::send, place.next, true, p});
  // What arrives in one step is added to and sent in the next.
  for (std::uint32_t step = 0; step + 1 < place.size; ++step) {
    const bool last = step + 2 == place.size;
    for (const Span& p : pieces(chunk(n, place.chunk_at(at - 2 - step), place.size), piece)) {
      moves.push_back({Kind::add, place.previous, last, p});
      if (!last || send_on) moves.push_back({Kind::send, place.next, true, p});
    }
  }
  return moves;
}

Moves ring_all_gather(const RingPlace& place, std::int64_t n, std::int64_t piece, bool first_sent) {
  Moves moves;
  if (place.size == 1) return moves;
  const std::int64_t at = place.position;
  if (!first_sent)
    for (const Span& p : pieces(chunk(n, place.chunk_at(at), place.size), piece))
      moves.push_back({Kind::send, place.next, true, p});
  for (std::uint32_t step = 0; step + 1 < place.size; ++step)
    for (const Span& p : pieces(chunk(n, place.chunk_at(at - 1 - step), place.size), piece)) {
      moves.push_back({Kind::receive, place.previous, true, p});
      if (step + 2 < place.size) moves.push_back({Kind::send, place.next, true, p});
    }
  return moves;
}

Moves ring_all_reduce(const RingPlace& place, std::int64_t n, std::int64_t piece) {
  Moves moves = ring_reduce_scatter(place, n, piece, true);
  return moves += ring_all_gather(place, n, piece, true);
}

Moves ring_reduce(const RingPlace& place, std::uint32_t root, std::int64_t n, std::int64_t piece) {
  Moves moves;
  if (place.size == 1) return moves;
  const bool first = place.position == (root + 1) % place.size, last = place.position == root;
  for (const Span& p : pieces({0, n}, piece)) {
    if (!first) moves.push_back({Kind::add, place.previous, last, p});
    if (!last) moves.push_back({Kind::send, place.next, true, p});
  }
  return moves;
}

Moves ring_broadcast(const RingPlace& place, std::uint32_t root, std::int64_t n, std::int64_t piece) {
  Moves moves;
  if (place.size == 1) return moves;
  const bool first = place.position == root, last = (place.position + 1) % place.size == root;
  for (const Span& p : pieces({0, n}, piece)) {
    if (!first) moves.push_back({Kind::receive, place.previous, true, p});
    if (!last) moves.push_back({Kind::send, place.next, true, p});
  }
  return moves;
}

// ---- trees -----------------------------------------------------------------------------------------------------

Moves tree_reduce(const TreePlace& place, std::int64_t n, std::int64_t piece) {
  Moves moves;
  for (const Span& p : pieces({0, n}, piece)) up(place, p, moves);
  return moves;
}

Moves tree_broadcast(const TreePlace& place, std::int64_t n, std::int64_t piece) {
  Moves moves;
  for (const Span& p : pieces({0, n}, piece)) down(place, p, moves);
  return moves;
}

Moves tree_all_reduce(const TreePlace& place, std::int64_t n, std::int64_t piece, std::int64_t lag) {
  const auto all = pieces({0, n}, piece);
  const auto late = place.is_root ? std::size_t{0} : std::min(all.size(), static_cast<std::size_t>(lag));
  Moves moves;
  for (std::size_t i = 0; i < all.size() + late; ++i) {
    if (i < all.size()) up(place, all[i], moves);
    if (i >= late) down(place, all[i - late], moves);
  }
  return moves;
}

Moves tree_gather(const TreePlace& place, std::int64_t n, std::int64_t piece) {
  Moves moves;
  if (!place.is_root)
    for (const Span& p : pieces(chunk(n, place.chunk, place.size), piece))
      moves.push_back({Kind::send, place.up, true, p});
  for (const auto& child : place.children)
    for (const std::uint32_t c : child.chunks)
      for (const Span& p : pieces(chunk(n, c, place.size), piece)) {
        moves.push_back({Kind::receive, child.direction, place.is_root, p});
        if (!place.is_root) moves.push_back({Kind::send, place.up, true, p});
      }
  return moves;
}

Moves tree_scatter(const TreePlace& place, std::int64_t n, std::int64_t piece) {
  Moves moves;
  if (!place.is_root)
    for (const Span& p : pieces(chunk(n, place.chunk, place.size), piece))
      moves.push_back({Kind::receive, place.down, true, p});
  for (const auto& child : place.children)
    for (const std::uint32_t c : child.chunks)
      for (const Span& p : pieces(chunk(n, c, place.size), piece)) {
        if (!place.is_root) moves.push_back({Kind::receive, place.down, false, p});
        moves.push_back({Kind::send, child.back, true, p});
      }
  return moves;
}

}  // namespace kb::collectives
