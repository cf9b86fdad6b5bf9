#include "podaq/graph/dead_channels.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/channel_layer.h"
#include "graph/constant_channels.h"
#include "graph/node_access.h"
#include "podaq/graph/channel_groups.h"

namespace podaq {

namespace {

using namespace graph_detail;

// Marks the groups that channels which stay read with a weight other than 0.
template <typename Element>
void mark_read(const Graph& graph, const Node& node, const ChannelLayer& layer, const ChannelGroups& groups,
               std::vector<bool>& needed) {
  const auto weights = elements<Element>(required_tensor(graph, node, 0));
  const std::vector<std::size_t>& inputs = groups.of_value[node.inputs[0]];
  const std::vector<std::size_t>& outputs = groups.of_value[node.output];
  for (std::size_t output = 0; output < layer.outputs; ++output) {
    if (!needed[outputs[output]]) continue;
    for (std::size_t i = 0; i < layer.inputs_each; ++i) {
      const auto read = layer.weights_of(weights, output, i);
      if (std::any_of(read.begin(), read.end(), [](Element element) { return element != 0; }))
        needed[inputs[layer.input_of(output, i)]] = true;
    }
  }
}

// Readers come after what they read, and tied channels are one group, so that going backwards until nothing changes
// finds all that the groups marked so far need.
void mark_all_needed(const Graph& graph, const ChannelGroups& groups, std::vector<bool>& needed) {
  for (std::vector<bool> before; before != needed;) {
    before = needed;
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      const std::optional<ChannelLayer> layer = channel_layer_of(graph, *node);
      if (!layer) continue;
      if (required_tensor(graph, *node, 0).dtype == DType::s8)
        mark_read<std::int8_t>(graph, *node, *layer, groups, needed);
      else
        mark_read<float>(graph, *node, *layer, groups, needed);
    }
  }
}

// The first value that needs none of its channels.
const std::vector<std::size_t>* find_empty(const ChannelGroups& groups, const std::vector<bool>& needed) {
  for (const std::vector<std::size_t>& channels : groups.of_value)
    if (std::none_of(channels.begin(), channels.end(), [&](std::size_t group) { return needed[group]; }))
      return &channels;
  return nullptr;
}

}  // namespace

Graph remove_dead_channels(const Graph& graph) {
  Graph folded = graph;
  fold_constant_channels(folded);
  const ChannelGroups groups = find_channel_groups(folded);
  std::vector<bool> needed = groups.is_fixed;
  mark_all_needed(folded, groups, needed);
  while (const std::vector<std::size_t>* channels = find_empty(groups, needed)) {
    needed[channels->front()] = true;
    mark_all_needed(folded, groups, needed);
  }
  needed.flip();
  return remove_channels(folded, groups, needed).graph;
}

}  // namespace podaq
