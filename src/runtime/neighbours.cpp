#include "runtime/neighbours.h"

namespace podaq::runtime_detail {

Neighbours neighbours_of(const Graph& graph) {
  const std::vector<std::size_t> readers = reader_counts(graph);
  Neighbours neighbours;
  neighbours.sole_readers.resize(graph.values.size());
  neighbours.own_producers.resize(graph.values.size());
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    const Node& node = graph.nodes[index];
    if (node.inputs.size() != 1) continue;
    if (readers[node.inputs[0]] == 1) neighbours.sole_readers[node.inputs[0]] = index;
    if (readers[node.output] == 1) neighbours.own_producers[node.output] = index;
  }
  return neighbours;
}

}  // namespace podaq::runtime_detail
