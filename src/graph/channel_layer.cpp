#include "graph/channel_layer.h"

#include "graph/node_access.h"

namespace podaq::graph_detail {

std::optional<ChannelLayer> channel_layer_of(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<Conv>(&node.op);
  if (!has_weights(node.op) || (conv == nullptr && graph.values[node.inputs[0]].shape.size() != 1)) return std::nullopt;
  const Shape& weight = required_tensor(graph, node, 0).shape;
  ChannelLayer layer{.inputs_each = static_cast<std::size_t>(weight[1]),
                     .outputs_each = static_cast<std::size_t>(weight[0] / (conv == nullptr ? 1 : conv->groups)),
                     .outputs = static_cast<std::size_t>(weight[0])};
  for (std::size_t i = 2; i < weight.size(); ++i) layer.taps *= static_cast<std::size_t>(weight[i]);
  return layer;
}

}  // namespace podaq::graph_detail
