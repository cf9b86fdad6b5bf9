#include "compress/channel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "compress/refuse_recipe.h"
#include "podaq/prune/channel_sets.h"

namespace podaq::compress_detail {
namespace {

// Layers that lose their channels together.
struct TiedLayers {
  std::vector<ChosenLayer> layers;
  std::int64_t channels = 0;
  std::int64_t sets = 0;

  [[nodiscard]] double sparsity() const { return layers.front().sparsity; }
  [[nodiscard]] bool is_pool() const {
    return std::ranges::all_of(layers, [](const ChosenLayer& layer) { return layer.field == "prune.sparsity"; });
  }
};

bool computes(const ChannelSet& set, const std::string& layer) {
  return std::ranges::find(set.layers, layer) != set.layers.end();
}

bool is_chosen(std::span<const ChosenLayer> chosen, const std::string& name) {
  return std::ranges::any_of(chosen, [&](const ChosenLayer& other) { return other.layer.name == name; });
}

// The sets that chosen layers alone compute.
std::vector<ChannelSet> usable_sets(const GraphModule& model, std::span<const ChosenLayer> chosen) {
  std::vector<ChannelSet> sets = find_prunable_channels(model.graph()).sets;
  std::erase_if(sets, [&](const ChannelSet& set) {
    return !std::ranges::all_of(set.layers, [&](const std::string& layer) { return is_chosen(chosen, layer); });
  });
  return sets;
}

std::string reason_of(const GraphModule& model, std::span<const ChosenLayer> chosen, const std::string& layer) {
  for (const ChannelSet& set : find_prunable_channels(model.graph()).sets)
    if (computes(set, layer))
      for (const std::string& other : set.layers)
        if (!is_chosen(chosen, other))
          return fmt::format("'{}' can lose channels only together with '{}', which the recipe does not prune", layer,
                             other);
  return fmt::format("the channels of '{}' must stay: the network's inputs or outputs or what follows need them",
                     layer);
}

void require_zeros_of_each_glob(const GraphModule& model, const Recipe& recipe, std::span<const ChosenLayer> chosen,
                                std::span<const ChannelSet> sets) {
  const auto check = [&](const std::string& field, const std::string& glob) {
    const ChosenLayer* matched = nullptr;
    for (const ChosenLayer& candidate : chosen) {
      if (candidate.sparsity == 0 || !chooses_layer(glob, candidate.layer)) continue;
      matched = &candidate;
      for (const ChannelSet& set : sets)
        if (computes(set, candidate.layer.name)) return;
    }
    if (matched == nullptr) return;
    refuse_recipe(recipe, fmt::format("{}.\"{}\"", field, glob),
                  fmt::format("matches no layer that can lose channels: {}; choose other layers, or leave it out",
                              reason_of(model, chosen, matched->layer.name)));
  };
  for (const std::string& glob : recipe.prune->layers) check("prune.layers", glob);
  for (const LayerSparsity& exception : recipe.prune->by_layer)
    if (exception.sparsity > 0) check("prune.by_layer", exception.layers);
}

// Components of the layers under "compute a set together", in execution order.
std::vector<TiedLayers> tied_layers(std::span<const ChosenLayer> chosen, std::span<const ChannelSet> sets) {
  std::vector<std::size_t> component(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) component[i] = i;
  for (const ChannelSet& set : sets) {
    std::set<std::size_t> joined;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (computes(set, chosen[i].layer.name)) joined.insert(component[i]);
    for (std::size_t& of_layer : component)
      if (joined.contains(of_layer)) of_layer = *joined.begin();
  }
  std::vector<TiedLayers> tied;
  for (std::size_t first = 0; first < chosen.size(); ++first) {
    TiedLayers layers;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (component[i] == first) layers.layers.push_back(chosen[i]);
    if (layers.layers.empty()) continue;
    for (const ChannelSet& set : sets)
      if (is_chosen(layers.layers, set.layers.front())) {
        layers.channels += std::ssize(set.groups);
        ++layers.sets;
      }
    if (layers.sets > 0) tied.push_back(std::move(layers));
  }
  return tied;
}

void require_one_sparsity(const Recipe& recipe, const TiedLayers& tied) {
  for (const ChosenLayer& layer : tied.layers)
    if (layer.sparsity != tied.sparsity()) {
      const ChosenLayer& first = tied.layers.front();
      const ChosenLayer& exception = layer.field == "prune.sparsity" ? first : layer;
      refuse_recipe(recipe, exception.field,
                    fmt::format("is {}, but '{}' and '{}' lose their channels together, and of the other {} is asked; "
                                "give both the same",
                                exception.sparsity, first.layer.name, layer.layer.name,
                                &exception == &first ? layer.sparsity : first.sparsity));
    }
}

void require_channels_left(const Recipe& recipe, std::span<const TiedLayers> tied) {
  for (const TiedLayers& layers : tied) {
    if (layers.sparsity() < 1) continue;
    const std::int64_t prunable = layers.channels - layers.sets;
    refuse_recipe(
        recipe, layers.layers.front().field,
        fmt::format("is {}, which would leave layer '{}' without any channel; the nearest reachable sparsity "
                    "is {} ({} of {} channels)",
                    layers.sparsity(), layers.layers.front().layer.name,
                    static_cast<double>(prunable) / static_cast<double>(layers.channels), prunable, layers.channels));
  }
}

PruneGroup group_of(const TiedLayers& tied, double sparsity) {
  PruneGroup group{.layers = {}, .sparsity = sparsity};
  for (const ChosenLayer& layer : tied.layers) group.layers.push_back(layer.layer);
  return group;
}

}  // namespace

std::vector<PruneGroup> plan_channels(const GraphModule& model, const Recipe& recipe,
                                      std::span<const ChosenLayer> chosen) {
  const PruneRecipe& prune = *recipe.prune;
  const std::vector<ChannelSet> sets = usable_sets(model, chosen);
  require_zeros_of_each_glob(model, recipe, chosen, sets);
  const std::vector<TiedLayers> tied = tied_layers(chosen, sets);
  for (const TiedLayers& layers : tied) require_one_sparsity(recipe, layers);
  require_channels_left(recipe, tied);

  std::vector<LayerExtent> extents;  // of the pool; a layer stands for those tied to it
  for (const TiedLayers& layers : tied)
    if (layers.is_pool())
      extents.push_back(
          {.units = layers.channels, .shape = model.tensor(layers.layers.front().layer.weight).sizes().vec()});
  std::vector<std::int64_t> zeros;
  if (prune.distribution == Distribution::erk) zeros = erk_zeros(extents, prune.sparsity);

  std::vector<PruneGroup> groups;
  PruneGroup pool{.layers = {}, .sparsity = prune.sparsity};
  std::size_t place = 0;  // in the pool
  for (const TiedLayers& layers : tied) {
    PruneGroup group = group_of(layers, layers.sparsity());
    if (layers.is_pool() && prune.distribution == Distribution::global) {
      pool.layers.insert(pool.layers.end(), group.layers.begin(), group.layers.end());
      continue;
    }
    if (layers.is_pool() && prune.distribution == Distribution::erk)
      group.sparsity = static_cast<double>(zeros[place]) / static_cast<double>(extents[place].units);
    place += layers.is_pool() ? 1 : 0;
    groups.push_back(std::move(group));
  }
  if (!pool.layers.empty()) groups.push_back(std::move(pool));
  return groups;
}

}  // namespace podaq::compress_detail
