#include "compress/pruner_checkpoint.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "compress/checkpoint_tensors.h"
#include "podaq/prune/channel_sets.h"

namespace podaq::compress_detail {
namespace {

// What a pruner keeps of the weights that the recipe prunes, one tensor of the weight's shape each.
std::map<std::string, torch::Tensor> pruning_tensors(const std::filesystem::path& path, const GraphModule& model,
                                                     std::span<const PruneGroup> groups, const NamedTensors& saved,
                                                     bool are_masks, bool of_channels) {
  std::map<std::string, torch::Tensor> weights;
  for (const PruneGroup& group : groups)
    for (const WeightedLayer& layer : group.layers) weights.emplace(layer.weight, model.tensor(layer.weight));
  if (are_masks && of_channels)
    for (const ChannelAxis& axis : find_prunable_channels(model.graph()).silenced)
      weights.emplace(axis.tensor, model.tensor(axis.tensor));
  const std::string_view what = are_masks ? "mask" : "scores";
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : saved) {
    const auto weight = weights.find(name);
    if (weight == weights.end())
      refuse_checkpoint(path, fmt::format("holds the {} of '{}', which the recipe does not prune", what, name));
    const auto type = are_masks ? torch::kBool : weight->second.scalar_type();
    if (tensor.scalar_type() != type || tensor.sizes() != weight->second.sizes())
      refuse_checkpoint(path, fmt::format("the {} of '{}' does not fit it", what, name));
    tensors.emplace(name, are_masks ? tensor : torch::empty_like(weight->second.detach()).copy_(tensor));
  }
  return tensors;
}

}  // namespace

void write_pruner_state(torch::serialize::OutputArchive& archive, const PrunerState& state) {
  write_tensors(archive, "masks", named(state.masks));
  write_tensors(archive, "gathered_scores", named(state.gathered));
  write_tensors(archive, "snapshot", named(state.snapshot));
  archive.write("masks_updated_step", c10::IValue(state.updated_step));
}

PrunerState read_pruner_state(const std::filesystem::path& path, const GraphModule& model,
                              std::span<const PruneGroup> groups, bool prunes_channels,
                              torch::serialize::InputArchive& archive) {
  PrunerState state;
  state.masks =
      pruning_tensors(path, model, groups, read_tensors(archive, "masks"), /*are_masks=*/true, prunes_channels);
  state.gathered = pruning_tensors(path, model, groups, read_tensors(archive, "gathered_scores"), /*are_masks=*/false,
                                   prunes_channels);
  const NamedTensors snapshot = read_tensors(archive, "snapshot");
  if (!snapshot.empty()) {
    std::map<std::string, torch::Tensor> own;
    for (const auto& item : model.named_parameters()) own.emplace(item.key(), item.value());
    for (const auto& item : model.named_buffers()) own.emplace(item.key(), item.value());
    require_fitting(path, named(own), snapshot);
    state.snapshot = {snapshot.begin(), snapshot.end()};
  }
  state.updated_step = read_integer(archive, "masks_updated_step");
  return state;
}

}  // namespace podaq::compress_detail
