#include "compress/candidates.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "compress/auto_recipe.h"
#include "compress/quantization_plan.h"
#include "compress/recipe_plan.h"
#include "podaq/prune/pattern.h"

namespace podaq::compress_detail {
namespace {

std::vector<std::size_t> steps_on(const GraphModule& model, const std::string& weight) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < model.steps().size(); ++i) {
    const Node& node = model.graph().nodes[model.steps()[i].node];
    if (has_weights(node.op) && node.tensors.at(0) == weight) steps.push_back(i);
  }
  return steps;
}

// What the recipe says of each layer where it does not search.
class GivenRecipe {
 public:
  GivenRecipe(const GraphModule& model, const Recipe& recipe) : model_(model), recipe_(recipe) {
    if (recipe.prune)
      for (const PruneGroup& group : plan_pruning(model, recipe))
        for (const WeightedLayer& layer : group.layers) sparsities_[layer.weight] = group.sparsity;
    if (recipe.quantize) quantization_ = plan_quantization(model, recipe);
  }

  [[nodiscard]] bool leaves_sparsity_open(const WeightedLayer& layer) const {
    if (!recipe_.prune || !is_pooled(model_, *recipe_.prune, layer)) return false;
    return count_prunable_units(recipe_.prune->pattern, model_.tensor(layer.weight).sizes(), layer.groups) > 0;
  }

  [[nodiscard]] double sparsity(const WeightedLayer& layer) const {
    const auto found = sparsities_.find(layer.weight);
    return found == sparsities_.end() ? 0.0 : found->second;
  }

  // 32 where one of the steps stays float.
  [[nodiscard]] int bits(const std::vector<std::size_t>& steps) const {
    for (const std::size_t step : steps)
      if (!quantization_ || !quantization_->placement.on_codes[step]) return 32;
    return quantization_->options.weights[steps.at(0)].bits;
  }

  [[nodiscard]] bool leaves_bits_open(const std::vector<std::size_t>& steps) const {
    if (bits(steps) == 32) return false;
    return std::ranges::none_of(steps, [&](std::size_t step) {
      const Node& node = model_.graph().nodes[model_.steps()[step].node];
      return std::ranges::any_of(recipe_.quantize->weight_bits_by_layer, [&](const BitsFor& exception) {
        return chooses_layer(exception.names, {.name = node.name, .weight = node.tensors.at(0)});
      });
    });
  }

 private:
  const GraphModule& model_;
  const Recipe& recipe_;
  std::map<std::string, double> sparsities_;
  std::optional<QuantizationPlan> quantization_;
};

}  // namespace

std::vector<SearchedLayer> searched_layers(const GraphModule& model, const Recipe& recipe) {
  const std::vector<double> sparsities = searched_sparsities(recipe);
  const std::vector<int> bits = searched_bits(recipe);
  const GivenRecipe given(model, recipe);
  std::vector<SearchedLayer> result;
  for (const WeightedLayer& layer : weighted_layers(model.graph())) {
    SearchedLayer searched{.layer = layer, .steps = steps_on(model, layer.weight)};
    searched.searches_sparsity = given.leaves_sparsity_open(layer);
    searched.searches_bits = given.leaves_bits_open(searched.steps);
    if (!searched.searches_sparsity && !searched.searches_bits) continue;
    for (const double sparsity : searched.searches_sparsity ? sparsities : std::vector{given.sparsity(layer)})
      for (const int weight_bits : searched.searches_bits ? bits : std::vector{given.bits(searched.steps)})
        searched.candidates.push_back({.sparsity = sparsity, .weight_bits = weight_bits});
    result.push_back(std::move(searched));
  }
  return result;
}

Recipe with_candidates(const Recipe& recipe, std::span<const SearchedLayer> layers,
                       std::span<const LayerCandidate> chosen) {
  Recipe result = recipe;
  result.automatic.reset();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const SearchedLayer& searched = layers[i];
    if (searched.searches_sparsity)
      result.prune->by_layer.push_back({.layers = searched.layer.name, .sparsity = chosen[i].sparsity});
    // Steps on a tied weight bear different names.
    if (searched.searches_bits)
      result.quantize->weight_bits_by_layer.push_back(
          {.names = searched.steps.size() == 1 ? searched.layer.name : searched.layer.weight,
           .bits = chosen[i].weight_bits});
  }
  const auto is_whole = [](const LayerSparsity& layer) { return layer.sparsity == 0; };
  if (result.prune && std::ranges::all_of(result.prune->by_layer, is_whole)) {
    result.prune.reset();
    result.epochs.dense += result.epochs.prune + result.epochs.recover;
    result.epochs.prune = 0;
    result.epochs.recover = 0;
  }
  return result;
}

}  // namespace podaq::compress_detail
