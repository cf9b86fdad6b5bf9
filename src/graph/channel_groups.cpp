#include "podaq/graph/channel_groups.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/node_access.h"

namespace podaq {

namespace {

using namespace graph_detail;

std::size_t channel_count(const Value& value) {
  return value.shape.empty() ? 1 : static_cast<std::size_t>(value.shape[0]);
}

// Elements of a channel.
std::size_t channel_size(const Value& value) {
  return static_cast<std::size_t>(element_count(value.shape)) / channel_count(value);
}

// A forest of channels; each tree becomes a group.
class Forest {
 public:
  std::size_t add() {
    parents_.push_back(parents_.size());
    fixed_.push_back(false);
    return parents_.size() - 1;
  }

  std::size_t root(std::size_t channel) {
    while (parents_[channel] != channel) channel = parents_[channel] = parents_[parents_[channel]];
    return channel;
  }

  void tie(std::size_t a, std::size_t b) {
    const std::size_t first = std::min(root(a), root(b));
    const std::size_t second = std::max(root(a), root(b));
    parents_[second] = first;
    if (fixed_[second]) fixed_[first] = true;
  }

  void fix(std::size_t channel) { fixed_[root(channel)] = true; }
  bool is_fixed(std::size_t channel) { return fixed_[root(channel)]; }

 private:
  std::vector<std::size_t> parents_;
  std::vector<bool> fixed_;
};

// Ties the channels of one graph.
class Grouper {
 public:
  explicit Grouper(const Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values) {
      std::vector<std::size_t>& channels = channels_.emplace_back();
      for (std::size_t i = 0; i < channel_count(value); ++i) channels.push_back(forest_.add());
    }
  }

  ChannelGroups groups() {
    for (const ValueId value : graph_.inputs) fix(value);
    for (const ValueId value : graph_.outputs) fix(value);
    for (const Node& node : graph_.nodes) std::visit([&](const auto& op) { tie(node, op); }, node.op);
    tie_shared_tensors();
    return number();
  }

 private:
  void fix(ValueId value) {
    for (const std::size_t channel : channels_[value]) forest_.fix(channel);
  }

  void tie_alike(ValueId a, ValueId b) {
    for (std::size_t i = 0; i < channels_[a].size(); ++i) forest_.tie(channels_[a][i], channels_[b][i]);
  }

  // Elementwise, poolings and whatever else keeps channels.
  template <typename Op>
  void tie(const Node& node, const Op&) {
    for (const ValueId input : node.inputs) tie_alike(input, node.output);
  }

  void tie(const Node& node, const Softmax&) {
    fix(node.inputs[0]);
    fix(node.output);
  }

  void tie(const Node& node, const Conv& conv) {
    if (conv.adds_input) tie_alike(node.inputs[1], node.output);
    if (conv.groups == 1) return;
    const auto& inputs = channels_[node.inputs[0]];
    const auto& outputs = channels_[node.output];
    const auto groups = static_cast<std::size_t>(conv.groups);
    const std::size_t inputs_each = inputs.size() / groups;
    const std::size_t outputs_each = outputs.size() / groups;
    if (inputs_each == 1) {  // a group goes with its only input
      for (std::size_t i = 0; i < outputs.size(); ++i) forest_.tie(outputs[i], inputs[i / outputs_each]);
      return;
    }
    for (std::size_t i = inputs_each; i < inputs.size(); ++i) forest_.tie(inputs[i], inputs[i % inputs_each]);
    for (std::size_t i = outputs_each; i < outputs.size(); ++i) forest_.tie(outputs[i], outputs[i % outputs_each]);
  }

  void tie(const Node& node, const Linear& linear) {
    if (linear.adds_input) tie_alike(node.inputs[1], node.output);
    if (graph_.values[node.inputs[0]].shape.size() == 1) return;
    fix(node.inputs[0]);
    fix(node.output);
  }

  void tie(const Node& node, const Concat& joined) {
    std::size_t first = 0;
    for (const ValueId input : node.inputs) {
      for (std::size_t i = 0; i < channels_[input].size(); ++i)
        forest_.tie(channels_[input][i], channels_[node.output][first + i]);
      if (joined.axis == 0) first += channels_[input].size();
    }
  }

