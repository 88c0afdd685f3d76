// Small text helpers for error messages.
#pragma once

#include <string>
#include <vector>

namespace kb {

/// The candidate with the smallest edit distance to `name`; empty when none is near (half of the letters).
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

/// " (nearest: gemm)" for the end of a message; empty when none is near.
std::string nearest_hint(const std::string& name, const std::vector<std::string>& candidates);

/// "did you mean 'gemm'? ", the nearest behind `prefix`; empty when none is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& prefix = "");

}  // namespace kb
