#include <kb/kernels/scratch.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb::tl {

ScratchArena::ScratchArena(std::uint64_t bytes) : capacity_(bytes) {
  open("kernel");
}

std::uint32_t ScratchArena::open(const std::string& label) {
  scopes_.push_back({++last_number_, label, top_});
  return last_number_;
}

void ScratchArena::close(std::uint32_t scope) {
  while (scopes_.size() > 1 && scopes_.back().number >= scope) {
    top_ = scopes_.back().begin;
    scopes_.pop_back();
  }
}

bool ScratchArena::alive(std::uint32_t scope) const {
  return std::any_of(scopes_.begin(), scopes_.end(), [scope](const Scope& s) { return s.number == scope; });
}

std::uint64_t ScratchArena::allocate(std::uint64_t bytes, const std::string& call) {
  const std::uint64_t free = capacity_ - top_;
  // Rounding up cannot overflow: what does not fit is refused first.
  const std::uint64_t rounded = bytes > free ? bytes : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > free)
    throw ModelError(call + ": out of scratch: found a request of " + std::to_string(bytes) + " B with " +
                     std::to_string(top_) + " B in use (" + usage() + "); allowed: " + std::to_string(capacity_) +
                     " B in all (pe.tcm.scratch_bytes)");
  const std::uint64_t offset = top_;
  top_ = std::min(capacity_, top_ + rounded);
  high_water_ = std::max(high_water_, top_);
  return offset;
}

std::string ScratchArena::usage() const {
  std::string text;
  for (std::size_t i = 0; i < scopes_.size(); ++i) {
    const std::uint64_t end = i + 1 < scopes_.size() ? scopes_[i + 1].begin : top_;
    text += (i ? ", " : "") + scopes_[i].label + " " + std::to_string(end - scopes_[i].begin) + " B";
  }
  return text;
}

}  // namespace kb::tl
