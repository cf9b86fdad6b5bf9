#include "runtime/plan.h"

#include <algorithm>

#include "podaq/core/cpu.h"
#include "podaq/graph/verify.h"
#include "runtime/fusion.h"
#include "runtime/isa.h"

namespace podaq::runtime_detail {

namespace {

// The vector kernels read the channels of one position as a run of bytes; floats stay row-major.
Layout choose_layout(const Value& value, Isa isa) {
  const bool codes_with_positions = value.qparams && value.shape.size() > 1;
  return isa >= Isa::avx512 && codes_with_positions ? Layout::channels_last : Layout::planar;
}

std::vector<Port> ports_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Port> ports;
  for (const ValueId value : values)
    ports.push_back({.name = graph.values[value].name, .shape = graph.values[value].shape});
  return ports;
}

}  // namespace

Plan build_plan(const Graph& graph, Isa isa) {
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
  std::vector<Layout> layouts;
  for (const Value& value : graph.values) {
    layouts.push_back(choose_layout(value, isa));
    plan.values.push_back(
        {.sample_bytes = sample_size(value.shape) * (value.qparams ? sizeof(std::uint8_t) : sizeof(float))});
  }
  for (const Node& node : graph.nodes) {
    const NodeView view{.graph = graph, .node = node, .layouts = layouts};
    const Kernel& kernel = choose_kernel(view, isa);
    plan.nodes.push_back(
        {.kernel = &kernel, .packed = kernel.prepare(view), .inputs = node.inputs, .output = node.output});
    plan.choices.push_back(
        {.node = node.name, .op = std::string(podaq::name_of(node.op)), .kernel = std::string(kernel.name)});
  }
  absorb_neighbours(plan, graph, layouts);
  for (const PlanNode& node : plan.nodes)
    if (node.kernel->scratch_bytes != nullptr)
      plan.scratch_bytes = std::max(plan.scratch_bytes, node.kernel->scratch_bytes(node.packed));
  return plan;
}

}  // namespace podaq::runtime_detail
