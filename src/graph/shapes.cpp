#include <algorithm>
#include <cmath>

#include "graph/node_access.h"
#include "podaq/graph/verify.h"

namespace podaq {

namespace {

using namespace graph_detail;

void need_tensors(const Node& node, std::size_t count) {
  if (node.tensors.size() != count) fail(node, concat("lists ", node.tensors.size(), " tensors instead of ", count));
}

void need_inputs(const Node& node, std::size_t count) {
  if (node.inputs.size() != count) fail(node, concat("has ", node.inputs.size(), " inputs instead of ", count));
}

void need_shape(const Node& node, std::string_view what, const Shape& shape, const Shape& wanted) {
  if (shape != wanted) fail(node, concat(what, " has shape ", text_of(shape), " instead of ", text_of(wanted)));
}

void need_finite(const Node& node, std::string_view attribute, double value) {
  if (!std::isfinite(value)) fail(node, concat(attribute, " is not finite"));
}

void check_clamp(const Node& node, const Clamp& clamp) {
  if (!(clamp.minimum <= clamp.maximum))
    fail(node, concat("clamp minimum ", clamp.minimum, " is not at most its maximum ", clamp.maximum));
}

void check_dimensions(const Node& node, std::string_view what, const Shape& shape) {
  if (element_count(shape) < 1) fail(node, concat(what, " has shape ", text_of(shape), ", which holds no element"));
}

std::size_t axis_of(const Node& node, std::int64_t axis, const Shape& shape) {
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()))
    fail(node, concat("axis ", axis, " is outside the shape ", text_of(shape)));
  return static_cast<std::size_t>(axis);
}

// The input of a convolution or pooling: {C, L} or {C, H, W}.
const Shape& spatial_input(const Graph& graph, const Node& node) {
  const Shape& shape = input_of(graph, node, 0).shape;
  if (shape.size() != 2 && shape.size() != 3)
    fail(node, concat("needs an input {C, L} or {C, H, W}, got ", text_of(shape)));
  check_dimensions(node, "the input", shape);
  return shape;
}

void need_entries(const Node& node, std::string_view attribute, std::size_t entries, std::size_t spatial) {
  if (entries != spatial)
    fail(node, concat(attribute, " has ", entries, " entries for ", spatial, " spatial dimensions"));
}

void check_added_input(const Graph& graph, const Node& node, bool adds_input, const Shape& output) {
  need_inputs(node, adds_input ? 2 : 1);
  if (adds_input) need_shape(node, "the added input", input_of(graph, node, 1).shape, output);
}

void check_bias(const Graph& graph, const Node& node, std::int64_t channels) {
  if (const Tensor* bias = optional_tensor(graph, node, 1)) need_shape(node, "the bias", bias->shape, {channels});
}

Shape shape_of(const Graph& graph, const Node& node, const Conv& conv) {
  const Shape& input = spatial_input(graph, node);
  const std::size_t spatial = input.size() - 1;
  need_entries(node, "stride", conv.stride.size(), spatial);
  need_entries(node, "pads_begin", conv.pads_begin.size(), spatial);
  need_entries(node, "pads_end", conv.pads_end.size(), spatial);
  need_entries(node, "dilation", conv.dilation.size(), spatial);
  need_tensors(node, 2);
  const Shape& weight = required_tensor(graph, node, 0).shape;
  if (weight.size() != input.size() + 1)
    fail(node, concat("the weight ", text_of(weight), " does not fit the input ", text_of(input)));
  check_dimensions(node, "the weight", weight);
  const std::int64_t groups = conv.groups;
  if (groups < 1 || input[0] % groups != 0 || weight[0] % groups != 0)
    fail(node, concat("groups ", groups, " does not divide ", input[0], " input and ", weight[0], " output channels"));
  if (weight[1] != input[0] / groups)
    fail(node, concat("the weight ", text_of(weight), " does not fit ", input[0], " channels in ", groups, " groups"));
  Shape output = {weight[0]};
  for (std::size_t i = 0; i < spatial; ++i)
    output.push_back(window_output_size(node, {.input = input[i + 1],
                                               .kernel = weight[i + 2],
                                               .stride = conv.stride[i],
                                               .pad_begin = conv.pads_begin[i],
                                               .pad_end = conv.pads_end[i],
                                               .dilation = conv.dilation[i]}));
  check_bias(graph, node, weight[0]);
  check_added_input(graph, node, conv.adds_input, output);
  if (conv.clamp) check_clamp(node, *conv.clamp);
  return output;
}

