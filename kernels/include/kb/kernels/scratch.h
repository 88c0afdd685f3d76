// The kernel's scratch arena: a stack of scopes over TCM offsets [0, scratch_bytes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kb::tl {

/// Hands out 64-byte aligned offsets; a scope's end recycles all that was allocated in it. Scope numbers are
/// never used twice, so that a handle of an ended scope is recognised.
class ScratchArena {
 public:
  static constexpr std::uint64_t kAlignment = 64;

  explicit ScratchArena(std::uint64_t bytes);

  /// Opens a scope inside the innermost one and returns its number (from 1; the kernel's own scope is 1).
  std::uint32_t open(const std::string& label);
  /// Ends a scope and all scopes opened after it.
  void close(std::uint32_t scope);
  bool alive(std::uint32_t scope) const;
  std::uint32_t innermost() const { return scopes_.back().number; }

  /// Offset of `bytes` fresh bytes in the innermost scope. Throws ModelError naming `call`, the size asked for,
  /// what is in use and by which scope.
  std::uint64_t allocate(std::uint64_t bytes, const std::string& call);

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t in_use() const { return top_; }
  std::uint64_t high_water() const { return high_water_; }
  /// "kernel 4096 B, tile 16384 B"
  std::string usage() const;

 private:
  struct Scope {
    std::uint32_t number = 0;
    std::string label;
    std::uint64_t begin = 0;
  };
  std::uint64_t capacity_;
  std::uint64_t top_ = 0;
  std::uint64_t high_water_ = 0;
  std::uint32_t last_number_ = 0;
  std::vector<Scope> scopes_;
};

/// Ends its scope when it goes out of C++ scope. Returned by Context::scratch_scope().
class [[nodiscard]] ScratchScope {
 public:
  ScratchScope(ScratchArena& arena, const std::string& label) : arena_(arena), number_(arena.open(label)) {}
  ~ScratchScope() { arena_.close(number_); }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  ScratchArena& arena_;
  std::uint32_t number_;
};

}  // namespace kb::tl
