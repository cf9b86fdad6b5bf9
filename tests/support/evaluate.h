#pragma once

#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::test {

/// What a float graph makes of one sample in eval mode, in double arithmetic straight from each op's definition: the
/// yardstick for passes and kernels. One vector per input and output of the graph, row-major.
[[nodiscard]] std::vector<std::vector<double>> evaluate(const Graph& graph,
                                                        const std::vector<std::vector<double>>& inputs);

}  // namespace podaq::test
