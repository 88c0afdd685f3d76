#include <kb/kernels/token_placement.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

const char* name_of(TokenOrder o) {
  static constexpr const char* kNames[] = {"round_robin", "contiguous", "zigzag"};
  return kNames[static_cast<int>(o)];
}

TokenOrder token_order_from_name(const std::string& name) {
  for (const TokenOrder o : {TokenOrder::round_robin, TokenOrder::contiguous, TokenOrder::zigzag})
    if (name == name_of(o)) return o;
  throw InputError("placement: found '" + name + "'; allowed: round_robin | contiguous | zigzag");
}

TokenPlacement::TokenPlacement(TokenOrder order, std::int64_t tokens, std::uint32_t pes, std::uint64_t request_id)
    : order_(order), tokens_(tokens), pes_(pes), start_(0) {
  if (tokens < 0 || pes < 1)
    throw InputError("token placement: found " + std::to_string(tokens) + " tokens over " + std::to_string(pes) +
                     " PEs; allowed: 0 and more over 1 and more");
  start_ = static_cast<std::uint32_t>(request_id % pes);
}

std::pair<std::int64_t, std::int64_t> TokenPlacement::run(std::int64_t r, std::int64_t n) const {
  // r * S / n without overflow: S = q n + rest.
  const std::int64_t q = tokens_ / n, rest = tokens_ % n;
  return {r * q + r * rest / n, (r + 1) * q + (r + 1) * rest / n};
}

std::int64_t TokenPlacement::offset(std::uint32_t pe) const {
  return (pe + pes_ - start_) % pes_;
}

std::vector<TokenSegment> TokenPlacement::segments(std::uint32_t pe) const {
  std::vector<TokenSegment> all;
  const std::int64_t n = pes_;
  if (order_ == TokenOrder::round_robin) {
    const std::int64_t o = offset(pe);
    all.push_back({0, tokens_ / n + (o < tokens_ % n ? 1 : 0), o, n});
  } else if (order_ == TokenOrder::contiguous) {
    const auto [begin, end] = run(pe, n);
    all.push_back({0, end - begin, begin, 1});
  } else {
    const auto [low_begin, low_end] = run(pe, 2 * n);
    const auto [high_begin, high_end] = run(2 * n - 1 - pe, 2 * n);
    all.push_back({0, low_end - low_begin, low_begin, 1});
    all.push_back({low_end - low_begin, high_end - high_begin, high_begin, 1});
  }
  all.erase(std::remove_if(all.begin(), all.end(), [](const TokenSegment& s) { return s.count == 0; }), all.end());
  return all;
}

std::int64_t TokenPlacement::count(std::uint32_t pe) const {
  std::int64_t total = 0;
  for (const auto& s : segments(pe)) total += s.count;
  return total;
}

std::uint32_t TokenPlacement::owner(std::int64_t token) const {
  const std::int64_t n = pes_;
  if (order_ == TokenOrder::round_robin) return static_cast<std::uint32_t>((start_ + token) % n);
  const std::int64_t runs = order_ == TokenOrder::contiguous ? n : 2 * n;
  // The run whose begin r*S/runs is the last one at or before the token.
  std::int64_t r = static_cast<std::int64_t>(
      static_cast<double>(token) / static_cast<double>(std::max<std::int64_t>(tokens_, 1)) * static_cast<double>(runs));
  r = std::clamp<std::int64_t>(r, 0, runs - 1);
  while (r > 0 && run(r, runs).first > token) --r;
  while (run(r, runs).second <= token) ++r;
  return static_cast<std::uint32_t>(r < n ? r : 2 * n - 1 - r);
}

std::int64_t TokenPlacement::local(std::int64_t token) const {
  for (const auto& s : segments(owner(token))) {
    const std::int64_t at = (token - s.first) / s.stride;
    if (token >= s.first && at < s.count) return s.local + at;
  }
  throw InputError("token placement: found token " + std::to_string(token) + "; allowed: 0 .. " +
                   std::to_string(tokens_ - 1));
}

std::int64_t TokenPlacement::global(std::uint32_t pe, std::int64_t local_index) const {
  for (const auto& s : segments(pe))
    if (local_index >= s.local && local_index < s.local + s.count) return s.global(local_index);
  throw InputError("token placement: found place " + std::to_string(local_index) + " on PE " + std::to_string(pe) +
                   "; allowed: 0 .. " + std::to_string(count(pe) - 1));
}

std::vector<TokenBlock> TokenPlacement::tiles(std::uint32_t pe, std::int64_t size) const {
  std::vector<TokenBlock> all;
  for (const auto& s : segments(pe))
    for (std::int64_t at = 0; at < s.count; at += size) all.push_back({s.local + at, std::min(size, s.count - at)});
  return all;
}

}  // namespace kb
