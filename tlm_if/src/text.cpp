#include <kb/tlm_if/text.h>

#include <algorithm>
#include <numeric>

namespace kb {

namespace {
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}
}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  // Beyond half of the letters a suggestion is noise.
  std::size_t distance = std::max<std::size_t>(2, name.size() / 2) + 1;
  for (const auto& c : candidates) {
    const std::size_t d = edit_distance(name, c);
    if (d < distance) {
      distance = d;
      best = c;
    }
  }
  return best;
}

std::string nearest_hint(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : " (nearest: " + nearest + ")";
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& prefix) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : "did you mean '" + prefix + nearest + "'? ";
}

}  // namespace kb
