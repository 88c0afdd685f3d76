// Collectives as a kernel calls them: every rank of the group makes the same call on its own vector (spec 5.2).
#pragma once

#include <kb/kernels/collectives/moves.h>
#include <kb/kernels/collectives/vector.h>
#include <kb/kernels/context.h>

#include <cstdint>

namespace kb::collectives {

/// How a list of moves is carried out.
struct RunOptions {
  std::uint64_t chunk_bytes = 64 * 1024;  // a message at most; it is segmented over slots where it is larger
  std::uint32_t ahead = 8;                // messages that may be expected before they are used
  std::uint32_t buffers = 12;             // scratch buffers of a message each, as far as scratch suffices
};

/// Elements per piece: chunk_bytes / size of an element, at least 1.
std::int64_t piece_elements(std::uint64_t chunk_bytes, DType dtype);

/// Carries out one rank's moves on its vector. Receives are posted ahead of their use, sums are made in place and
/// sends return at once, so that receiving, adding and sending of successive pieces overlap.
/// Commands per move: send 1, receive 1, add 2 (receive and Math); for a vector in HBM besides 1 load before a span is
/// sent or added to, and 1 store after a span that is kept.
/// Scratch: at least one message (TCM) or two (HBM); ModelError where it does not suffice. Returns when all messages
/// have arrived; the last sums, sends and stores may still be under way.
void run(tl::Context& tl, const Vector& x, const Moves& moves, const RunOptions& options = {});

/// x becomes the sum over the ring, in 2 (N - 1) steps.
void ring_all_reduce(tl::Context& tl, const RingPlace& place, const Vector& x, const RunOptions& options = {});
/// Chunk p of x becomes the sum on position p; the rest of x is used up. N - 1 steps.
void ring_reduce_scatter(tl::Context& tl, const RingPlace& place, const Vector& x, const RunOptions& options = {});
/// x becomes the chunks of all, chunk p from position p. N - 1 steps.
void ring_all_gather(tl::Context& tl, const RingPlace& place, const Vector& x, const RunOptions& options = {});
/// x becomes the sum at position `root`; elsewhere a partial sum. N - 1 steps.
void ring_reduce(tl::Context& tl, const RingPlace& place, std::uint32_t root, const Vector& x,
                 const RunOptions& options = {});
/// x becomes the x of position `root`. N - 1 steps.
void ring_broadcast(tl::Context& tl, const RingPlace& place, std::uint32_t root, const Vector& x,
                    const RunOptions& options = {});

/// x becomes the sum over the tree everywhere. `lag`: how many pieces may be under way to the root and back; twice the
/// tree's rounds keep every rank busy.
void tree_all_reduce(tl::Context& tl, const TreePlace& place, const Vector& x, std::int64_t lag,
                     const RunOptions& options = {});
/// x becomes the sum at the root; elsewhere that of the rank's subtree.
void tree_reduce(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& options = {});
/// x becomes the root's.
void tree_broadcast(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& options = {});
/// The root's x becomes the chunks of all; elsewhere x is used up.
void tree_gather(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& options = {});
/// The rank's own chunk of x becomes the root's; the rest is used up.
void tree_scatter(tl::Context& tl, const TreePlace& place, const Vector& x, const RunOptions& options = {});

}  // namespace kb::collectives
