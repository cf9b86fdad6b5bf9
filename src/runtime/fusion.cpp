#include "runtime/fusion.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace podaq::runtime_detail {

namespace {

struct Fusion {
  Plan& plan;
  const Graph& graph;
  std::span<const Layout> layouts;
  std::vector<std::size_t> readers;  ///< Of each value: node inputs and outputs of the graph.
  std::vector<bool> absorbed;        ///< By node.

  [[nodiscard]] NodeView view(std::size_t node) const {
    return {.graph = graph, .node = graph.nodes[node], .layouts = layouts};
  }

  // The node whose only input is the value, where nobody else reads it.
  [[nodiscard]] std::optional<std::size_t> only_reader(ValueId value) const {
    if (readers[value] != 1) return std::nullopt;
    for (std::size_t node = 0; node < graph.nodes.size(); ++node)
      if (graph.nodes[node].inputs == std::vector{value}) return node;
    return std::nullopt;
  }

  // The node of one input that computes the value, where nobody else reads it.
  [[nodiscard]] std::optional<std::size_t> own_producer(ValueId value) const {
    if (readers[value] != 1) return std::nullopt;
    for (std::size_t node = 0; node < graph.nodes.size(); ++node)
      if (graph.nodes[node].output == value && graph.nodes[node].inputs.size() == 1) return node;
    return std::nullopt;
  }

  void mark(std::size_t neighbour, const PlanNode& node) {
    absorbed[neighbour] = true;
    plan.choices[neighbour].kernel = node.kernel->name;
  }
};

}  // namespace

void absorb_neighbours(Plan& plan, const Graph& graph, std::span<const Layout> layouts) {
  Fusion fusion{.plan = plan,
                .graph = graph,
                .layouts = layouts,
                .readers = reader_counts(graph),
                .absorbed = std::vector<bool>(plan.nodes.size())};
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    PlanNode& node = plan.nodes[i];
    if (fusion.absorbed[i]) continue;
    if (node.kernel->absorb_reader != nullptr) {
      const auto reader = fusion.only_reader(node.output);
      if (reader && node.kernel->absorb_reader(node.packed, fusion.view(*reader))) {
        node.output = plan.nodes[*reader].output;
        fusion.mark(*reader, node);
      }
    }
    if (node.kernel->absorb_producer != nullptr) {
      const auto producer = fusion.own_producer(node.inputs[0]);
      if (producer && node.kernel->absorb_producer(node.packed, fusion.view(*producer))) {
        node.inputs[0] = plan.nodes[*producer].inputs[0];
        fusion.mark(*producer, node);
      }
    }
  }
  std::vector<PlanNode> kept;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    if (!fusion.absorbed[i]) kept.push_back(std::move(plan.nodes[i]));
  plan.nodes = std::move(kept);
}

}  // namespace podaq::runtime_detail
