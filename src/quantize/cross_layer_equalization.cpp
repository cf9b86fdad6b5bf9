#include "podaq/quantize/cross_layer_equalization.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "podaq/core/variant.h"

namespace podaq {
namespace {

bool is_relu(const Clamp& clamp) {
  return clamp.minimum == 0.0F && clamp.maximum == std::numeric_limits<float>::infinity();
}

// f(s x) = s f(x) for s > 0, channel by channel, which flattening only spreads over several features.
bool keeps_factors(const Op& op) {
  if (const auto* clamp = std::get_if<Clamp>(&op)) return is_relu(*clamp);
  if (const auto* activation = std::get_if<Activation>(&op)) return activation->kind == ActivationKind::leaky_relu;
  return is_any_of<MaxPool, AvgPool, AdaptivePool, GlobalMean, GlobalMax, Dropout, Reshape>(op);
}

// Who reads a value: steps, by index.
std::map<ValueId, std::vector<std::size_t>> readers_of(const GraphModule& model) {
  std::map<ValueId, std::vector<std::size_t>> readers;
  for (std::size_t i = 0; i < model.steps().size(); ++i) {
    const Step& step = model.steps()[i];
    for (const ValueId input : model.graph().nodes[step.node].inputs) readers[input].push_back(i);
    if (step.residual) readers[*step.residual].push_back(i);
  }
  return readers;
}

std::set<std::string> shared_tensors(const Graph& graph) {
  std::set<std::string> seen;
  std::set<std::string> shared;
  for (const Node& node : graph.nodes)
    for (const std::string& name : node.tensors)
      if (!name.empty() && !seen.insert(name).second) shared.insert(name);
  return shared;
}

class PairFinder {
 public:
  explicit PairFinder(const GraphModule& model)
      : model_(model),
        graph_(model.graph()),
        readers_(readers_of(model)),
        shared_(shared_tensors(graph_)),
        outputs_(graph_.outputs.begin(), graph_.outputs.end()) {}

  [[nodiscard]] std::vector<EqualizationPair> pairs() const {
    std::vector<EqualizationPair> pairs;
    for (std::size_t i = 0; i < model_.steps().size(); ++i)
      if (const std::optional<std::size_t> second = partner_of(i)) pairs.push_back({.first = i, .second = *second});
    return pairs;
  }

 private:
  [[nodiscard]] const Op& op_of(std::size_t step) const { return graph_.nodes[model_.steps()[step].node].op; }

  [[nodiscard]] bool is_layer(std::size_t step) const {
    return has_weights(op_of(step)) && owns_tensors(model_.steps()[step].node);
  }

  [[nodiscard]] bool owns_tensors(std::size_t node) const {
    const std::vector<std::string>& names = graph_.nodes[node].tensors;
    return std::none_of(names.begin(), names.end(), [&](const std::string& name) { return shared_.contains(name); });
  }

  [[nodiscard]] bool can_give(std::size_t index) const {
    const Step& step = model_.steps()[index];
    if (!is_layer(index) || step.add) return false;
    if (step.clamp && !is_relu(std::get<Clamp>(graph_.nodes[*step.clamp].op))) return false;
    if (!step.batch_norm) return true;
    const std::vector<std::string>& norm = graph_.nodes[*step.batch_norm].tensors;
    return !norm.at(0).empty() && !norm.at(1).empty() && owns_tensors(*step.batch_norm);
  }

  [[nodiscard]] std::optional<std::size_t> only_reader_of(ValueId value) const {
    const auto readers = readers_.find(value);
    if (outputs_.contains(value) || readers == readers_.end() || readers->second.size() != 1) return std::nullopt;
    return readers->second.front();
  }

  [[nodiscard]] std::optional<std::size_t> partner_of(std::size_t first) const {
    if (!can_give(first)) return std::nullopt;
    ValueId value = model_.steps()[first].output;
    const Shape& shape = graph_.values[value].shape;
    const std::int64_t channels = tensor_at(graph_, graph_.nodes[model_.steps()[first].node].tensors.at(0)).shape[0];
    // A linear over the last of several dimensions has its channels last, where pooling and flattening part them.
    if (shape.empty() || shape[0] != channels || (std::holds_alternative<Linear>(op_of(first)) && shape.size() > 1))
      return std::nullopt;
    while (const std::optional<std::size_t> reader = only_reader_of(value)) {
      const Step& step = model_.steps()[*reader];
      if (is_layer(*reader)) {
        const bool reads_it = graph_.nodes[step.node].inputs[0] == value && step.residual != value;
        return reads_it && reads_channels(*reader, channels) ? reader : std::nullopt;
      }
      const bool is_clean = keeps_factors(op_of(*reader)) && !step.add && (!step.clamp || *step.clamp == step.node);
      const Shape& next = graph_.values[step.output].shape;
      const bool flattens = next.size() == 1 || next[0] == channels;
      if (!is_clean || !flattens) return std::nullopt;
      value = step.output;
    }
    return std::nullopt;
  }

