#include "runtime/fusion.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "podaq/core/text.h"
#include "runtime/neighbours.h"

namespace podaq::runtime_detail {

namespace {

struct Fusion {
  Plan& plan;
  const Graph& graph;
  std::span<const Layout> layouts;
  std::vector<bool> absorbed;  ///< By node.

  [[nodiscard]] NodeView view(std::size_t node) const {
    return {.graph = graph, .node = graph.nodes[node], .layouts = layouts};
  }

  void mark(std::size_t neighbour, const PlanNode& node) {
    absorbed[neighbour] = true;
    plan.choices[neighbour].kernel = node.kernel->name;
    plan.choices[neighbour].reason = concat("absorbed by ", graph.nodes[node.graph_node].name);
  }
};

}  // namespace

void absorb_neighbours(Plan& plan, const Graph& graph, std::span<const Layout> layouts) {
  const Neighbours neighbours = neighbours_of(graph);
  Fusion fusion{.plan = plan, .graph = graph, .layouts = layouts, .absorbed = std::vector<bool>(plan.nodes.size())};
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    PlanNode& node = plan.nodes[i];
    if (fusion.absorbed[i]) continue;
    if (node.kernel->absorb_reader != nullptr) {
      const auto reader = neighbours.sole_readers[node.output];
      if (reader && node.kernel->absorb_reader(node.packed, fusion.view(*reader))) {
        node.output = plan.nodes[*reader].output;
        fusion.mark(*reader, node);
      }
    }
    if (node.kernel->absorb_producer != nullptr) {
      const auto producer = neighbours.own_producers[node.inputs[0]];
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
