#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/compress/sensitivity.h"
#include "podaq/prune/masks.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// A conv or linear layer for which a recipe leaves sparsity, weight bits or both open.
struct SearchedLayer {
  WeightedLayer layer = {};                     ///< Of tied layers, the first.
  std::vector<std::size_t> steps = {};          ///< The steps on its weight: several where it is tied.
  bool searches_sparsity = false;               ///< Else all candidates have the sparsity that the recipe says.
  bool searches_bits = false;                   ///< Likewise.
  std::vector<LayerCandidate> candidates = {};  ///< At least one; see LayerSensitivity for their order.
};

/// The layers that a recipe searches: whatever it prunes or has on codes without an exception that fixes it. Throws
/// Error(recipe) as plan_pruning and plan_quantization do.
[[nodiscard]] std::vector<SearchedLayer> searched_layers(const GraphModule& model, const Recipe& recipe);

/// The recipe with a candidate for each searched layer, and no [auto]: an ordinary one. Where nothing is pruned it
/// loses its [prune], and its prune and recover stages count as dense.
[[nodiscard]] Recipe with_candidates(const Recipe& recipe, std::span<const SearchedLayer> layers,
                                     std::span<const LayerCandidate> chosen);

}  // namespace podaq::compress_detail
