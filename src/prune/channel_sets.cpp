#include "podaq/prune/channel_sets.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "podaq/numerics/activations.h"

namespace podaq {
namespace {

bool holds_zero(const std::optional<Clamp>& clamp) {
  return !clamp || (clamp->minimum <= 0 && clamp->maximum >= 0);
}

// Whether an op makes 0 of channels whose own tensors are masked, whatever it reads.
bool silences(const Node& node) {
  if (const auto* conv = std::get_if<Conv>(&node.op)) return !conv->adds_input && holds_zero(conv->clamp);
  if (const auto* linear = std::get_if<Linear>(&node.op)) return !linear->adds_input && holds_zero(linear->clamp);
  return std::holds_alternative<BatchNorm>(node.op) && !node.tensors.at(0).empty();
}

bool keeps_zero(const Op& op) {
  if (const auto* clamp = std::get_if<Clamp>(&op)) return holds_zero(*clamp);
  if (const auto* add = std::get_if<Add>(&op)) return holds_zero(add->clamp);
  if (const auto* affine = std::get_if<Affine>(&op)) return affine->offset == 0;
  if (const auto* activation = std::get_if<Activation>(&op))
    return numerics::activate(activation->kind, activation->alpha, 0.0F) == 0;
  return !std::holds_alternative<Softmax>(op);
}

// Whether masked channels are 0 there, by value.
std::vector<bool> silent_values(const Graph& graph) {
  std::vector<bool> is_silent(graph.values.size(), true);
  for (const Node& node : graph.nodes) {
    const auto is_zero = [&](ValueId input) { return static_cast<bool>(is_silent[input]); };
    const bool some = std::ranges::any_of(node.inputs, is_zero);
    const bool all = std::ranges::all_of(node.inputs, is_zero);
    is_silent[node.output] =
        silences(node) || (keeps_zero(node.op) && (std::holds_alternative<Mul>(node.op) ? some : all));
  }
  return is_silent;
}

// A depthwise convolution reads no channel but the one that goes with its own.
bool mixes_channels(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<Conv>(&node.op);
  if (conv == nullptr) return std::holds_alternative<Linear>(node.op);
  return conv->groups == 1 || tensor_at(graph, node.tensors.at(0)).shape.at(1) > 1;
}

// Channels that a weight reads where they are not 0 while masked.
void mark_audible(const Graph& graph, const ChannelGroups& groups, std::vector<bool>& must_stay) {
  const std::vector<bool> is_silent = silent_values(graph);
  for (const Node& node : graph.nodes)
    if (mixes_channels(graph, node) && !is_silent[node.inputs[0]])
      for (const std::size_t group : groups.of_value[node.inputs[0]]) must_stay[group] = true;
}

std::vector<ChannelAxis> silenced_tensors(const Graph& graph, const ChannelGroups& groups) {
  std::vector<ChannelAxis> silenced;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes)
    for (ChannelAxis& axis : channel_axes(graph, node, groups)) {
      if (axis.dimension != 0) continue;
      if (std::holds_alternative<BatchNorm>(node.op)) {
        const bool has_weight = !node.tensors[0].empty();
        const bool is_affine = axis.tensor == node.tensors[0] || axis.tensor == node.tensors[1];
        const bool is_mean = axis.tensor == node.tensors[2];
        if (!is_affine && (has_weight || !is_mean)) continue;
      }
      if (seen.insert(axis.tensor).second) silenced.push_back(std::move(axis));
    }
  return silenced;
}

const ChannelAxis* axis_of(const PrunableChannels& channels, const std::string& tensor) {
  const auto found = std::ranges::find(channels.silenced, tensor, &ChannelAxis::tensor);
  return found == channels.silenced.end() ? nullptr : &*found;
}

}  // namespace

PrunableChannels find_prunable_channels(const Graph& graph) {
  PrunableChannels found{.groups = find_channel_groups(graph), .sets = {}, .silenced = {}};
  found.silenced = silenced_tensors(graph, found.groups);
  std::vector<bool> must_stay = found.groups.is_fixed;
  mark_audible(graph, found.groups, must_stay);

  std::vector<std::vector<std::string>> layers_of(found.groups.size());
  for (const WeightedLayer& layer : weighted_layers(graph))
    if (const ChannelAxis* axis = axis_of(found, layer.weight))
      for (const std::size_t group : axis->groups)
        if (layers_of[group].empty() || layers_of[group].back() != layer.name) layers_of[group].push_back(layer.name);

  std::vector<std::vector<std::size_t>> values_of(found.groups.size());
  for (std::size_t value = 0; value < found.groups.of_value.size(); ++value)
    for (const std::size_t group : found.groups.of_value[value])
      if (values_of[group].empty() || values_of[group].back() != value) values_of[group].push_back(value);

  std::map<std::vector<std::size_t>, std::size_t> set_of;  // by values
  for (std::size_t group = 0; group < found.groups.size(); ++group) {
    if (must_stay[group] || layers_of[group].empty()) continue;
    const auto [entry, is_new] = set_of.try_emplace(values_of[group], found.sets.size());
    if (is_new) found.sets.push_back({.groups = {}, .layers = layers_of[group]});
    found.sets[entry->second].groups.push_back(group);
  }
  return found;
}

std::vector<bool> pruned_channels(const Graph& graph, const PrunableChannels& channels, const Masks& masks) {
  std::vector<bool> pruned(channels.groups.size(), false);
  for (const ChannelSet& set : channels.sets)
    for (const std::size_t group : set.groups) pruned[group] = true;
  for (const WeightedLayer& layer : weighted_layers(graph)) {
    const ChannelAxis* axis = axis_of(channels, layer.weight);
    if (axis == nullptr) continue;
    const auto mask = masks.find(layer.weight);
    torch::Tensor rows = torch::zeros({std::ssize(axis->groups)}, torch::kBool);
    if (mask != masks.end()) rows = mask->second.flatten(1).all(1).to(torch::kCPU).contiguous();
    const bool* is_masked = rows.const_data_ptr<bool>();
    for (std::size_t i = 0; i < axis->groups.size(); ++i)
      if (!is_masked[i]) pruned[axis->groups[i]] = false;
  }
  return pruned;
}

}  // namespace podaq
