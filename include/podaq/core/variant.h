#pragma once

#include <variant>

namespace podaq {

/// Whether a variant holds one of these alternatives: `is_any_of<Conv, Linear>(node.op)`.
template <typename... Wanted, typename... Alternatives>
[[nodiscard]] constexpr bool is_any_of(const std::variant<Alternatives...>& variant) {
  return (std::holds_alternative<Wanted>(variant) || ...);
}

}  // namespace podaq
