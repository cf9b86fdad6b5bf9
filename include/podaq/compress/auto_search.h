#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace podaq {

/// One way to treat a layer.
struct SearchOption {
  double cost = 0;  ///< What the budget counts: bytes or microseconds. Finite, at least 0.
  double loss = 0;  ///< Predicted; NaN and infinities: never chosen.
};

/// One option for each layer.
struct SearchResult {
  std::vector<std::size_t> chosen = {};  ///< By layer: index of its option.
  double cost = 0;                       ///< The chosen options' sum.
  double loss = 0;                       ///< Likewise.
};

/// The cheapest selection: each layer's option of least cost, of least loss among those, the first of equals. Throws
/// Error(invalid_argument) naming the index of a layer that has no option with a finite loss, or an option whose cost
/// is out of range.
[[nodiscard]] SearchResult cheapest_options(std::span<const std::vector<SearchOption>> layers);

/// The selection of least summed loss whose summed cost stays within `budget`, by dynamic programming (the
/// multiple-choice knapsack problem). What lies between the cheapest selection and the budget is cut into `steps`
/// parts, and what an option costs more than its layer's cheapest is rounded up to whole parts: the budget always
/// holds, and no selection that costs at most budget - layers * (budget - cheapest) / steps has a lower loss. Exact
/// where those differences are whole numbers of parts. Among equal losses the lower cost wins. Takes time in proportion
/// to steps * options.
///
/// Throws Error(invalid_argument) as cheapest_options does, where steps is outside [1, 100000], and where even the
/// cheapest selection exceeds the budget, naming its cost.
[[nodiscard]] SearchResult choose_options(std::span<const std::vector<SearchOption>> layers, double budget,
                                          std::size_t steps = 10'000);

}  // namespace podaq
