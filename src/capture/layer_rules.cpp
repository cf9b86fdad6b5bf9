// Convolution, linear, batch norm, dropout.
#include <torch/torch.h>

#include <array>

#include "capture/mapping.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

using Sizes = std::vector<std::int64_t>;

std::size_t spatial_rank(const Mapping& mapping, const jit::Node& node, ValueId input) {
  const std::size_t rank = mapping.graph.values[input].shape.size();
  if (rank != 2 && rank != 3) refuse(mapping, node, "only 1-D and 2-D inputs [batch, channels, ...] are supported");
  return rank - 1;
}

std::string required_tensor_name(Mapping& mapping, const jit::Node& node, const char* name) {
  const auto found = tensor_name(mapping, node, name);
  if (!found) refuse(mapping, node, concat("it has no '", name, "'"));
  return *found;
}

void append_conv(Mapping& mapping, const jit::Node& node, ValueId input, Conv conv) {
  const std::string weight = required_tensor_name(mapping, node, "weight");
  const std::string bias = tensor_name(mapping, node, "bias").value_or("");
  finish(mapping, node, append(mapping, node, "conv", std::move(conv), {input}, {weight, bias}));
}

Conv conv_without_padding(const Mapping& mapping, const jit::Node& node, std::size_t spatial) {
  return {.stride = spread(integers(mapping, node, "stride"), spatial),
          .pads_begin = Sizes(spatial, 0),
          .pads_end = Sizes(spatial, 0),
          .dilation = spread(integers(mapping, node, "dilation"), spatial),
          .groups = integer(mapping, node, "groups"),
          .adds_input = false,
          .clamp = {}};
}

void map_convolution(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, argument(mapping, node, "input"));
  const std::size_t spatial = spatial_rank(mapping, node, input);
  if (boolean(mapping, node, "transposed")) refuse(mapping, node, "transposed convolutions are not supported");
  Conv conv = conv_without_padding(mapping, node, spatial);
  conv.pads_begin = conv.pads_end = spread(integers(mapping, node, "padding"), spatial);
  append_conv(mapping, node, input, std::move(conv));
}

// Padding given as text: "valid", or "same", where the odd element of the padding goes to the end.
void map_convolution_mode(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, argument(mapping, node, "input"));
  const std::size_t spatial = spatial_rank(mapping, node, input);
  Conv conv = conv_without_padding(mapping, node, spatial);
  const Shape weight = mapping.graph.tensors.at(required_tensor_name(mapping, node, "weight")).shape;
  if (text(mapping, node, "padding") == "same") {
    for (std::size_t i = 0; i < spatial; ++i) {
      const std::int64_t total = conv.dilation[i] * (weight[i + 2] - 1);
      conv.pads_begin[i] = total / 2;
      conv.pads_end[i] = total - total / 2;
    }
  }
  append_conv(mapping, node, input, std::move(conv));
}

// The weight argument of a product: a registered tensor, seen as its transpose.
std::string transposed_weight(Mapping& mapping, const jit::Node& node, const jit::Value* value) {
  const TensorReference* reference = reference_of(mapping, value);
  if (reference == nullptr) refuse(mapping, node, "a product of two computed tensors is not supported");
  if (!reference->transposed) refuse(mapping, node, "its weight must be {out, in}, as in a linear layer");
  return use_tensor(mapping, reference->index);
}

void append_linear(Mapping& mapping, const jit::Node& node, ValueId input, std::string weight, std::string bias) {
  finish(mapping, node, append(mapping, node, "linear", Linear{}, {input}, {std::move(weight), std::move(bias)}));
}

void map_linear(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, argument(mapping, node, "input"));
  append_linear(mapping, node, input, required_tensor_name(mapping, node, "weight"),
                tensor_name(mapping, node, "bias").value_or(""));
}

// bias + x W^T
void map_addmm(Mapping& mapping, const jit::Node& node) {
  if (number(mapping, node, "beta") != 1.0 || number(mapping, node, "alpha") != 1.0)
    refuse(mapping, node, "beta and alpha must be 1");
  const ValueId input = value_of(mapping, node, argument(mapping, node, "mat1"));
  const std::string bias = required_tensor_name(mapping, node, "self");
  append_linear(mapping, node, input, transposed_weight(mapping, node, argument(mapping, node, "mat2")), bias);
}

