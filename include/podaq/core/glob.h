#pragma once

#include <cstddef>
#include <string_view>

namespace podaq {

/// Whether `name` matches `pattern`, where `*` stands for any run of characters (also none) and `?` for any one.
/// "features.*" matches "features.0.weight". Takes at most pattern.size() * name.size() steps.
[[nodiscard]] constexpr bool matches_glob(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // the last `*` seen, and where in the name its run would end
  std::size_t run_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      run_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++run_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// Whether `pattern` holds no wildcard, so that it names one thing.
[[nodiscard]] constexpr bool is_literal_glob(std::string_view pattern) {
  return pattern.find_first_of("*?") == std::string_view::npos;
}

}  // namespace podaq
