#pragma once

#include <torch/types.h>

#include <map>
#include <span>
#include <string>

#include "podaq/prune/criterion.h"
#include "podaq/prune/masks.h"

namespace podaq {

/// What Taylor and Movement have summed up so far, by weight name: of the weight's shape and type. Weights that have
/// had no gradient yet are missing.
using GatheredScores = std::map<std::string, torch::Tensor>;

/// Adds one step's |w * gradient| (Taylor) or -w * gradient (Movement) of each layer that has a gradient, in one pass
/// over its elements; products that are not finite add nothing. Does nothing for criteria that do not gather.
void gather_scores(GatheredScores& scores, const Criterion& criterion, const GraphModule& model,
                   std::span<const WeightedLayer> layers);

}  // namespace podaq
