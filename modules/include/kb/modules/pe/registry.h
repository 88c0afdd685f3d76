// Implementations of a PE's boxes by name, for the `impl` keys of the parameters: a user's own engine takes the
// place of a built-in one without touching the builder.
#pragma once

#include <kb/modules/pe/engine.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace kb {

class Cpu;
class Scheduler;
class Dma;
class FetchStore;
class Tcm;
class Mmu;
class Ipcq;

/// Named factories of one box. What they make derives from T; the name is the module's.
template <typename T>
class Implementations {
 public:
  using Factory = std::function<std::unique_ptr<T>(const char* name, const BoxContext& context)>;

  void add(const std::string& impl, Factory factory) { factories_[impl] = std::move(factory); }
  /// Null for a name that was not added.
  const Factory* find(const std::string& impl) const {
    const auto it = factories_.find(impl);
    return it == factories_.end() ? nullptr : &it->second;
  }
  /// The names, for messages.
  std::string names() const {
    std::string text;
    for (const auto& f : factories_) text += (text.empty() ? "" : ", ") + f.first;
    return text;
  }

 private:
  std::map<std::string, Factory> factories_;
};

/// gemm and math may be any engine of the token protocol; the other boxes have sockets of their own and are
/// derived from the built-in ones.
class PeRegistry {
 public:
  Implementations<TokenEngine> gemm, math;
  Implementations<FetchStore> fetch_store;
  Implementations<Dma> dma;
  Implementations<Tcm> tcm;
  Implementations<Mmu> mmu;
  Implementations<Ipcq> ipcq;
  Implementations<Scheduler> scheduler;
  Implementations<Cpu> cpu;
};

}  // namespace kb
