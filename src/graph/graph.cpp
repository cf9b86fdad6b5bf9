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

}  // namespace podaq
