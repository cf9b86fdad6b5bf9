#pragma once

#include "podaq/graph/graph.h"

namespace podaq::graph_detail {

/// Finds the channels of a fused graph with data that hold the same number at all positions whatever the input, in
/// execution order, and writes weights that meet one to 0 where that changes nothing but the bias, into which what they
/// made of it goes.
void fold_constant_channels(Graph& graph);

}  // namespace podaq::graph_detail
