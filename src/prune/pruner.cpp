#include "podaq/prune/pruner.h"

#include <algorithm>
#include <utility>

#include "podaq/prune/magnitude.h"

namespace podaq {

Pruner::Pruner(std::vector<PruneGroup> groups, const SparsitySchedule& schedule)
    : groups_(std::move(groups)), schedule_(schedule) {}

void Pruner::update(const GraphModule& model, std::int64_t step) {
  if (step < schedule_.begin) return;
  for (const PruneGroup& group : groups_) prune_group(model, group, step);
  apply_masks(model, masks_);
}

void Pruner::prune_group(const GraphModule& model, const PruneGroup& group, std::int64_t step) {
  std::vector<torch::Tensor> weights;
  std::vector<torch::Tensor> previous;
  std::int64_t total = 0;
  std::int64_t layers_with_weights = 0;
  std::int64_t pruned = 0;
  for (const WeightedLayer& layer : group.layers) {
    weights.push_back(model.tensor(layer.weight));
    const auto mask = masks_.find(layer.weight);
    previous.push_back(mask == masks_.end() ? torch::Tensor() : mask->second);
    total += weights.back().numel();
    layers_with_weights += weights.back().numel() > 0 ? 1 : 0;
    pruned += count_pruned(previous.back());
  }

  SparsitySchedule schedule = schedule_;
  schedule.final_sparsity = group.sparsity;
  schedule.initial_sparsity = std::min(schedule.initial_sparsity, group.sparsity);
  const std::int64_t zeros = zeros_at(sparsity_at(schedule, step), total, layers_with_weights);
  if (zeros == pruned) return;

  std::vector<torch::Tensor> masks = magnitude_masks(weights, zeros, previous);
  for (std::size_t i = 0; i < masks.size(); ++i) masks_[group.layers[i].weight] = std::move(masks[i]);
}

}  // namespace podaq