Shape shape_of(const Graph& graph, const Node& node, const Linear& linear) {
  Shape output = input_of(graph, node, 0).shape;
  need_tensors(node, 2);
  const Shape& weight = required_tensor(graph, node, 0).shape;
  if (weight.size() != 2) fail(node, concat("the weight ", text_of(weight), " is not {out, in}"));
  check_dimensions(node, "the weight", weight);
  if (output.empty() || output.back() != weight[1])
    fail(node, concat("the weight ", text_of(weight), " does not fit the input ", text_of(output)));
  output.back() = weight[0];
  check_bias(graph, node, weight[0]);
  check_added_input(graph, node, linear.adds_input, output);
  if (linear.clamp) check_clamp(node, *linear.clamp);
  return output;
}

Shape shape_of(const Graph& graph, const Node& node, const BatchNorm& batch_norm) {
  need_inputs(node, 1);
  const Shape& input = input_of(graph, node, 0).shape;
  if (input.empty()) fail(node, "needs an input with a channel dimension");
  need_tensors(node, 5);
  for (const std::size_t affine : {0, 1})
    if (const Tensor* tensor = optional_tensor(graph, node, affine))
      need_shape(node, affine == 0 ? "the weight" : "the bias", tensor->shape, {input[0]});
  need_shape(node, "running_mean", required_tensor(graph, node, 2).shape, {input[0]});
  need_shape(node, "running_var", required_tensor(graph, node, 3).shape, {input[0]});
  if (const Tensor* batches = optional_tensor(graph, node, 4))
    need_shape(node, "num_batches_tracked", batches->shape, {});
  if (!(batch_norm.epsilon >= 0.0 && std::isfinite(batch_norm.epsilon)))
    fail(node, concat("epsilon ", batch_norm.epsilon, " is not a finite number of at least 0"));
  if (batch_norm.momentum) need_finite(node, "momentum", *batch_norm.momentum);
  return input;
}

Shape shape_of(const Graph& graph, const Node& node, const Clamp& clamp) {
  need_inputs(node, 1);
  check_clamp(node, clamp);
  return input_of(graph, node, 0).shape;
}

// A pooling window must contain an element of the input, or its maximum or mean would be undefined.
void check_pool_padding(const Node& node, const Window& window) {
  if (window.pad_begin >= window.span() || window.pad_end >= window.span())
    fail(node, concat("padding ", std::max(window.pad_begin, window.pad_end), " leaves a window of span ",
                      window.span(), " without input"));
  if (window.pad_begin > 0 && window.kernel > 1 && window.dilation > window.input)
    fail(node, concat("dilation ", window.dilation, " exceeds the padded input's size ", window.input));
}

template <typename Pool>
Shape pool_shape(const Graph& graph, const Node& node, const Pool& pool, const std::vector<std::int64_t>& dilation) {
  need_inputs(node, 1);
  const Shape& input = spatial_input(graph, node);
  const std::size_t spatial = input.size() - 1;
  need_entries(node, "kernel", pool.kernel.size(), spatial);
  need_entries(node, "stride", pool.stride.size(), spatial);
  need_entries(node, "pads_begin", pool.pads_begin.size(), spatial);
  need_entries(node, "pads_end", pool.pads_end.size(), spatial);
  need_entries(node, "dilation", dilation.size(), spatial);
  Shape output = {input[0]};
  for (std::size_t i = 0; i < spatial; ++i) {
    const Window window = {.input = input[i + 1],
                           .kernel = pool.kernel[i],
                           .stride = pool.stride[i],
                           .pad_begin = pool.pads_begin[i],
                           .pad_end = pool.pads_end[i],
                           .dilation = dilation[i]};
    output.push_back(window_output_size(node, window));
    check_pool_padding(node, window);
  }
  return output;
}

Shape shape_of(const Graph& graph, const Node& node, const MaxPool& pool) {
  return pool_shape(graph, node, pool, pool.dilation);
}

Shape shape_of(const Graph& graph, const Node& node, const AvgPool& pool) {
  return pool_shape(graph, node, pool, std::vector<std::int64_t>(pool.kernel.size(), 1));
}

