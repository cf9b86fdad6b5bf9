#pragma once

#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::test {

/// What a node should give: real numbers, computed in double from the definitions of the ops, and how large the terms
/// were that each was made of (for the tolerance of float sums).
struct Ideal {
  std::vector<double> values;
  std::vector<double> magnitudes;
};

/// The ideal result of one sample of `node`, from the real numbers that its inputs stand for (row-major). Weights and
/// biases stand for code * scale. Written for clarity alone and independent of the runtime.
[[nodiscard]] Ideal evaluate(const Graph& graph, const Node& node, const std::vector<std::vector<double>>& inputs);

}  // namespace podaq::test
