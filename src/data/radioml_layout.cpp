#include "data/radioml_layout.h"

#include <algorithm>
#include <set>

#include "podaq/core/text.h"

namespace podaq::radioml_layout {

std::optional<std::string> fault_of_names(const std::vector<std::string>& names) {
  constexpr std::size_t longest_name = 64;
  if (names.empty() || names.size() > most_classes)
    return concat("there are ", names.size(), " classes; there must be 1 to ", most_classes);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    // Files of networks join the names with commas.
    const bool plain = std::ranges::none_of(name, [](unsigned char c) { return c < ' ' || c == ',' || c == 0x7F; });
    if (name.empty() || name.size() > longest_name || !plain)
      return concat("class ", seen.size(), " has a name of ", name.size(),
                    " bytes; 1 to 64 are allowed, without commas and control characters");
    if (!seen.insert(name).second) return concat("the class '", name, "' is there twice");
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_grid(const std::vector<std::int32_t>& grid) {
  if (grid.empty()) return "there is no SNR";
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (grid[i] < -largest_snr_db || grid[i] > largest_snr_db) return concat(grid[i], " dB is outside -200 to 200");
    if (i > 0 && grid[i] <= grid[i - 1])
      return concat(grid[i], " dB follows ", grid[i - 1], " dB; the SNRs must be ascending");
  }
  return std::nullopt;
}

}  // namespace podaq::radioml_layout
