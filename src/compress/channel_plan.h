#pragma once

#include <span>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/prune/pruner.h"

namespace podaq::compress_detail {

/// A layer that the recipe prunes, how much of it, and the field that says so.
struct ChosenLayer {
  WeightedLayer layer;
  double sparsity = 0;
  std::string field;  ///< "prune.sparsity" or one of "prune.by_layer".
};

/// The groups for the pattern "channels": layers that compute channels of one ChannelSet prune them together. Layers
/// none of whose channels can go are in no group. Throws Error(recipe) where a glob that asks for zeros matches only
/// such layers, where tied layers are asked different sparsities, and where one is out of reach.
[[nodiscard]] std::vector<PruneGroup> plan_channels(const GraphModule& model, const Recipe& recipe,
                                                    std::span<const ChosenLayer> chosen);

}  // namespace podaq::compress_detail
