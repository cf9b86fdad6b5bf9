#include "compress/recipe_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "compress/refuse_recipe.h"
#include "podaq/core/glob.h"

namespace podaq::compress_detail {
namespace {

std::string names_of(std::span<const WeightedLayer> layers) {
  std::string names;
  for (const WeightedLayer& layer : layers) names += (names.empty() ? "" : ", ") + layer.name;
  return names;
}

void require_match(const Recipe& recipe, const std::string& field, const std::string& glob,
                   std::span<const WeightedLayer> layers) {
  const auto matches = [&](const WeightedLayer& layer) { return chooses_layer(glob, layer); };
  compress_detail::require_match(recipe, field, glob, std::any_of(layers.begin(), layers.end(), matches), "layer",
                                 names_of(layers));
}

// Wildcards pass over frozen layers; a name without one means that very layer.
bool may_prune(const GraphModule& model, const std::string& glob, const WeightedLayer& layer) {
  return chooses_layer(glob, layer) && (is_literal_glob(glob) || model.tensor(layer.weight).requires_grad());
}

// A glob that passes over every layer it matches would leave the recipe without the zeros that it promises.
void require_prunable(const GraphModule& model, const Recipe& recipe, const std::string& field, const std::string& glob,
                      std::span<const WeightedLayer> layers) {
  require_match(recipe, field, glob, layers);
  std::vector<WeightedLayer> matched;
  for (const WeightedLayer& layer : layers) {
    if (may_prune(model, glob, layer)) return;
    if (chooses_layer(glob, layer)) matched.push_back(layer);
  }
  refuse_recipe(
      recipe, fmt::format("{}.\"{}\"", field, glob),
      fmt::format("matches only layers whose weights need no gradient ({}), which wildcards leave alone; name them "
                  "without a wildcard to prune them all the same, or leave the glob out",
                  names_of(matched)));
}

void require_reachable(const GraphModule& model, const Recipe& recipe, const std::string& field,
                       std::span<const WeightedLayer> layers, double sparsity) {
  if (sparsity < 1.0) return;
  std::int64_t weights = 0;
  std::int64_t kept = 0;
  for (const WeightedLayer& layer : layers) {
    weights += model.tensor(layer.weight).numel();
    kept += model.tensor(layer.weight).numel() > 0 ? 1 : 0;
  }
  if (weights == 0) refuse_recipe(recipe, field, fmt::format("is {}, must be less than 1", sparsity));
  refuse_recipe(
      recipe, field,
      fmt::format("is {}, which would leave layers without any weight; the nearest reachable sparsity is {} ({} of "
                  "{} weights)",
                  sparsity, static_cast<double>(weights - kept) / static_cast<double>(weights), weights - kept,
                  weights));
}

}  // namespace

std::vector<PruneGroup> plan_pruning(const GraphModule& model, const Recipe& recipe) {
  const PruneRecipe& prune = recipe.prune.value();
  const std::vector<WeightedLayer> layers = weighted_layers(model.graph());
  const auto require_glob = [&](const std::string& field, const std::string& glob, double sparsity) {
    if (sparsity > 0)
      require_prunable(model, recipe, field, glob, layers);
    else  // asks for no zeros, so that none are missing
      require_match(recipe, field, glob, layers);
  };
  for (const std::string& glob : prune.layers) require_glob("prune.layers", glob, prune.sparsity);
  for (const LayerSparsity& exception : prune.by_layer)
    require_glob("prune.by_layer", exception.layers, exception.sparsity);
  if (prune.sparsity > 0 && prune.layers.empty() && prune.by_layer.empty())
    refuse_recipe(recipe, "prune.layers",
                  fmt::format("is empty, so that no layer gets prune.sparsity {}; name layers (\"*\" for all) of: {}",
                              prune.sparsity, names_of(layers)));

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

}  // namespace podaq::compress_detail
