// Which PE of a group holds which token of a KV cache (spec 6.1).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// round_robin: token i on PE (start + i) mod N. contiguous: PE r owns [r*S/N, (r+1)*S/N). zigzag: the same cut in
/// 2N runs, PE r owns runs r and 2N-1-r. Each PE stores its tokens densely, in ascending order.
enum class TokenOrder : std::uint8_t { round_robin, contiguous, zigzag };
const char* name_of(TokenOrder o);
/// Throws InputError.
TokenOrder token_order_from_name(const std::string& name);

/// Tokens [local, local + count) of a PE are tokens first, first + stride, ... of the sequence. Tiles never cross
/// from one segment to the next.
struct TokenSegment {
  std::int64_t local = 0;
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t global(std::int64_t local_index) const { return first + (local_index - local) * stride; }
};

/// A run of tokens of one PE that is handled as one piece, in one segment: [local, local + count).
struct TokenBlock {
  std::int64_t local = 0;
  std::int64_t count = 0;
};

class TokenPlacement {
 public:
  /// `tokens` over `pes` PEs; `request_id` rotates the round-robin start.
  TokenPlacement(TokenOrder order, std::int64_t tokens, std::uint32_t pes, std::uint64_t request_id = 0);

  TokenOrder order() const { return order_; }
  std::int64_t tokens() const { return tokens_; }
  std::uint32_t pes() const { return pes_; }

  /// Tokens on a PE.
  std::int64_t count(std::uint32_t pe) const;
  /// PE of a token, and its place there.
  std::uint32_t owner(std::int64_t token) const;
  std::int64_t local(std::int64_t token) const;
  /// Token at a place on a PE.
  std::int64_t global(std::uint32_t pe, std::int64_t local_index) const;
  /// Segments of a PE that are not empty, in local order: at most one, with zigzag two.
  std::vector<TokenSegment> segments(std::uint32_t pe) const;
  /// The PE's tokens in pieces of at most `size`, each inside one segment.
  std::vector<TokenBlock> tiles(std::uint32_t pe, std::int64_t size) const;

 private:
  /// Run `r` of `n` of the sequence.
  std::pair<std::int64_t, std::int64_t> run(std::int64_t r, std::int64_t n) const;
  std::int64_t offset(std::uint32_t pe) const;

  TokenOrder order_;
  std::int64_t tokens_;
  std::uint32_t pes_;
  std::uint32_t start_;
};

}  // namespace kb