Shape shape_of(const Graph& graph, const Node& node, const AdaptivePool& pool) {
  need_inputs(node, 1);
  const Shape& input = spatial_input(graph, node);
  need_entries(node, "output_size", pool.output_size.size(), input.size() - 1);
  Shape output = {input[0]};
  output.insert(output.end(), pool.output_size.begin(), pool.output_size.end());
  check_dimensions(node, "the output", output);
  return output;
}

Shape global_shape(const Graph& graph, const Node& node) {
  need_inputs(node, 1);
  const Shape& input = input_of(graph, node, 0).shape;
  if (input.size() < 2) fail(node, concat("needs an input {C, ...} with spatial dimensions, got ", text_of(input)));
  return {input[0]};
}

Shape shape_of(const Graph& graph, const Node& node, const GlobalMean&) {
  return global_shape(graph, node);
}
Shape shape_of(const Graph& graph, const Node& node, const GlobalMax&) {
  return global_shape(graph, node);
}

Shape shape_of_pair(const Graph& graph, const Node& node) {
  need_inputs(node, 2);
  const Shape& first = input_of(graph, node, 0).shape;
  need_shape(node, "the second input", input_of(graph, node, 1).shape, first);
  return first;
}

Shape shape_of(const Graph& graph, const Node& node, const Add& add) {
  if (add.clamp) check_clamp(node, *add.clamp);
  return shape_of_pair(graph, node);
}

Shape shape_of(const Graph& graph, const Node& node, const Mul&) {
  return shape_of_pair(graph, node);
}

Shape shape_of(const Graph& graph, const Node& node, const Affine& affine) {
  need_inputs(node, 1);
  need_finite(node, "factor", affine.factor);
  need_finite(node, "offset", affine.offset);
  return input_of(graph, node, 0).shape;
}

Shape shape_of(const Graph& graph, const Node& node, const Concat& joined) {
  Shape output = input_of(graph, node, 0).shape;
  const std::size_t axis = axis_of(node, joined.axis, output);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const Shape& input = input_of(graph, node, i).shape;
    Shape fitting = output;
    if (axis < input.size()) fitting[axis] = input[axis];
    need_shape(node, concat("input ", i), input, fitting);
    if (__builtin_add_overflow(output[axis], input[axis], &output[axis])) fail(node, "the output's size overflows");
  }
  return output;
}

Shape shape_of(const Graph& graph, const Node& node, const Reshape& reshape) {
  need_inputs(node, 1);
  const Shape& input = input_of(graph, node, 0).shape;
  if (element_count(reshape.shape) < 0 || element_count(reshape.shape) != element_count(input))
    fail(node, concat("shape ", text_of(reshape.shape), " does not hold the elements of ", text_of(input)));
  return reshape.shape;
}

Shape shape_of(const Graph& graph, const Node& node, const Activation& activation) {
  need_inputs(node, 1);
  if (activation.kind > ActivationKind::gelu_tanh)
    fail(node, concat("unknown activation ", static_cast<int>(activation.kind)));
  need_finite(node, "alpha", activation.alpha);
  return input_of(graph, node, 0).shape;
}

Shape shape_of(const Graph& graph, const Node& node, const Softmax& softmax) {
  need_inputs(node, 1);
  const Shape& input = input_of(graph, node, 0).shape;
  static_cast<void>(axis_of(node, softmax.axis, input));
  return input;
}

Shape shape_of(const Graph& graph, const Node& node, const Dropout& dropout) {
  need_inputs(node, 1);
  if (!(dropout.p >= 0.0 && dropout.p <= 1.0)) fail(node, concat("p ", dropout.p, " is outside 0 to 1"));
  return input_of(graph, node, 0).shape;
}

Shape shape_of(const Graph& graph, const Node& node, const Quantize&) {
  need_inputs(node, 1);
  return input_of(graph, node, 0).shape;
}

Shape shape_of(const Graph& graph, const Node& node, const Dequantize&) {
  need_inputs(node, 1);
  return input_of(graph, node, 0).shape;
}

}  // namespace

Shape infer_shape(const Graph& graph, const Node& node) {
  if (!has_weights(node.op) && !std::holds_alternative<BatchNorm>(node.op)) need_tensors(node, 0);
  return std::visit([&](const auto& op) { return shape_of(graph, node, op); }, node.op);
}

}  // namespace podaq