  // Channels that hold the same elements.
  void tie(const Node& node, const Reshape&) {
    const ValueId input = node.inputs[0];
    const std::size_t input_size = channel_size(graph_.values[input]);
    const std::size_t output_size = channel_size(graph_.values[node.output]);
    std::size_t element = 0;
    const std::size_t elements = input_size * channels_[input].size();
    while (element < elements) {
      forest_.tie(channels_[input][element / input_size], channels_[node.output][element / output_size]);
      element = std::min((element / input_size + 1) * input_size, (element / output_size + 1) * output_size);
    }
  }

  // The axes of the nodes that share a tensor agree index by index; what not all of them index by channels stays.
  void tie_shared_tensors() {
    const ChannelGroups before = number();
    std::vector<std::size_t> member(before.size());  // of each group
    for (ValueId value = 0; value < channels_.size(); ++value)
      for (std::size_t i = 0; i < channels_[value].size(); ++i) member[before.of_value[value][i]] = channels_[value][i];
    std::map<std::string, std::size_t> uses;
    std::map<std::pair<std::string, std::size_t>, std::vector<std::vector<std::size_t>>> axes;
    for (const Node& node : graph_.nodes) {
      for (const std::string& tensor : node.tensors) ++uses[tensor];
      for (ChannelAxis& axis : channel_axes(graph_, node, before))
        axes[{axis.tensor, axis.dimension}].push_back(std::move(axis.groups));
    }
    for (const auto& [key, users] : axes)
      for (std::size_t i = 0; i < users[0].size(); ++i) {
        for (const std::vector<std::size_t>& user : users) forest_.tie(member[user[i]], member[users[0][i]]);
        if (users.size() < uses[key.first]) forest_.fix(member[users[0][i]]);
      }
  }

  ChannelGroups number() {
    ChannelGroups groups;
    std::map<std::size_t, std::size_t> number_of_root;
    for (const auto& channels : channels_) {
      std::vector<std::size_t>& numbers = groups.of_value.emplace_back();
      for (const std::size_t channel : channels) {
        const auto [entry, is_new] = number_of_root.try_emplace(forest_.root(channel), groups.size());
        if (is_new) groups.is_fixed.push_back(forest_.is_fixed(channel));
        numbers.push_back(entry->second);
      }
    }
    return groups;
  }

  const Graph& graph_;
  Forest forest_;
  std::vector<std::vector<std::size_t>> channels_;  // [value]: in the forest
};

void add_axis(const Node& node, std::size_t tensor, std::size_t dimension, std::vector<std::size_t> groups,
              std::vector<ChannelAxis>& axes) {
  if (tensor < node.tensors.size() && !node.tensors[tensor].empty())
    axes.push_back({.tensor = node.tensors[tensor], .dimension = dimension, .groups = std::move(groups)});
}

}  // namespace

ChannelGroups find_channel_groups(const Graph& graph) {
  return Grouper(graph).groups();
}

std::vector<ChannelAxis> channel_axes(const Graph& graph, const Node& node, const ChannelGroups& groups) {
  std::vector<ChannelAxis> axes;
  const std::vector<std::size_t>& outputs = groups.of_value[node.output];
  if (const auto* conv = std::get_if<Conv>(&node.op)) {
    std::vector<std::size_t> inputs = groups.of_value[node.inputs[0]];
    inputs.resize(inputs.size() / static_cast<std::size_t>(conv->groups));
    add_axis(node, 0, 0, outputs, axes);
    if (conv->groups == 1 || inputs.size() > 1) add_axis(node, 0, 1, std::move(inputs), axes);
    add_axis(node, 1, 0, outputs, axes);
  } else if (std::holds_alternative<Linear>(node.op) && graph.values[node.inputs[0]].shape.size() == 1) {
    add_axis(node, 0, 0, outputs, axes);
    add_axis(node, 0, 1, groups.of_value[node.inputs[0]], axes);
    add_axis(node, 1, 0, outputs, axes);
  } else if (std::holds_alternative<BatchNorm>(node.op)) {
    constexpr std::size_t per_channel = 4;  // weight, bias, running_mean, running_var
    for (std::size_t tensor = 0; tensor < per_channel; ++tensor) add_axis(node, tensor, 0, outputs, axes);
  }
  return axes;
}

}  // namespace podaq