  // Whether the layer's inputs are the channels, or equal shares of them one after the other.
  [[nodiscard]] bool reads_channels(std::size_t layer, std::int64_t channels) const {
    const Node& node = graph_.nodes[model_.steps()[layer].node];
    const Shape& shape = graph_.values[node.inputs[0]].shape;
    if (std::holds_alternative<Conv>(node.op)) return shape[0] == channels;
    return shape.size() == 1 && channels > 0 && shape[0] % channels == 0;
  }

  const GraphModule& model_;
  const Graph& graph_;
  std::map<ValueId, std::vector<std::size_t>> readers_;
  std::set<std::string> shared_;
  std::set<ValueId> outputs_;
};

// The weight [outputs, inputs / groups, ...] as [groups, outputs / groups, channels / groups, rest], so that a factor
// per input channel has a place.
torch::Tensor by_input_channel(const torch::Tensor& weight, std::int64_t channels, std::int64_t groups) {
  return weight.view({groups, weight.size(0) / groups, channels / groups, -1});
}

std::int64_t groups_of(const Node& node) {
  const auto* conv = std::get_if<Conv>(&node.op);
  return conv == nullptr ? 1 : conv->groups;
}

torch::Tensor along_channels(const torch::Tensor& values, const torch::Tensor& tensor) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(tensor.dim()), 1);
  sizes[0] = -1;
  return values.view(sizes);
}

// Moves the factors of one pair; the largest of |s - 1|.
double equalize(GraphModule& model, const EqualizationPair& pair) {
  const Graph& graph = model.graph();
  const Step& first = model.steps()[pair.first];
  const Step& second = model.steps()[pair.second];
  const Node& second_node = graph.nodes[second.node];
  const torch::Tensor own = model.folded_parameters(first).weight;
  const std::int64_t channels = own.size(0);
  if (own.numel() == 0) return 0;
  const std::int64_t groups = groups_of(second_node);
  const torch::Tensor folded = model.folded_parameters(second).weight.contiguous();
  const torch::Tensor r1 = own.abs().flatten(1).amax(1);
  const torch::Tensor r2 = by_input_channel(folded, channels, groups).abs().amax({1, 3}).flatten();

  const torch::Tensor ratio = (r1 / r2).sqrt();
  const torch::Tensor is_usable = (r1 > 0).logical_and(r2 > 0).logical_and(ratio.isfinite()).logical_and(ratio > 0);
  const torch::Tensor s = at::where(is_usable, ratio, at::ones_like(ratio));

  const std::vector<std::string>& scaled =
      first.batch_norm ? graph.nodes[*first.batch_norm].tensors : graph.nodes[first.node].tensors;
  for (std::size_t i = 0; i < 2 && i < scaled.size(); ++i) {
    if (scaled[i].empty()) continue;
    torch::Tensor tensor = model.tensor(scaled[i]);
    tensor.div_(along_channels(s, tensor));
  }
  torch::Tensor weight = model.tensor(second_node.tensors.at(0));
  const torch::Tensor moved = by_input_channel(weight.contiguous(), channels, groups) * s.view({groups, 1, -1, 1});
  weight.copy_(moved.view(weight.sizes()));
  return (s - 1).abs().max().item<double>();
}

}  // namespace

std::vector<EqualizationPair> equalization_pairs(const GraphModule& model) {
  return PairFinder(model).pairs();
}

std::size_t equalize_layers(GraphModule& model) {
  const torch::NoGradGuard no_grad;
  const std::vector<EqualizationPair> pairs = equalization_pairs(model);
  constexpr int most_rounds = 40;
  constexpr double settled = 1e-3;
  for (int round = 0; round < most_rounds; ++round) {
    double moved = 0;
    for (const EqualizationPair& pair : pairs) moved = std::max(moved, equalize(model, pair));
    if (moved < settled) break;
  }
  return pairs.size();
}

}  // namespace podaq
