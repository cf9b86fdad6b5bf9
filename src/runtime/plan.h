#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"
#include "podaq/runtime/model.h"
#include "runtime/cost_coefficients.h"
#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// One node, ready to run.
struct PlanNode {
  const Kernel* kernel = nullptr;
  Packed packed;
  std::vector<ValueId> inputs;
  ValueId output = 0;
  std::size_t graph_node = 0;  ///< Its index in the graph; the nodes that it absorbed have none here.
};

/// A value as the runner needs it.
struct PlanValue {
  std::size_t sample_bytes = 0;
};

/// What `Model` shares: a verified graph with a kernel chosen and packed for each node.
struct Plan {
  Isa isa = Isa::reference;
  std::vector<Port> inputs, outputs;
  std::vector<ValueId> input_values, output_values;
  std::map<std::string, std::string> metadata;
  std::vector<PlanValue> values;
  std::vector<PlanNode> nodes;
  std::vector<KernelChoice> choices;  ///< One per node of the graph, those included that others absorbed.
  std::size_t scratch_bytes = 0;      ///< The most that any kernel needs.
  std::size_t weight_bytes = 0;       ///< Of all constants of the graph.
  std::size_t macs = 0;               ///< Multiply-accumulates per sample, zero weights included.
};

/// Verifies `graph`, then chooses and packs a kernel for each node.
/// @param cost  What choices between kernels are based on.
[[nodiscard]] Plan build_plan(const Graph& graph, Isa isa, SparseKernels sparse, const CostCoefficients& cost = {});

}  // namespace podaq::runtime_detail
