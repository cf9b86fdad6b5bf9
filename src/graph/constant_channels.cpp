#include "graph/constant_channels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/channel_layer.h"
#include "graph/node_access.h"
#include "podaq/numerics/activations.h"
#include "podaq/numerics/elementwise.h"
#include "podaq/numerics/requantize.h"

namespace podaq::graph_detail {

namespace {

using numerics::CodeBounds;

CodeBounds bounds_of(const QParams& q, const std::optional<Clamp>& clamp) {
  return clamp ? numerics::clamp_codes(q, clamp->minimum, clamp->maximum)
               : CodeBounds{.lowest = q.lowest, .highest = q.highest};
}

float clamped(float number, const std::optional<Clamp>& clamp) {
  return clamp ? numerics::clamp_or(number, clamp->minimum, clamp->maximum, number) : number;
}

// +0: products with -0 could change the sign of a sum of zeros.
bool is_zero(float number) {
  return std::bit_cast<std::uint32_t>(number) == 0;
}

// What a channel holds at all positions whatever the input: a float number, or a code. Nothing where it varies or is
// not known to be constant.
using ChannelConstant = std::optional<float>;

bool has_padding(const Conv& conv) {
  const auto is_positive = [](std::int64_t pad) { return pad > 0; };
  return std::any_of(conv.pads_begin.begin(), conv.pads_begin.end(), is_positive) ||
         std::any_of(conv.pads_end.begin(), conv.pads_end.end(), is_positive);
}

// A conv or linear as far as its constants go.
struct Layer {
  ChannelLayer weights;
  bool has_padding = false, adds_input = false;
  std::optional<Clamp> clamp;
};

// Works through a graph in execution order.
class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values)
      constants_.emplace_back(value.shape.empty() ? 1 : static_cast<std::size_t>(value.shape[0]));
    for (const Node& node : graph.nodes)
      for (const std::string& tensor : node.tensors) ++uses_[tensor];
  }

  void fold() {
    for (Node& node : graph_.nodes) std::visit([&](const auto& op) { take(node, op); }, node.op);
  }

 private:
  [[nodiscard]] const std::optional<QParams>& qparams(ValueId value) const { return graph_.values[value].qparams; }

  // Each channel of the output from the one of the input, where `make` gives something.
  template <typename Make>
  void map_channels(const Node& node, const Make& make) {
    const auto& inputs = constants_[node.inputs[0]];
    auto& outputs = constants_[node.output];
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (inputs[i]) outputs[i] = make(*inputs[i]);
  }

  // A constant that keeps its value, under the output's parameters.
  [[nodiscard]] float rescaled(float constant, ValueId from, ValueId to, const std::optional<Clamp>& clamp) const {
    if (!qparams(to)) return clamped(constant, clamp);
    const QParams& a = *qparams(from);
    const QParams& b = *qparams(to);
    const CodeBounds bounds = bounds_of(b, clamp);
    const auto code = static_cast<std::int32_t>(constant);
    if (a == b) return static_cast<float>(std::clamp(code, bounds.lowest, bounds.highest));
    return static_cast<float>(numerics::rescale_code(
        code - a.zero_point, numerics::rescaling_multiplier(a.scale, b.scale), b.zero_point, bounds));
  }

  [[nodiscard]] bool stands_for_zero(float constant, ValueId value) const {
    return qparams(value) ? static_cast<std::int32_t>(constant) == qparams(value)->zero_point : is_zero(constant);
  }
  [[nodiscard]] float zero_of(ValueId value) const {
    return qparams(value) ? static_cast<float>(qparams(value)->zero_point) : 0.0F;
  }

  void take(const Node&, const BatchNorm&) {}
  void take(const Node&, const Softmax&) {}
  void take(const Node&, const Affine&) {}
  void take(Node& node, const Conv& op) { take_layer(node, op, has_padding(op)); }
  void take(Node& node, const Linear& op) { take_layer(node, op, false); }

  void take_as_is(const Node& node) {
    map_channels(node, [&](float constant) { return rescaled(constant, node.inputs[0], node.output, std::nullopt); });
  }
  void take(const Node& node, const MaxPool&) { take_as_is(node); }
  void take(const Node& node, const GlobalMax&) { take_as_is(node); }
  void take(const Node& node, const Dropout&) { take_as_is(node); }
  void take(const Node& node, const Clamp& clamp) {
    map_channels(node, [&](float constant) { return rescaled(constant, node.inputs[0], node.output, clamp); });
  }

  // The mean of zeros is zero; that of other constants may be rounded.
  void take_mean(const Node& node) {
    map_channels(node, [&](float constant) {
      return stands_for_zero(constant, node.inputs[0]) ? ChannelConstant(zero_of(node.output)) : std::nullopt;
    });
  }
  void take(const Node& node, const AvgPool&) { take_mean(node); }
  void take(const Node& node, const GlobalMean&) { take_mean(node); }
  void take(const Node& node, const AdaptivePool& pool) {
    if (pool.kind == AdaptivePool::Kind::max)
      take_as_is(node);
    else
      take_mean(node);
  }

  void take(const Node& node, const Add& add) {
    const ValueId a = node.inputs[0];
    const ValueId b = node.inputs[1];
    auto& outputs = constants_[node.output];
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!constants_[a][i] || !constants_[b][i]) continue;
      outputs[i] = sum(*constants_[a][i], a, *constants_[b][i], b, node.output, add.clamp);
    }
  }
  [[nodiscard]] float sum(float x, ValueId a, float y, ValueId b, ValueId output,
                          const std::optional<Clamp>& clamp) const {
    if (!qparams(output)) return clamped(x + y, clamp);
    const QParams& to = *qparams(output);
    return static_cast<float>(numerics::add_codes(static_cast<std::int32_t>(x) - qparams(a)->zero_point,
                                                  numerics::rescaling_multiplier(qparams(a)->scale, to.scale),
                                                  static_cast<std::int32_t>(y) - qparams(b)->zero_point,
                                                  numerics::rescaling_multiplier(qparams(b)->scale, to.scale),
                                                  to.zero_point, bounds_of(to, clamp)));
  }

  // In float the other factor could be infinite.
  void take(const Node& node, const Mul&) {
    if (!qparams(node.output)) return;
    auto& outputs = constants_[node.output];
    for (std::size_t i = 0; i < outputs.size(); ++i)
      for (const ValueId input : node.inputs)
        if (constants_[input][i] && stands_for_zero(*constants_[input][i], input)) outputs[i] = zero_of(node.output);
  }

  void take(const Node& node, const Concat& joined) {
    if (joined.axis != 0) return;
    auto output = constants_[node.output].begin();
    for (const ValueId input : node.inputs)
      for (const ChannelConstant& constant : constants_[input]) {
        if (constant) *output = rescaled(*constant, input, node.output, std::nullopt);
        ++output;
      }
  }

  // A channel of the output is constant if it holds nothing but elements of one constant.
  void take(const Node& node, const Reshape&) {
    const auto& inputs = constants_[node.inputs[0]];
    auto& outputs = constants_[node.output];
    const auto elements = static_cast<std::size_t>(element_count(graph_.values[node.output].shape));
    const std::size_t input_size = elements / inputs.size();
    const std::size_t output_size = elements / outputs.size();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t first = i * output_size / input_size;
      const std::size_t last = ((i + 1) * output_size - 1) / input_size;
      const auto differs = [&](const ChannelConstant& constant) { return constant != inputs[first]; };
      if (std::none_of(inputs.begin() + static_cast<std::ptrdiff_t>(first),
                       inputs.begin() + static_cast<std::ptrdiff_t>(last) + 1, differs))
        outputs[i] = inputs[first];
    }
  }

  void take(const Node& node, const Activation& activation) {
    const auto function = [&](float x) { return numerics::activate(activation.kind, activation.alpha, x); };
    map_channels(node, [&](float constant) {
      if (!qparams(node.output)) return function(constant);
      return static_cast<float>(numerics::table_entry(static_cast<std::int32_t>(constant), *qparams(node.inputs[0]),
                                                      *qparams(node.output), function));
    });
  }

  void take(const Node& node, const Quantize&) {
    map_channels(node,
                 [&](float number) { return static_cast<float>(numerics::quantize(number, *qparams(node.output))); });
  }
  void take(const Node& node, const Dequantize&) {
    map_channels(node, [&](float code) {
      return numerics::dequantize(static_cast<std::int32_t>(code), *qparams(node.inputs[0]));
    });
  }

  template <typename Op>
  void take_layer(Node& node, const Op& op, bool is_padded) {
    const std::optional<ChannelLayer> weights = channel_layer_of(graph_, node);
    if (!weights) return;
    const Layer layer{.weights = *weights, .has_padding = is_padded, .adds_input = op.adds_input, .clamp = op.clamp};
    if (qparams(node.inputs[0]))
      take_integer_layer(node, layer);
    else if (required_tensor(graph_, node, 0).dtype == DType::s8)
      take_float_layer<std::int8_t>(node, layer);
    else
      take_float_layer<float>(node, layer);
  }

  // Calls visit(output channel, constant of the input channel, its weights) for each pair of channels whose input is
  // constant.
  template <typename Element, typename Visit>
  void visit_constants(const Node& node, const ChannelLayer& layer, const Visit& visit) {
    const auto weights = elements<Element>(graph_.tensors.at(node.tensors[0]));
    const auto& inputs = constants_[node.inputs[0]];
    for (std::size_t output = 0; output < layer.outputs; ++output)
      for (std::size_t i = 0; i < layer.inputs_each; ++i)
        if (const ChannelConstant& constant = inputs[layer.input_of(output, i)])
          visit(output, *constant, layer.weights_of(weights, output, i));
  }

  [[nodiscard]] bool is_shared(const Node& node) const {
    return std::any_of(node.tensors.begin(), node.tensors.end(),
                       [&](const std::string& tensor) { return !tensor.empty() && uses_.at(tensor) > 1; });
  }

  template <typename Element>
  [[nodiscard]] std::vector<bool> rows_of_zeros(const Node& node, const ChannelLayer& layer) const {
    const auto weights = elements<Element>(required_tensor(graph_, node, 0));
    const std::size_t row_size = layer.inputs_each * layer.taps;
    std::vector<bool> rows;
    for (std::size_t first = 0; first < weights.size(); first += row_size) {
      const auto row = weights.subspan(first, row_size);
      rows.push_back(std::all_of(row.begin(), row.end(), [](Element weight) { return weight == 0; }));
    }
    return rows;
  }

  void take_integer_layer(Node& node, const Layer& layer) {
    const std::int32_t zero_point = qparams(node.inputs[0])->zero_point;
    std::vector<std::int32_t> folded(layer.weights.outputs, 0);
    if (!is_shared(node))
      visit_constants<std::int8_t>(node, layer.weights, [&](std::size_t output, float constant, auto weights) {
        const std::int32_t difference = static_cast<std::int32_t>(constant) - zero_point;
        if (difference != 0 && layer.has_padding) return;
        for (std::int8_t& weight : weights) folded[output] += difference * std::exchange(weight, std::int8_t{0});
      });
    add_to_bias(node, folded);
    const Tensor* bias = optional_tensor(graph_, node, 1);
    const std::vector<bool> zeros = rows_of_zeros<std::int8_t>(node, layer.weights);
    for (std::size_t output = 0; output < zeros.size(); ++output)
      if (zeros[output])
        constants_[node.output][output] =
            integer_constant(node, layer, output, bias == nullptr ? 0 : elements<std::int32_t>(*bias)[output]);
  }

  void add_to_bias(Node& node, const std::vector<std::int32_t>& folded) {
    if (std::all_of(folded.begin(), folded.end(), [](std::int32_t sum) { return sum == 0; })) return;
    if (node.tensors[1].empty()) {
      node.tensors[1] = node.name + ".bias";
      while (graph_.tensors.contains(node.tensors[1])) node.tensors[1] += '_';
      uses_[node.tensors[1]] = 1;
      const std::vector<std::int32_t> none(folded.size(), 0);
      graph_.tensors[node.tensors[1]] = make_tensor<std::int32_t>(
          DType::i32, {static_cast<std::int64_t>(folded.size())}, std::span<const std::int32_t>(none));
    }
    const auto bias = elements<std::int32_t>(graph_.tensors.at(node.tensors[1]));
    for (std::size_t i = 0; i < folded.size(); ++i) bias[i] += folded[i];
  }

  [[nodiscard]] ChannelConstant integer_constant(const Node& node, const Layer& layer, std::size_t output,
                                                 std::int32_t bias) const {
    const Tensor& weight = required_tensor(graph_, node, 0);
    const float weight_scale = weight.scales[weight.scales.size() == 1 ? 0 : output];
    const float input_scale = qparams(node.inputs[0])->scale;
    if (layer.adds_input) return std::nullopt;
    if (!qparams(node.output))
      return clamped(static_cast<float>(bias) * numerics::dequantization_multiplier(input_scale, weight_scale),
                     layer.clamp);
    const QParams& q = *qparams(node.output);
    return static_cast<float>(
        numerics::requantize(bias, numerics::requantization_multiplier(input_scale, weight_scale, q.scale),
                             q.zero_point, bounds_of(q, layer.clamp)));
  }

  // Sums begin at +0 and stay as they are when +0 or -0 is added.
  template <typename Weight>
  void take_float_layer(Node& node, const Layer& layer) {
    if (!is_shared(node))
      visit_constants<Weight>(node, layer.weights, [&](std::size_t, float constant, auto weights) {
        if (is_zero(constant)) std::fill(weights.begin(), weights.end(), Weight{0});
      });
    const std::vector<bool> zeros = rows_of_zeros<Weight>(node, layer.weights);
    const Tensor* bias = optional_tensor(graph_, node, 1);
    const std::vector<float> biases = bias == nullptr ? std::vector<float>(zeros.size()) : numbers_of(*bias);
    for (std::size_t output = 0; output < zeros.size(); ++output)
      if (zeros[output] && !layer.adds_input)
        constants_[node.output][output] = clamped(0.0F + biases[output], layer.clamp);
  }

  Graph& graph_;
  std::vector<std::vector<ChannelConstant>> constants_;  // [value][channel of the first dimension]
  std::map<std::string, std::size_t> uses_;
};

}  // namespace

void fold_constant_channels(Graph& graph) {
  Folder(graph).fold();
}

}  // namespace podaq::graph_detail