void map_matmul(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, node.input(0));
  append_linear(mapping, node, input, transposed_weight(mapping, node, node.input(1)), "");
}

void map_transpose_of_weight(Mapping& mapping, const jit::Node& node) {
  const TensorReference* reference = reference_of(mapping, node.input(0));
  if (reference == nullptr) refuse(mapping, node, "only weights may be transposed");
  mapping.symbols[node.output()] = TensorReference{.index = reference->index, .transposed = !reference->transposed};
}

std::string sibling(const Mapping& mapping, const std::string& tensor, const char* name) {
  const std::size_t dot = tensor.rfind('.');
  const std::string wanted = dot == std::string::npos ? name : tensor.substr(0, dot + 1) + name;
  for (const RegisteredTensor& registered : mapping.tensors)
    if (registered.name == wanted && !registered.is_parameter) return wanted;
  return "";
}

void map_batch_norm(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, argument(mapping, node, "input"));
  const auto mean = tensor_name(mapping, node, "running_mean");
  const auto variance = tensor_name(mapping, node, "running_var");
  if (!mean || !variance) refuse(mapping, node, "a batch norm without running statistics is not supported");
  if (boolean(mapping, node, "training") != mapping.trace.training)
    refuse(mapping, node,
           mapping.trace.training ? "it keeps its statistics fixed while the module trains"
                                  : "it takes the batch's statistics in eval mode");
  const std::string batches = sibling(mapping, *mean, "num_batches_tracked");
  if (!batches.empty())
    for (std::size_t i = 0; i < mapping.tensors.size(); ++i)
      if (mapping.tensors[i].name == batches) use_tensor(mapping, i);
  BatchNorm batch_norm{.epsilon = number(mapping, node, "eps"), .momentum = number(mapping, node, "momentum")};
  if (const auto known = mapping.momenta.find(layer_of(*mean)); known != mapping.momenta.end())
    batch_norm.momentum = known->second;
  finish(mapping, node,
         append(mapping, node, "batch_norm", batch_norm, {input},
                {tensor_name(mapping, node, "weight").value_or(""), tensor_name(mapping, node, "bias").value_or(""),
                 *mean, *variance, batches}));
}

void map_dropout(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, node.input(0));
  const bool is_active = boolean(mapping, node, "train");
  const double p = number(mapping, node, "p");
  if (is_active && !mapping.trace.training && p > 0.0)
    refuse(mapping, node,
           concat("this dropout (p ", p,
                  ") stays on in eval mode; give it training(is_training()), or use a "
                  "torch::nn::Dropout module"));
  if (!is_active) {
    mapping.symbols[node.output()] = input;
    return;
  }
  const bool channels = out_of_place_name(node) == "aten::feature_dropout";
  finish(mapping, node, append(mapping, node, "dropout", Dropout{.p = p, .channels = channels}, {input}));
}

}  // namespace

std::span<const Rule> layer_rules() {
  static constexpr std::array rules = {
      Rule{"aten::_convolution", map_convolution},
      Rule{"aten::_convolution_mode", map_convolution_mode},
      Rule{"aten::linear", map_linear},
      Rule{"aten::addmm", map_addmm},
      Rule{"aten::matmul", map_matmul},
      Rule{"aten::mm", map_matmul},
      Rule{"aten::t", map_transpose_of_weight},
      Rule{"aten::batch_norm", map_batch_norm},
      Rule{"aten::dropout", map_dropout},
      Rule{"aten::feature_dropout", map_dropout},
  };
  return rules;
}

bool add_bias(Mapping& mapping, const jit::Node& node, const jit::Value* value, const jit::Value* bias) {
  const TensorReference* reference = reference_of(mapping, bias);
  if (reference == nullptr || mapping.graph.nodes.empty() || value->uses().size() != 1) return false;
  Node& linear = mapping.graph.nodes.back();
  const auto is_linear = std::holds_alternative<Linear>(linear.op) && linear.tensors[1].empty();
  if (!is_linear || linear.output != value_of(mapping, node, value)) return false;
  linear.tensors[1] = use_tensor(mapping, reference->index);
  finish(mapping, node, linear.output);
  return true;
}

}  // namespace podaq::capture_detail
