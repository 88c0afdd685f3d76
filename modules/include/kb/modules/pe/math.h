// The vector unit: element-wise operations, reductions, copies and epilogues, one operation at a time, first come
// first served. It never looks at the operation's name.
#pragma once

#include <kb/modules/pe/engine.h>

#include <vector>

namespace kb {

class Math : public TokenEngine {
 public:
  Math(const sc_core::sc_module_name& name, const BoxContext& context);

  /// Time of one operation (spec 2.1): overhead_ns + ceil(elements / vector_width) / clock_ghz.
  virtual Ps operation_ps(std::uint64_t elements) const;

 protected:
  void on_token(TileToken& token, Ps at) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  /// A token that goes on to another math stage keeps the place of its arrival.
  struct Waiting {
    TileToken* token;
    Ps place;
    Ps from;  // not before
  };
  void start(const Waiting& chosen, Ps now);
  void insert(TileToken& token, Ps place, Ps from);

  Inbox<TileToken*> inbox_;
  std::vector<Waiting> waiting_;  // by (place, token order)
  Ps free_at_ = 0;
};

}  // namespace kb
