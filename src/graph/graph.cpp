#include "podaq/graph/graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

std::string_view name_of(const Op& op) {
  static constexpr std::array<std::string_view, std::variant_size_v<Op>> names = {
      "conv",        "linear",     "batch_norm", "clamp",    "max_pool",  "avg_pool", "adaptive_pool",
      "global_mean", "global_max", "add",        "mul",      "affine",    "concat",   "reshape",
      "activation",  "softmax",    "dropout",    "quantize", "dequantize"};
  return names[op.index()];
}

std::int64_t count_nonzeros(const Tensor& tensor) {
  const auto count = [](auto values) { return std::ssize(values) - std::count(values.begin(), values.end(), 0); };
  switch (tensor.dtype) {
    case DType::f32:
      return count(elements<float>(tensor));
    case DType::s8:
      return count(elements<std::int8_t>(tensor));
    case DType::i32:
      return count(elements<std::int32_t>(tensor));
    case DType::u8:
      return count(elements<std::uint8_t>(tensor));
  }
  return 0;
}

std::vector<float> numbers_of(const Tensor& tensor) {
  std::vector<float> numbers;
  switch (tensor.dtype) {
    case DType::f32: {
      const auto floats = elements<float>(tensor);
      return {floats.begin(), floats.end()};
    }
    case DType::s8: {
      const auto codes = elements<std::int8_t>(tensor);
      const std::size_t per_scale =
          tensor.scales.empty() ? 1 : std::max<std::size_t>(codes.size() / tensor.scales.size(), 1);
      for (std::size_t i = 0; i < codes.size(); ++i)
        numbers.push_back(static_cast<float>(codes[i]) * tensor.scales[i / per_scale]);
      return numbers;
    }
    case DType::i32:
      for (const std::int32_t element : elements<std::int32_t>(tensor)) numbers.push_back(static_cast<float>(element));
      return numbers;
    case DType::u8:
      for (const std::uint8_t element : elements<std::uint8_t>(tensor)) numbers.push_back(static_cast<float>(element));
      return numbers;
  }
  return numbers;
}

ValueId add_value(Graph& graph, std::string name, Shape shape, std::optional<QParams> qparams) {
  graph.values.push_back({.name = std::move(name), .shape = std::move(shape), .qparams = qparams});
  return static_cast<ValueId>(graph.values.size() - 1);
}

const Node* producer(const Graph& graph, ValueId value) {
  const auto node = std::ranges::find(graph.nodes, value, &Node::output);
  return node == graph.nodes.end() ? nullptr : &*node;
}

std::vector<std::size_t> reader_counts(const Graph& graph) {
  std::vector<std::size_t> counts(graph.values.size(), 0);
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs) ++counts.at(input);
  for (const ValueId output : graph.outputs) ++counts.at(output);
  return counts;
}

const Tensor& tensor_at(const Graph& graph, const std::string& name) {
  const auto tensor = graph.tensors.find(name);
  if (tensor == graph.tensors.end()) throw Error(ErrorCode::graph, concat("the graph has no tensor '", name, "'"));
  return tensor->second;
}

std::size_t macs_of(const Graph& graph, const Node& node) {
  if (!has_weights(node.op)) return 0;
  const Shape& weight = tensor_at(graph, node.tensors[0]).shape;
  return static_cast<std::size_t>(element_count(weight) / weight[0] * element_count(graph.values[node.output].shape));
}

}  // namespace podaq
