#include "podaq/prune/masks.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "podaq/core/glob.h"
#include "podaq/graph/steps.h"
#include "prune/weight_rows.h"
#include "training/memory_layout.h"

namespace podaq {

std::vector<WeightedLayer> weighted_layers(const Graph& graph) {
  const std::vector<Step> steps = find_steps(graph);
  std::vector<WeightedLayer> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto* conv = std::get_if<Conv>(&node.op);
    if (conv == nullptr && !std::holds_alternative<Linear>(node.op)) continue;
    WeightedLayer layer{.name = node.name, .weight = node.tensors.at(0), .index = layers.size()};
    if (std::ranges::find(layers, layer.weight, &WeightedLayer::weight) != layers.end()) continue;
    if (conv != nullptr) layer.groups = conv->groups;
    if (const auto step = std::ranges::find(steps, i, &Step::node); step != steps.end() && step->batch_norm)
      layer.batch_norm_weight = graph.nodes[*step->batch_norm].tensors.at(0);
    layers.push_back(std::move(layer));
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
    const bool takes_one_pass = training_detail::takes_one_pass(weight) && weight.is_contiguous() &&
                                mask.device().is_cpu() && mask.is_contiguous();
    if (takes_one_pass)  // several times as fast as masked_fill_
      prune_detail::write_where(mask.const_data_ptr<bool>(), 0.0F, weight.mutable_data_ptr<float>(), weight.numel());
    else
      weight.masked_fill_(mask.to(weight.device()), 0.0);
  }
}

std::int64_t count_pruned(const torch::Tensor& mask) {
  return mask.defined() ? mask.sum().item<std::int64_t>() : 0;
}

}  // namespace podaq
