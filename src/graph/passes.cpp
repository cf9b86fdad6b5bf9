#include "podaq/graph/passes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "graph/node_access.h"
#include "podaq/graph/steps.h"
#include "podaq/numerics/rounding.h"

namespace podaq {

namespace {

using namespace graph_detail;

// A weight of codes times a factor per channel, in its scales; none where one of these would be no scale.
std::optional<Tensor> scaled_codes(const Tensor& weight, std::span<const float> factors) {
  Tensor result = weight;
  const std::size_t per_channel = weight.bytes.size() / factors.size();
  const std::span<std::int8_t> codes = elements<std::int8_t>(result);
  result.scales.assign(factors.size(), 1.0F);
  for (std::size_t channel = 0; channel < factors.size(); ++channel) {
    const std::span own = codes.subspan(channel * per_channel, per_channel);
    const float factor = factors[channel];
    if (factor == 0.0F || std::ranges::all_of(own, [](std::int8_t code) { return code == 0; })) {
      std::ranges::fill(own, std::int8_t{0});
      continue;
    }
    const float scale = weight.scales[weight.scales.size() == 1 ? 0 : channel] * std::abs(factor);
    if (!numerics::is_valid_scale(scale)) return std::nullopt;
    result.scales[channel] = scale;
    if (factor < 0.0F)
      for (std::int8_t& code : own) code = static_cast<std::int8_t>(-code);
  }
  return result;
}

// A weight times a factor per channel.
Tensor scaled(const Tensor& weight, std::span<const float> factors) {
  if (weight.dtype == DType::s8)
    if (std::optional<Tensor> codes = scaled_codes(weight, factors)) return *std::move(codes);
  std::vector<float> weights = numbers_of(weight);
  const std::size_t per_channel = weights.size() / factors.size();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float product = weights[i] * factors[i / per_channel];
    weights[i] = product == 0.0F ? 0.0F : product;  // a pruned weight times a negative factor would be -0
  }
  return make_tensor<float>(DType::f32, weight.shape, weights);
}

// Builds the fused graph step by step.
class Fuser {
 public:
  explicit Fuser(const Graph& source) : source_(source), fused_(source), replacement_(source.values.size()) {
    fused_.nodes.clear();
    std::iota(replacement_.begin(), replacement_.end(), ValueId{0});
    for (const Node& node : source.nodes)
      for (const std::string& tensor : node.tensors) ++uses_[tensor];
  }

  void take(const Step& step) {
    const Node& first = source_.nodes[step.node];
    if (std::holds_alternative<Dropout>(first.op))
      drop(first);
    else if (std::holds_alternative<BatchNorm>(first.op) && source_.values[first.output].shape.size() >= 2)
      append_depthwise(first);
    else
      append_fused(step);
  }

  [[nodiscard]] Graph result() && { return remove_unused(fused_); }

 private:
  void append(Node node) {
    for (ValueId& input : node.inputs) input = replacement_[input];
    fused_.nodes.push_back(std::move(node));
  }

  // An output of the graph keeps its name, so there the identity remains as a reshape.
  void drop(const Node& dropout) {
    if (std::ranges::find(source_.outputs, dropout.output) == source_.outputs.end()) {
      replacement_[dropout.output] = replacement_[dropout.inputs[0]];
      return;
    }
    Node identity = dropout;
    identity.op = Reshape{.shape = source_.values[dropout.output].shape};
    append(std::move(identity));
  }

  void append_depthwise(const Node& batch_norm) {
    const Shape& shape = source_.values[batch_norm.output].shape;
    if (shape.size() > 3) {  // no convolution has so many dimensions
      append(batch_norm);
      return;
    }
    const std::size_t spatial = shape.size() - 1;
    const BatchNormAffine affine = batch_norm_affine(source_, batch_norm);
    Shape weight_shape(shape.size() + 1, 1);
    weight_shape[0] = shape[0];
    Node conv{.op = Conv{.stride = std::vector<std::int64_t>(spatial, 1),
                         .pads_begin = std::vector<std::int64_t>(spatial, 0),
                         .pads_end = std::vector<std::int64_t>(spatial, 0),
                         .dilation = std::vector<std::int64_t>(spatial, 1),
                         .groups = shape[0],
                         .adds_input = false,
                         .clamp = {}},
              .name = batch_norm.name,
              .inputs = batch_norm.inputs,
              .tensors = {},
              .output = batch_norm.output};
    conv.tensors = {store(batch_norm.tensors[0], batch_norm.name + ".weight",
                          make_tensor<float>(DType::f32, weight_shape, affine.scale)),
                    store(batch_norm.tensors[1], batch_norm.name + ".bias",
                          make_tensor<float>(DType::f32, {shape[0]}, affine.shift))};
    append(std::move(conv));
  }

