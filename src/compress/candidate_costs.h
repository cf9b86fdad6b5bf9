#pragma once

#include <optional>

#include "compress/trial_network.h"
#include "podaq/compress/recipe.h"
#include "podaq/compress/sensitivity.h"
#include "podaq/graph/graph.h"

namespace podaq::compress_detail {

/// Fills in bytes, and microseconds where the recipe has budget_us, of all candidates of a report that has one layer
/// for each of the trial network's. Throws Error(unsupported) naming a layer that the cost model does not know.
void add_costs(SensitivityReport& report, TrialNetwork& trial, const Recipe& recipe);

/// What the recipe's budget counts: bytes of the graph's file, or microseconds of a sample.
[[nodiscard]] double cost_of(const Graph& graph, const AutoRecipe& search);

}  // namespace podaq::compress_detail
