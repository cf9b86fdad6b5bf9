#include "compress/recipe_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/glob.h"

namespace podaq::compress_detail {
namespace {

[[noreturn]] void refuse(const Recipe& recipe, const std::string& field, const std::string& problem) {
  const auto origin = recipe.origins.find(field);
  throw Error(ErrorCode::recipe,
              fmt::format("{}: {} {}", origin == recipe.origins.end() ? "recipe" : origin->second, field, problem));
}

bool has_weights(const Node& node) {
  return std::holds_alternative<Conv>(node.op) || std::holds_alternative<Linear>(node.op);
}

void require_match(const Recipe& recipe, const std::string& field, const std::string& glob,
                   std::span<const WeightedLayer> layers) {
  const auto matches = [&](const WeightedLayer& layer) { return chooses_layer(glob, layer); };
  if (std::any_of(layers.begin(), layers.end(), matches)) return;
  std::string known;
  for (const WeightedLayer& layer : layers) known += (known.empty() ? "" : ", ") + layer.name;
  refuse(recipe, fmt::format("{}.\"{}\"", field, glob),
         fmt::format("matches no layer; the network's layers are: {}", known));
}

bool is_chosen(std::span<const std::string> globs, const WeightedLayer& layer) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return chooses_layer(glob, layer); });
}

// Wildcards pass over frozen layers; a name without one means that very layer.
bool may_prune(const GraphModule& model, const std::string& glob, const WeightedLayer& layer) {
  return chooses_layer(glob, layer) && (is_literal_glob(glob) || model.tensor(layer.weight).requires_grad());
}

void require_reachable(const GraphModule& model, const Recipe& recipe, const std::string& field,
                       std::span<const WeightedLayer> layers, double sparsity) {
  if (sparsity < 1.0) return;
  std::int64_t weights = 0;
  for (const WeightedLayer& layer : layers) weights += model.tensor(layer.weight).numel();
  const auto reachable = static_cast<double>(weights - std::ssize(layers)) / static_cast<double>(weights);
  refuse(recipe, field,
         fmt::format("is {}, which would leave layers without any weight; the nearest reachable sparsity is {} ({} of "
                     "{} weights)",
                     sparsity, reachable, weights - std::ssize(layers), weights));
}

}  // namespace

std::vector<PruneGroup> plan_pruning(const GraphModule& model, const Recipe& recipe) {
  const PruneRecipe& prune = recipe.prune.value();
  const std::vector<WeightedLayer> layers = weighted_layers(model.graph());
  for (const std::string& glob : prune.layers) require_match(recipe, "prune.layers", glob, layers);
  for (const LayerSparsity& exception : prune.by_layer)
    require_match(recipe, "prune.by_layer", exception.layers, layers);

  PruneGroup pool{.layers = {}, .sparsity = prune.sparsity};
  std::vector<PruneGroup> groups;
  for (const WeightedLayer& layer : layers) {
    const auto exception =
        std::find_if(prune.by_layer.rbegin(), prune.by_layer.rend(),
                     [&](const LayerSparsity& candidate) { return may_prune(model, candidate.layers, layer); });
    if (exception != prune.by_layer.rend()) {
      require_reachable(model, recipe, fmt::format("prune.by_layer.\"{}\"", exception->layers), std::span(&layer, 1),
                        exception->sparsity);
      groups.push_back({.layers = {layer}, .sparsity = exception->sparsity});
    } else if (std::any_of(prune.layers.begin(), prune.layers.end(),
                           [&](const std::string& glob) { return may_prune(model, glob, layer); })) {
      pool.layers.push_back(layer);
    }
  }
  require_reachable(model, recipe, "prune.sparsity", pool.layers, prune.sparsity);

  if (prune.scope == PruneScope::global) {
    if (!pool.layers.empty()) groups.push_back(pool);
  } else {
    for (const WeightedLayer& layer : pool.layers) groups.push_back({.layers = {layer}, .sparsity = prune.sparsity});
  }
  return groups;
}

QuantizationPlan plan_quantization(const GraphModule& model, const Recipe& recipe) {
  const QuantizeRecipe& quantize = recipe.quantize.value();
  std::vector<WeightedLayer> layers;  // tied ones too: each works on codes of its own
  for (const Step& step : model.steps()) {
    const Node& node = model.graph().nodes[step.node];
    if (has_weights(node)) layers.push_back({.name = node.name, .weight = node.tensors.at(0)});
  }
  for (const std::string& glob : quantize.layers) require_match(recipe, "quantize.layers", glob, layers);
  for (const std::string& glob : quantize.float_layers) require_match(recipe, "quantize.float_layers", glob, layers);
  for (const LayerBits& exception : quantize.weight_bits_by_layer)
    require_match(recipe, "quantize.weight_bits_by_layer", exception.layers, layers);

  QuantizationPlan plan;
  for (const Step& step : model.steps()) {
    const Node& node = model.graph().nodes[step.node];
    if (!has_weights(node)) {
      plan.chosen.push_back(false);
      plan.weight_bits.push_back(8);
      continue;
    }
    const WeightedLayer layer{.name = node.name, .weight = node.tensors.at(0)};
    plan.chosen.push_back(is_chosen(quantize.layers, layer) && !is_chosen(quantize.float_layers, layer));
    const auto exception =
        std::find_if(quantize.weight_bits_by_layer.rbegin(), quantize.weight_bits_by_layer.rend(),
                     [&](const LayerBits& candidate) { return chooses_layer(candidate.layers, layer); });
    const bool is_exception = exception != quantize.weight_bits_by_layer.rend();
    plan.weight_bits.push_back(is_exception ? exception->weight_bits : quantize.weight_bits);
  }
  return plan;
}

}  // namespace podaq::compress_detail
