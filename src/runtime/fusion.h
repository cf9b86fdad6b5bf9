#pragma once

#include <span>

#include "podaq/graph/graph.h"
#include "runtime/layout.h"
#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// Lets kernels take over neighbours: a node whose result only they read, or the only node that reads theirs. The
/// nodes that were absorbed leave the plan, and the values between are never stored.
/// @param plan  One node per node of `graph`, in the same order.
void absorb_neighbours(Plan& plan, const Graph& graph, std::span<const Layout> layouts);

}  // namespace podaq::runtime_detail
