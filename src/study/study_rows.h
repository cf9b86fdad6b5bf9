#pragma once

#include <string>
#include <vector>

#include "podaq/study/task.h"

// The rows of a study that its file does not spell out.

namespace podaq::study_detail {

/// Whether a recipe trains plainly.
[[nodiscard]] inline bool is_dense(const Recipe& recipe) {
  return !recipe.prune && !recipe.quantize && !recipe.goldbarg;
}

/// All stages `length` times as long.
[[nodiscard]] Recipe lengthened(Recipe recipe, double length);

/// Rows of all combinations.
struct Grid {
  std::vector<Strategy> strategies;       ///< Each with its recipe.
  std::vector<double> sparsities = {};    ///< For those that prune; none: as the recipe says.
  std::vector<int> weight_bits = {};      ///< For those that quantize; none: as the recipe says.
  std::vector<double> lengths = {1};      ///< Factors of all stages.
  std::vector<bool> distilled = {false};  ///< Whether the row listens to the study's teacher.
};

/// The rows of the grid, named "prune_quantize-s0.9-w4-x3-distilled".
[[nodiscard]] std::vector<Strategy> rows_of(const Grid& grid, const Teaching& teaching);

/// Adds a dense row of as many epochs as the longest row where there is none, and one with the first distilled row's
/// teaching where rows are distilled and none of them is dense and as long.
void add_dense_rows(std::vector<Strategy>& rows);

}  // namespace podaq::study_detail
