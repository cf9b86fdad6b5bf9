#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/prune/pruner.h"
#include "podaq/prune/selection.h"
#include "podaq/training/tensor_cut.h"

// How a Pruner prunes under ChannelPattern.

namespace podaq {
namespace {

bool computes_all(const PruneGroup& group, const ChannelSet& set) {
  return std::ranges::all_of(set.layers, [&](const std::string& layer) {
    return std::ranges::find(group.layers, layer, &WeightedLayer::name) != group.layers.end();
  });
}

// Leaves a multiple of `align` units: of those chosen, the highest return.
torch::Tensor aligned(const torch::Tensor& chosen, const torch::Tensor& scores, std::int64_t align) {
  const std::int64_t kept = chosen.numel() - count_pruned(chosen);
  const std::int64_t multiple = std::min((kept + align - 1) / align * align, chosen.numel());
  return multiple == kept ? chosen : lowest(scores, chosen.numel() - multiple);
}

}  // namespace

void Pruner::find_sets(const Graph& graph) {
  channels_ = find_prunable_channels(graph);
  sets_.assign(groups_.size(), {});
  for (std::size_t i = 0; i < groups_.size(); ++i)
    std::ranges::copy_if(channels_->sets, std::back_inserter(sets_[i]),
                         [&](const ChannelSet& set) { return computes_all(groups_[i], set); });
}

void Pruner::prune_channels(const GraphModule& model, std::size_t index, std::int64_t zeros) {
  const std::vector<double> score_of = channel_scores(model, groups_[index]);
  std::vector<bool> pruned = pruned_channels(model.graph(), *channels_, state_.masks);
  std::vector<torch::Tensor> rows;
  for (const ChannelSet& set : sets_[index]) {
    std::vector<double> scores;
    torch::Tensor is_pruned = torch::empty({std::ssize(set.groups)}, torch::kBool);
    bool* flag = is_pruned.mutable_data_ptr<bool>();
    for (const std::size_t channel : set.groups) {
      scores.push_back(score_of[channel]);
      *flag++ = pruned[channel];
    }
    rows.push_back(with_pruned_first(torch::tensor(scores, torch::kDouble), is_pruned));
  }
  const std::vector<torch::Tensor> chosen = lowest_units(rows, zeros);
  const std::int64_t align = std::get<ChannelPattern>(options_.pattern).align;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const torch::Tensor row = aligned(chosen[i], rows[i], align).contiguous();
    const std::vector<std::size_t>& channels = sets_[index][i].groups;
    for (std::size_t j = 0; j < channels.size(); ++j) pruned[channels[j]] = row.const_data_ptr<bool>()[j];
  }
  mask_channels(model, index, pruned);
}

// The loss changes by the sum of what it changes for each layer, as far as Taylor and movement tell; magnitudes and the
// other criteria are summed likewise.
std::vector<double> Pruner::channel_scores(const GraphModule& model, const PruneGroup& group) const {
  std::vector<double> sums(channels_->groups.size(), 0.0);
  for (const ChannelAxis& axis : channels_->silenced) {
    const auto layer = std::ranges::find(group.layers, axis.tensor, &WeightedLayer::weight);
    if (layer == group.layers.end()) continue;
    const torch::Tensor row = raw_scores_of(model, *layer).to(torch::kCPU, torch::kDouble).contiguous();
    for (std::size_t i = 0; i < axis.groups.size(); ++i) sums[axis.groups[i]] += row.const_data_ptr<double>()[i];
  }
  return sums;
}

void Pruner::mask_channels(const GraphModule& model, std::size_t index, const std::vector<bool>& pruned) {
  std::vector<bool> is_own(pruned.size(), false);
  for (const ChannelSet& set : sets_[index])
    for (const std::size_t channel : set.groups) is_own[channel] = true;
  for (const ChannelAxis& axis : channels_->silenced) {
    if (std::ranges::none_of(axis.groups, [&](std::size_t channel) { return is_own[channel]; })) continue;
    torch::Tensor row = torch::empty({std::ssize(axis.groups)}, torch::kBool);
    bool* flag = row.mutable_data_ptr<bool>();
    for (const std::size_t channel : axis.groups) *flag++ = pruned[channel];
    const torch::Tensor tensor = model.tensor(axis.tensor);
    state_.masks[axis.tensor] = mask_of_units(options_.pattern, row, tensor.sizes(), /*groups=*/1).to(tensor.device());
  }
}

void Pruner::remove_channels(const SmallerGraph& smaller) {
  if (!is_settled(state_.updated_step))
    throw Error(ErrorCode::invalid_argument,
                "pruning: channels can be removed once the schedule is over, whose counts are those of the whole "
                "network");
  cut_tensors(state_.masks, smaller);
  std::erase_if(state_.masks, [](const auto& mask) { return count_pruned(mask.second) == 0; });
  const std::vector<WeightedLayer> layers = weighted_layers(smaller.graph);
  for (PruneGroup& group : groups_)
    for (WeightedLayer& layer : group.layers)  // depthwise convolutions have fewer groups
      layer = *std::ranges::find(layers, layer.weight, &WeightedLayer::weight);
  if (channels_) find_sets(smaller.graph);
}

}  // namespace podaq
