#include "graph/node_access.h"

namespace podaq::graph_detail {

namespace {

// Attributes this large make no sense, and below it sums and products of a few of them fit 63 bits.
constexpr std::int64_t largest_attribute = std::int64_t{1} << 31;

void check_attribute(const Node& node, std::string_view attribute, std::int64_t value, std::int64_t lowest) {
  if (value < lowest || value > largest_attribute)
    fail(node, concat(attribute, " ", value, " is outside ", lowest, " to ", largest_attribute));
}

}  // namespace

void fail(const Node& node, std::string_view problem) {
  throw Error(ErrorCode::graph, concat("node '", node.name, "' (", name_of(node.op), "): ", problem));
}

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += concat(i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

const Value& input_of(const Graph& graph, const Node& node, std::size_t index) {
  if (index >= node.inputs.size())
    fail(node, concat("has ", node.inputs.size(), " inputs, needs at least ", index + 1));
  if (node.inputs[index] >= graph.values.size())
    fail(node, concat("input ", index, " is value ", node.inputs[index], ", the graph has ", graph.values.size()));
  return graph.values[node.inputs[index]];
}

const Tensor& required_tensor(const Graph& graph, const Node& node, std::size_t index) {
  const Tensor* tensor = optional_tensor(graph, node, index);
  if (tensor == nullptr) fail(node, concat("tensor ", index, " is absent"));
  return *tensor;
}

const Tensor* optional_tensor(const Graph& graph, const Node& node, std::size_t index) {
  if (index >= node.tensors.size() || node.tensors[index].empty()) return nullptr;
  const auto tensor = graph.tensors.find(node.tensors[index]);
  if (tensor == graph.tensors.end()) fail(node, concat("the graph has no tensor '", node.tensors[index], "'"));
  return &tensor->second;
}

std::int64_t window_output_size(const Node& node, const Window& window) {
  check_attribute(node, "the input size", window.input, 1);
  check_attribute(node, "kernel", window.kernel, 1);
  check_attribute(node, "stride", window.stride, 1);
  check_attribute(node, "dilation", window.dilation, 1);
  check_attribute(node, "pads_begin", window.pad_begin, 0);
  check_attribute(node, "pads_end", window.pad_end, 0);
  const std::int64_t padded = window.input + window.pad_begin + window.pad_end;
  if (padded < window.span())
    fail(node, concat("the window spans ", window.span(), " elements, the padded input has ", padded));
  return (padded - window.span()) / window.stride + 1;
}

}  // namespace podaq::graph_detail
