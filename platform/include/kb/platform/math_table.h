// What each math operation computes. Scheduler and engines know operations by name only; their meaning is here.
#pragma once

#include <kb/tlm_if/command.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kb {

/// A tensor's values in f32, dense and row-major.
struct Values {
  Shape shape;
  const float* data = nullptr;
};

/// What a `whole` operation gets: inputs in the order of MathOp::operands, room for the output's elements.
struct MathCall {
  const OpSpec& op;
  const Values* in;
  std::size_t inputs;
  const Shape& out_shape;
  float* out;                   // never overlaps an input
  std::uint32_t vector_width;   // lanes of a reduction
  std::vector<float>& scratch;  // contents are anybody's
};

/// One meaning of an operation name. A name may have several (`add` of two tensors, of a tensor and a scalar),
/// told apart by their operands and scalars.
///
/// Arithmetic is in f32 whatever the storage. Operands broadcast to the output's shape by numpy's rule. In an
/// epilogue the operand `src` is the tile itself and is not listed in the command; the others are the parts of
/// their tensors that belong to the tile.
struct MathOp {
  /// `n` consecutive elements of the output; inputs are already broadcast. `scalars` in the order of `scalars`.
  using Element = std::function<void(const float* const* in, const double* scalars, float* out, std::size_t n)>;
  using Whole = std::function<void(const MathCall& call)>;

  std::string kind;
  std::vector<std::string> operands;
  std::vector<std::string> scalars;           // all required
  std::vector<std::string> optional_scalars;  // accepted, seen by `whole` only
  Element element;                            // either this
  Whole whole;                                // or this; neither: the value is moved, see `transpose`
  bool transpose = false;                     // moved with the last two axes exchanged
  /// In k_tile scope, operands besides `src` have a row for each k tile, or one for all (`dequant`).
  bool row_per_k_tile = false;
};

/// Operation names and their meanings.
class MathTable {
 public:
  /// Empty.
  MathTable() = default;
  /// unary {src}: exp log sqrt rsqrt abs neg sigmoid relu; cast {src} (+dtype), copy {src}, trans {src};
  /// binary {a, b}: add sub mul div maximum minimum max_elem; exp_diff, mul_bcast (+bcast_axis);
  /// {src}+value: add sub mul div rsub rdiv maximum minimum; {src}+factor: scale;
  /// fma {a, b, c} = a * b + c with two roundings; where {cond, a, b}; clamp {src}+lo, hi;
  /// rmax rsum {src}+axis, the axis kept as size 1;
  /// full {}+value; causal_mask {}+row_pos, col_pos (+row_period, row_stride, col_stride): element (r, c) is 0 where
  /// col_pos + col_stride * c <= row_pos + row_stride * (r mod row_period), else -inf;
  /// epilogues besides: bias {src, bias}, add mul {src, other}, dequant {src, scale}.
  static MathTable builtin();

  /// Adds a meaning. Throws InputError when it has no semantics or the name already has a meaning with
  /// these operands and scalars.
  void add(MathOp op);

  /// The meaning of `op`, whose operands may come in any order. `tile`: an epilogue, with `src` implied.
  /// Throws ModelError naming the operation, its operands and scalars, and what is known of the name.
  const MathOp& find(const OpSpec& op, bool tile) const;

 private:
  std::map<std::string, std::vector<MathOp>> ops_;
};

/// Evaluates `meaning` for `op`: `inputs` values in the order of meaning.operands, `out` gets the elements of
/// `out_shape` and overlaps no input. `op` supplies the scalars. Throws ModelError on shapes that do not
/// broadcast to `out_shape`. `moved` operations convert nothing here: they are evaluated as copies.
void evaluate(const MathOp& meaning, const OpSpec& op, const Values* in, std::size_t inputs, const Shape& out_shape,
              float* out, std::uint32_t vector_width, std::vector<float>& scratch);

}  // namespace kb
