// The MAC array: multiplies tile steps out of the register file and sums them in its accumulators, one after the
// other, in the order in which FETCH filled the registers.
#pragma once

#include <kb/modules/pe/engine.h>

#include <deque>
#include <vector>

namespace kb {

class Gemm : public TokenEngine {
 public:
  Gemm(const sc_core::sc_module_name& name, const BoxContext& context);

  /// Time of one tile step (spec 2.1):
  ///   overhead_ns + ceil(m/mm) * ceil(k/mk) * ceil(n/mn) * c / clock_ghz
  /// with mac_shape = [mm, mk, mn] and c = 1 cycle per step, 2 for 4-byte operands. 32x64x32 in f16: 16 ns.
  virtual Ps step_ps(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype) const;

 protected:
  void on_token(TileToken& token, Ps at) override;
  void on_signal(const Signal& signal, Ps at) override;
  void decide(Ps now, std::uint64_t delta) override;

 private:
  struct Waiting {
    TileToken* token;
    Ps arrival;
    std::uint64_t stamp;
  };
  void start(Waiting& head, Ps accumulator_free, Ps now);

  std::deque<Waiting> queue_;  // FETCH hands tokens over in feed order
  Inbox<std::uint32_t> free_;  // accumulators released by STORE or updated by MATH, due when that ends
  std::vector<Ps> ready_;      // per accumulator: from when on the next GEMM may use it; kNever: not known yet
  Ps free_at_ = 0;             // end of the step in the array
  std::uint64_t loop_base_ = 0, next_accumulator_ = 0;  // accumulators are taken in a ring
  // The last step's sizes and time: most steps are like the one before.
  std::array<std::int64_t, 3> size_{};
  DType size_dtype_ = DType::f16;
  Ps size_ps_ = 0;
  std::uint64_t size_slots_ = 0;
};

}  // namespace kb
