#pragma once

#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/prune/pruner.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// The layers that a recipe prunes, in groups that compete, from its globs. Throws Error(recipe) for a glob that
/// matches nothing and for a sparsity of 1, naming the nearest reachable one.
[[nodiscard]] std::vector<PruneGroup> plan_pruning(const GraphModule& model, const Recipe& recipe);

}  // namespace podaq::compress_detail
