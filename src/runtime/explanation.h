#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"
#include "podaq/runtime/model.h"

namespace podaq::runtime_detail {

/// Where a model's time goes: one node of the graph.
struct LayerExplanation {
  KernelChoice choice;
  double us = 0.0;               ///< Measured, a batch, what it absorbed included; 0 for absorbed nodes.
  double estimated_us = 0.0;     ///< By the cost model, a batch; 0: it has none.
  double multiplications = 0.0;  ///< Multiply-accumulates of a batch of a conv or linear, zero weights included.
  double nonzero = 1.0;          ///< Share of the weights that are not zero.
};

/// A model whose nodes were timed.
struct Explanation {
  std::vector<LayerExplanation> layers;  ///< One per node, in execution order.
  double us = 0.0;                       ///< All nodes together.
  double peak_gmacs = 0.0;  ///< The most int8 multiply-accumulates a second, in 10^9, that the instruction set does
                            ///< here, one thread; 0: unknown.
};

/// How nodes are timed.
struct ExplanationOptions {
  std::size_t batch = 1;
  double seconds = 1.0;  ///< About how long to measure.
};

/// Builds the model's plan and times each node within whole runs, one thread.
[[nodiscard]] Explanation explain(const Graph& graph, const ModelOptions& model, const ExplanationOptions& options);

}  // namespace podaq::runtime_detail