  void append_fused(const Step& step) {
    Node node = source_.nodes[step.node];
    if (step.batch_norm) fold(node, batch_norm_affine(source_, source_.nodes[*step.batch_norm]));
    if (step.residual) node.inputs.push_back(*step.residual);
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.adds_input; })
            if (step.residual) op.adds_input = true;
          if constexpr (requires { op.clamp; }) {
            if (step.add) op.clamp = std::get<Add>(source_.nodes[*step.add].op).clamp;
            if (step.clamp) op.clamp = std::get<Clamp>(source_.nodes[*step.clamp].op);
          }
        },
        node.op);
    node.output = step.output;
    append(std::move(node));
  }

  void fold(Node& node, const BatchNormAffine& affine) {
    const std::size_t channels = affine.scale.size();
    std::vector<float> bias = affine.shift;
    if (!node.tensors[1].empty()) {
      const std::vector<float> own = numbers_of(tensor_at(source_, node.tensors[1]));
      for (std::size_t channel = 0; channel < channels; ++channel)
        bias[channel] = own[channel] * affine.scale[channel] + affine.shift[channel];
    }
    const auto channel_count = static_cast<std::int64_t>(channels);
    node.tensors = {
        store(node.tensors[0], node.name + ".weight", scaled(tensor_at(source_, node.tensors[0]), affine.scale)),
        store(node.tensors[1], node.name + ".bias", make_tensor<float>(DType::f32, {channel_count}, bias))};
  }

  // Keeps the tensor's name where no other node uses it, so that masks and recipes still find it.
  std::string store(const std::string& name, const std::string& new_name, Tensor tensor) {
    std::string chosen = name;
    if (name.empty() || uses_[name] > 1) {
      chosen = new_name;
      while (fused_.tensors.contains(chosen)) chosen += ".folded";
    }
    fused_.tensors[chosen] = std::move(tensor);
    return chosen;
  }

  const Graph& source_;
  Graph fused_;
  std::vector<ValueId> replacement_;  // what a dropped value's readers read instead
  std::map<std::string, std::size_t> uses_;
};

}  // namespace

BatchNormAffine batch_norm_affine(const Graph& graph, const Node& batch_norm) {
  const auto& op = std::get<BatchNorm>(batch_norm.op);
  const auto mean = elements<float>(required_tensor(graph, batch_norm, 2));
  const auto variance = elements<float>(required_tensor(graph, batch_norm, 3));
  const Tensor* weight = optional_tensor(graph, batch_norm, 0);
  const Tensor* bias = optional_tensor(graph, batch_norm, 1);
  if (variance.empty()) fail(batch_norm, "its tensors hold no data");
  const auto epsilon = static_cast<float>(op.epsilon);
  BatchNormAffine affine;
  for (std::size_t channel = 0; channel < variance.size(); ++channel) {
    const float padded = variance[channel] + epsilon;
    if (!(padded > 0.0F))
      fail(batch_norm, concat("channel ", channel, ": running_var + epsilon is ", padded, ", it must be above 0"));
    const float scale = (weight != nullptr ? elements<float>(*weight)[channel] : 1.0F) / std::sqrt(padded);
    const float offset = bias != nullptr ? elements<float>(*bias)[channel] : 0.0F;
    affine.scale.push_back(scale);
    affine.shift.push_back(offset - mean[channel] * scale);
  }
  return affine;
}

Graph fuse(const Graph& graph) {
  Fuser fuser(graph);
  for (const Step& step : find_steps(graph)) fuser.take(step);
  return std::move(fuser).result();
}

Graph remove_unused(const Graph& graph) {
  std::set<ValueId> used(graph.inputs.begin(), graph.inputs.end());
  used.insert(graph.outputs.begin(), graph.outputs.end());
  std::set<std::string> tensors;
  for (const Node& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    used.insert(node.output);
    tensors.insert(node.tensors.begin(), node.tensors.end());
  }
  Graph kept = graph;
  std::erase_if(kept.tensors, [&](const auto& entry) { return !tensors.contains(entry.first); });
  std::vector<ValueId> renumbered(graph.values.size());
  kept.values.clear();
  for (const ValueId value : used) {
    renumbered[value] = static_cast<ValueId>(kept.values.size());
    kept.values.push_back(graph.values[value]);
  }
  const auto renumber = [&](std::vector<ValueId>& values) {
    for (ValueId& value : values) value = renumbered[value];
  };
  renumber(kept.inputs);
  renumber(kept.outputs);
  for (Node& node : kept.nodes) {
    renumber(node.inputs);
    node.output = renumbered[node.output];
  }
  return kept;
}

}  // namespace podaq
