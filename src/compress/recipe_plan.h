#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/prune/pruner.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// The layers that a recipe prunes, in groups that compete, from its globs. Throws Error(recipe) for a glob that
/// matches nothing, for a sparsity of 1, naming the nearest reachable one, and for layers that the criterion
/// cannot score or the pattern leaves whole.
[[nodiscard]] std::vector<PruneGroup> plan_pruning(const GraphModule& model, const Recipe& recipe);

/// The layers that `globs` choose of those that may train. Throws Error(recipe) for a glob that matches nothing, or
/// only layers that need no gradient without naming one literally.
[[nodiscard]] std::vector<WeightedLayer> choose_layers(const GraphModule& model, const Recipe& recipe,
                                                       const std::string& field, std::span<const std::string> globs);

/// How they are pruned in a prune stage from step `begin` to step `end`. Throws Error(recipe) where the stage is too
/// short for what the recipe asks.
[[nodiscard]] PrunerOptions plan_schedule(const Recipe& recipe, std::int64_t begin, std::int64_t end,
                                          std::int64_t steps_per_epoch);

/// Whether a layer gets the recipe's own sparsity: prune.layers chooses it, and no exception does.
[[nodiscard]] bool is_pooled(const GraphModule& model, const PruneRecipe& prune, const WeightedLayer& layer);

}  // namespace podaq::compress_detail
