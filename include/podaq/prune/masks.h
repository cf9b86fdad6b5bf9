#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "podaq/training/graph_module.h"

namespace podaq {

/// A conv or linear layer's weight.
struct WeightedLayer {
  std::string name;                    ///< The node's name: "features.0". Of tied layers, the first.
  std::string weight;                  ///< The tensor's name: "features.0.weight".
  std::size_t index = 0;               ///< Its place in `weighted_layers`.
  std::int64_t groups = 1;             ///< Of a convolution.
  std::string batch_norm_weight = {};  ///< The weight of the batch norm in the layer's step; "" where there is none.
};

/// Every conv and linear layer of a network, each weight once, in execution order.
[[nodiscard]] std::vector<WeightedLayer> weighted_layers(const Graph& graph);

/// Whether a glob (see matches_glob) chooses the layer, by its own or its weight's name.
[[nodiscard]] bool chooses_layer(const std::string& pattern, const WeightedLayer& layer);

/// Pruning masks by tensor name: bool, of the tensor's shape, true where a weight is pruned.
using Masks = std::map<std::string, torch::Tensor>;

/// Writes +0.0 over every pruned weight, in place and outside autograd; infinities and NaN become 0 too. To be called
/// after each optimizer step: momentum and weight decay move masked weights.
void apply_masks(const GraphModule& model, const Masks& masks);

/// How many weights a mask prunes.
[[nodiscard]] std::int64_t count_pruned(const torch::Tensor& mask);

}  // namespace podaq
