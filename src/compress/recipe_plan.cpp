#include "compress/recipe_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "compress/channel_plan.h"
#include "compress/prune_words.h"
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

std::string unit_of(const Pattern& pattern) {
  return std::holds_alternative<BlockPattern>(pattern) ? fmt::format("{} blocks", name_of(pattern)) : "weights";
}

// How many units a layer has, and how many of them may go.
struct Units {
  std::int64_t all = 0;
  std::int64_t prunable = 0;
};

Units units_of(const GraphModule& model, const Pattern& pattern, std::span<const WeightedLayer> layers) {
  Units units;
  for (const WeightedLayer& layer : layers) {
    const torch::Tensor weight = model.tensor(layer.weight);
    units.all += count_units(pattern, weight.sizes(), layer.groups);
    units.prunable += count_prunable_units(pattern, weight.sizes(), layer.groups);
  }
  return units;
}

void require_reachable(const GraphModule& model, const Recipe& recipe, const std::string& field,
                       std::span<const WeightedLayer> layers, double sparsity) {
  if (sparsity < 1.0) return;
  const Pattern& pattern = recipe.prune->pattern;
  const Units units = units_of(model, pattern, layers);
  if (units.all == 0) refuse_recipe(recipe, field, fmt::format("is {}, must be less than 1", sparsity));
  refuse_recipe(recipe, field,
                fmt::format("is {}, which would leave layers without any weight; the nearest reachable sparsity is {} "
                            "({} of {} {})",
                            sparsity, static_cast<double>(units.prunable) / static_cast<double>(units.all),
                            units.prunable, units.all, unit_of(pattern)));
}

// Each layer's share of the zeros where layers do not compete.
std::vector<double> layer_sparsities(const GraphModule& model, const PruneRecipe& prune,
                                     std::span<const WeightedLayer> layers) {
  std::vector<double> sparsities;
  std::vector<LayerExtent> extents;
  for (const WeightedLayer& layer : layers) {
    const Units units = units_of(model, prune.pattern, std::span(&layer, 1));
    const bool is_fixed = std::holds_alternative<NOfMPattern>(prune.pattern) && units.all > 0;
    sparsities.push_back(is_fixed ? static_cast<double>(units.prunable) / static_cast<double>(units.all)
                                  : prune.sparsity);
    extents.push_back({.units = units.all, .shape = model.tensor(layer.weight).sizes().vec()});
  }
  if (prune.distribution != Distribution::erk) return sparsities;
  const std::vector<std::int64_t> zeros = erk_zeros(extents, prune.sparsity);
  for (std::size_t i = 0; i < layers.size(); ++i)
    sparsities[i] = extents[i].units == 0 ? 0 : static_cast<double>(zeros[i]) / static_cast<double>(extents[i].units);
  return sparsities;
}

void require_scorable(const GraphModule& model, const Recipe& recipe, std::span<const PruneGroup> groups) {
  const PruneRecipe& prune = *recipe.prune;
  const bool has_threshold = std::holds_alternative<DeviationThreshold>(prune.criterion);
  for (const PruneGroup& group : groups) {
    if (group.sparsity == 0 && !has_threshold) continue;
    for (const WeightedLayer& layer : group.layers) {
      const std::string problem = problem_with(prune.criterion, model, layer);
      if (!problem.empty()) refuse_recipe(recipe, "prune.criterion", problem);
      if (prune.regrowth && !model.tensor(layer.weight).requires_grad())
        refuse_recipe(
            recipe, "prune.regrowth",
            fmt::format("needs gradients, but the weight of layer '{}' needs none; leave the layer out", layer.name));
    }
  }
}

std::vector<ChosenLayer> chosen_layers(const GraphModule& model, const PruneRecipe& prune,
                                       std::span<const WeightedLayer> layers) {
  std::vector<ChosenLayer> chosen;
  for (const WeightedLayer& layer : layers) {
    const auto exception =
        std::find_if(prune.by_layer.rbegin(), prune.by_layer.rend(),
                     [&](const LayerSparsity& candidate) { return may_prune(model, candidate.layers, layer); });
    if (exception != prune.by_layer.rend())
      chosen.push_back({.layer = layer,
                        .sparsity = exception->sparsity,
                        .field = fmt::format("prune.by_layer.\"{}\"", exception->layers)});
    else if (is_pooled(model, prune, layer))
      chosen.push_back({.layer = layer, .sparsity = prune.sparsity, .field = "prune.sparsity"});
  }
  return chosen;
}

std::int64_t default_update_every(const PruneRecipe& prune, std::int64_t ramp_steps) {
  const bool looks_at_every_step =
      prune.schedule == ScheduleKind::iterative || std::holds_alternative<DeviationThreshold>(prune.criterion);
  return looks_at_every_step ? 1 : std::max<std::int64_t>(1, ramp_steps / 100);
}

}  // namespace

bool is_pooled(const GraphModule& model, const PruneRecipe& prune, const WeightedLayer& layer) {
  const auto may_prune_by = [&](const std::string& glob) { return may_prune(model, glob, layer); };
  return std::ranges::any_of(prune.layers, may_prune_by) &&
         std::ranges::none_of(prune.by_layer, may_prune_by, &LayerSparsity::layers);
}

