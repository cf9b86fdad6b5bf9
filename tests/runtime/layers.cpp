#include "runtime/layers.h"

#include "podaq/graph/verify.h"

namespace podaq::test {

namespace {

ValueId append(Graph& graph, Node node, std::optional<QParams> qparams) {
  node.output = add_value(graph, node.name + ".output", infer_shape(graph, node), qparams);
  const ValueId output = node.output;
  graph.nodes.push_back(std::move(node));
  return output;
}

}  // namespace

Graph graph_of(const CodeLayer& layer) {
  Graph graph;
  graph.inputs = {add_value(graph, "input", layer.input)};
  Tensor weight = make_tensor<std::int8_t>(DType::s8, layer.weight_shape, layer.weights);
  weight.scales = layer.weight_scales;
  graph.tensors["weight"] = std::move(weight);
  if (!layer.bias.empty())
    graph.tensors["bias"] = make_tensor<std::int32_t>(DType::i32, {layer.weight_shape[0]}, layer.bias);
  const ValueId codes =
      append(graph, {.op = Quantize{}, .name = "quantize", .inputs = graph.inputs, .tensors = {}}, layer.input_qparams);
  Node node{
      .op = layer.op, .name = "layer", .inputs = {codes}, .tensors = {"weight", layer.bias.empty() ? "" : "bias"}};
  if (layer.added_qparams) {
    graph.inputs.push_back(add_value(graph, "added", infer_shape(graph, node)));
    node.inputs.push_back(
        append(graph, {.op = Quantize{}, .name = "quantize_added", .inputs = {graph.inputs[1]}, .tensors = {}},
               layer.added_qparams));
    if (auto* conv = std::get_if<Conv>(&node.op)) conv->adds_input = true;
    if (auto* linear = std::get_if<Linear>(&node.op)) linear->adds_input = true;
  }
  const ValueId result = append(graph, std::move(node), layer.output_qparams);
  if (!layer.output_qparams) {
    graph.outputs = {result};
    return graph;
  }
  graph.outputs = {
      append(graph, {.op = Dequantize{}, .name = "dequantize", .inputs = {result}, .tensors = {}}, std::nullopt)};
  return graph;
}

Graph graph_of(const FloatLayer& layer) {
  Graph graph;
  graph.inputs = {add_value(graph, "input", layer.input)};
  graph.tensors["weight"] = make_tensor<float>(DType::f32, layer.weight_shape, layer.weights);
  if (!layer.bias.empty()) graph.tensors["bias"] = make_tensor<float>(DType::f32, {layer.weight_shape[0]}, layer.bias);
  graph.outputs = {append(graph,
                          {.op = layer.op,
                           .name = "layer",
                           .inputs = graph.inputs,
                           .tensors = {"weight", layer.bias.empty() ? "" : "bias"}},
                          std::nullopt)};
  return graph;
}

Conv conv_of(const ConvShape& shape) {
  return {.stride = std::vector(shape.spatial, shape.stride),
          .pads_begin = std::vector(shape.spatial, shape.pad),
          .pads_end = std::vector(shape.spatial, shape.pad),
          .dilation = std::vector(shape.spatial, shape.dilation),
          .groups = shape.groups,
          .clamp = std::nullopt};
}

}  // namespace podaq::test
