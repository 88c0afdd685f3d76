// The element-wise operations and reductions that a Math command or a math head can name.
#pragma once

#include <string>
#include <vector>

namespace kb::tl {

/// Default type of a result, from the types of the operands.
enum class ResultType { wider, wider_float };

/// Operand and scalar names of one kind. Binary kinds also exist with one operand and a scalar.
struct MathSignature {
  std::string kind;
  std::vector<std::string> operands;
  std::vector<std::string> scalars;
  ResultType type = ResultType::wider;
  bool reduction = false;
};

/// All signatures; a kind with a scalar form has two entries.
const std::vector<MathSignature>& math_signatures();

/// The signature of `kind` with that many operands; null when there is none.
const MathSignature* find_math(const std::string& kind, std::size_t operands);

}  // namespace kb::tl
