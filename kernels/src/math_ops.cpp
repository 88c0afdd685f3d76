#include "math_ops.h"

namespace kb::tl {

const std::vector<MathSignature>& math_signatures() {
  constexpr auto kFloat = ResultType::wider_float;
  constexpr auto kWider = ResultType::wider;
  static const std::vector<MathSignature> kAll{
      {"exp", {"src"}, {}, kFloat},
      {"log", {"src"}, {}, kFloat},
      {"sqrt", {"src"}, {}, kFloat},
      {"rsqrt", {"src"}, {}, kFloat},
      {"sigmoid", {"src"}, {}, kFloat},
      {"relu", {"src"}, {}, kWider},
      {"abs", {"src"}, {}, kWider},
      {"neg", {"src"}, {}, kWider},
      {"cast", {"src"}, {}, kWider},
      {"copy", {"src"}, {}, kWider},
      {"add", {"a", "b"}, {}, kWider},
      {"sub", {"a", "b"}, {}, kWider},
      {"mul", {"a", "b"}, {}, kWider},
      {"div", {"a", "b"}, {}, kFloat},
      {"maximum", {"a", "b"}, {}, kWider},
      {"minimum", {"a", "b"}, {}, kWider},
      {"exp_diff", {"a", "b"}, {}, kFloat},
      {"max_elem", {"a", "b"}, {}, kWider},
      {"add", {"src"}, {"value"}, kWider},
      {"sub", {"src"}, {"value"}, kWider},
      {"mul", {"src"}, {"value"}, kWider},
      {"div", {"src"}, {"value"}, kFloat},
      {"rsub", {"src"}, {"value"}, kWider},
      {"rdiv", {"src"}, {"value"}, kFloat},
      {"maximum", {"src"}, {"value"}, kWider},
      {"minimum", {"src"}, {"value"}, kWider},
      {"clamp", {"src"}, {"lo", "hi"}, kWider},
      {"fma", {"a", "b", "c"}, {}, kWider},
      {"where", {"cond", "a", "b"}, {}, kWider},
      {"rmax", {"src"}, {"axis"}, kWider, true},
      {"rsum", {"src"}, {"axis"}, kWider, true},
  };
  return kAll;
}

const MathSignature* find_math(const std::string& kind, std::size_t operands) {
  for (const auto& s : math_signatures())
    if (s.kind == kind && s.operands.size() == operands) return &s;
  return nullptr;
}

}  // namespace kb::tl