std::vector<WeightedLayer> choose_layers(const GraphModule& model, const Recipe& recipe, const std::string& field,
                                         std::span<const std::string> globs) {
  const std::vector<WeightedLayer> layers = weighted_layers(model.graph());
  for (const std::string& glob : globs) require_prunable(model, recipe, field, glob, layers);
  std::vector<WeightedLayer> chosen;
  for (const WeightedLayer& layer : layers)
    if (std::ranges::any_of(globs, [&](const std::string& glob) { return may_prune(model, glob, layer); }))
      chosen.push_back(layer);
  return chosen;
}

std::vector<PruneGroup> plan_pruning(const GraphModule& model, const Recipe& recipe) {
  const PruneRecipe& prune = recipe.prune.value();
  const std::vector<WeightedLayer> layers = weighted_layers(model.graph());
  const auto require_glob = [&](const std::string& field, const std::string& glob, bool is_pruned) {
    if (is_pruned)
      require_prunable(model, recipe, field, glob, layers);
    else  // asks for no zeros, so that none are missing
      require_match(recipe, field, glob, layers);
  };
  const bool prunes = target_sparsity(prune) > 0 || std::holds_alternative<DeviationThreshold>(prune.criterion);
  for (const std::string& glob : prune.layers) require_glob("prune.layers", glob, prunes);
  for (const LayerSparsity& exception : prune.by_layer)
    require_glob("prune.by_layer", exception.layers, exception.sparsity > 0);
  if (prunes && prune.layers.empty() && prune.by_layer.empty())
    refuse_recipe(recipe, "prune.layers",
                  fmt::format("is empty, so that no layer gets prune.sparsity {}; name layers (\"*\" for all) of: {}",
                              target_sparsity(prune), names_of(layers)));

  const std::vector<ChosenLayer> chosen = chosen_layers(model, prune, layers);
  if (std::holds_alternative<ChannelPattern>(prune.pattern)) {
    std::vector<PruneGroup> groups = plan_channels(model, recipe, chosen);
    require_scorable(model, recipe, groups);
    return groups;
  }
  PruneGroup pool{.layers = {}, .sparsity = prune.sparsity};
  std::vector<PruneGroup> groups;
  for (const ChosenLayer& choice : chosen) {
    if (choice.field == "prune.sparsity") {
      pool.layers.push_back(choice.layer);
      continue;
    }
    const std::span layer(&choice.layer, 1);
    require_reachable(model, recipe, choice.field, layer, choice.sparsity);
    const bool is_fixed = std::holds_alternative<NOfMPattern>(prune.pattern) && choice.sparsity > 0;
    groups.push_back(
        {.layers = {choice.layer}, .sparsity = is_fixed ? layer_sparsities(model, prune, layer)[0] : choice.sparsity});
  }
  require_reachable(model, recipe, "prune.sparsity", pool.layers, prune.sparsity);

  if (prune.distribution == Distribution::global) {
    if (!pool.layers.empty()) groups.push_back(pool);
  } else {
    const std::vector<double> sparsities = layer_sparsities(model, prune, pool.layers);
    for (std::size_t i = 0; i < pool.layers.size(); ++i)
      groups.push_back({.layers = {pool.layers[i]}, .sparsity = sparsities[i]});
  }
  const auto is_whole = [](const PruneGroup& group) { return group.sparsity == 0; };
  if (std::holds_alternative<NOfMPattern>(prune.pattern) && std::ranges::all_of(groups, is_whole))
    refuse_recipe(recipe, "prune.pattern",
                  fmt::format("is {}, which prunes no weight of the chosen layers: none has more inputs per group; "
                              "choose others or another pattern",
                              name_of(prune.pattern)));
  require_scorable(model, recipe, groups);
  return groups;
}

PrunerOptions plan_schedule(const Recipe& recipe, std::int64_t begin, std::int64_t end, std::int64_t steps_per_epoch) {
  const PruneRecipe& prune = recipe.prune.value();
  const std::int64_t steps = end - begin;
  const auto require_fitting = [&](const std::string& field, std::int64_t value) {
    if (steps > 0 && value > steps)
      refuse_recipe(recipe, field,
                    fmt::format("is {}, but the prune stage has {} optimizer steps; the largest that fits is {}", value,
                                steps, steps));
  };
  const std::int64_t update_every = prune.update_every.value_or(default_update_every(prune, steps));
  require_fitting("prune.update_every", update_every);
  if (prune.rounds) require_fitting("prune.rounds", *prune.rounds);
  if (prune.regrowth && prune.regrowth->every >= steps)
    refuse_recipe(recipe, "prune.regrowth",
                  fmt::format("has every = {}, but the prune stage has {} optimizer steps, so that masks would never "
                              "move; it must be less",
                              prune.regrowth->every, steps));
  PrunerOptions options{.criterion = prune.criterion,
                        .pattern = prune.pattern,
                        .schedule = {.kind = prune.schedule,
                                     .initial_sparsity = prune.initial_sparsity,
                                     .begin = begin,
                                     .end = end,
                                     .update_every = update_every,
                                     .rounds = prune.rounds.value_or(1)},
                        .regrowth = prune.regrowth};
  if (prune.rewind_epoch)
    options.rewind_step = std::llround(*prune.rewind_epoch * static_cast<double>(steps_per_epoch));
  return options;
}

}  // namespace podaq::compress_detail
