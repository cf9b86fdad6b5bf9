#include "podaq/prune/masks.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <variant>

#include "podaq/core/glob.h"

namespace podaq {

std::vector<WeightedLayer> weighted_layers(const Graph& graph) {
  std::vector<WeightedLayer> layers;
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<Conv>(node.op) && !std::holds_alternative<Linear>(node.op)) continue;
    const std::string& weight = node.tensors.at(0);
    const bool is_known =
        std::any_of(layers.begin(), layers.end(), [&](const WeightedLayer& layer) { return layer.weight == weight; });
    if (!is_known) layers.push_back({.name = node.name, .weight = weight});
  }
  return layers;
}

bool chooses_layer(const std::string& pattern, const WeightedLayer& layer) {
  return matches_glob(pattern, layer.name) || matches_glob(pattern, layer.weight);
}

void apply_masks(const GraphModule& model, const Masks& masks) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, mask] : masks) {
    torch::Tensor weight = model.tensor(name);
    weight.masked_fill_(mask.to(weight.device()), 0.0);
  }
}

std::int64_t count_pruned(const torch::Tensor& mask) {
  return mask.defined() ? mask.sum().item<std::int64_t>() : 0;
}

}  // namespace podaq
