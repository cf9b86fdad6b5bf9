#include "runtime/plan.h"

#include <algorithm>

#include "podaq/core/cpu.h"
#include "podaq/graph/verify.h"
#include "runtime/cost_model.h"
#include "runtime/fusion.h"
#include "runtime/isa.h"
#include "runtime/kernel_choice.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace {

std::vector<Port> ports_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Port> ports;
  for (const ValueId value : values)
    ports.push_back({.name = graph.values[value].name, .shape = graph.values[value].shape});
  return ports;
}

}  // namespace

Plan build_plan(const Graph& graph, Isa isa, SparseKernels sparse, const CostCoefficients& cost) {
  require_isa(isa, detect_cpu());
  verify(graph);
  Plan plan{.isa = isa,
            .inputs = ports_of(graph, graph.inputs),
            .outputs = ports_of(graph, graph.outputs),
            .input_values = graph.inputs,
            .output_values = graph.outputs,
            .metadata = graph.metadata,
            .values = {},
            .nodes = {},
            .choices = {}};
  KernelChoices choices = choose_kernels(graph, isa, sparse, cost);
  for (const Value& value : graph.values)
    plan.values.push_back(
        {.sample_bytes = sample_size(value.shape) * (value.qparams ? sizeof(std::uint8_t) : sizeof(float))});
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    const Node& node = graph.nodes[index];
    const NodeView view{.graph = graph, .node = node, .layouts = choices.layouts};
    const Kernel& kernel = *choices.kernels[index];
    std::optional<Packed>& packed = choices.packed[index];
    plan.nodes.push_back({.kernel = &kernel,
                          .packed = packed ? *std::move(packed) : kernel.prepare(view),
                          .inputs = node.inputs,
                          .output = node.output,
                          .graph_node = index});
    plan.choices.push_back({.node = node.name,
                            .op = std::string(podaq::name_of(node.op)),
                            .kernel = std::string(kernel.name),
                            .reason = std::move(choices.reasons[index])});
  }
  plan.weight_bytes = weight_bytes(graph);
  for (const Node& node : graph.nodes) plan.macs += macs_of(graph, node);
  absorb_neighbours(plan, graph, choices.layouts);
  for (const PlanNode& node : plan.nodes)
    if (const auto estimate = node_ns(node, 1, cost)) plan.choices[node.graph_node].estimated_us = *estimate / 1000.0;
  for (const PlanNode& node : plan.nodes)
    if (node.kernel->scratch_bytes != nullptr)
      plan.scratch_bytes = std::max(plan.scratch_bytes, node.kernel->scratch_bytes(node.packed));
  return plan;
}

}  // namespace podaq::runtime_detail
