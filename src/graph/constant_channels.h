#pragma once

#include <optional>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::graph_detail {

/// What a channel holds at all positions whatever the input: a float number, or a code. Nothing where it varies or is
/// not known to be constant.
using ChannelConstant = std::optional<float>;

/// [value][channel of the first dimension].
using ChannelConstants = std::vector<std::vector<ChannelConstant>>;

/// Finds the constant channels of a fused graph with data, in execution order. On the way, weights that meet a constant
/// are written to 0 where that changes nothing but the bias, into which what they made of it goes.
[[nodiscard]] ChannelConstants fold_constant_channels(Graph& graph);

}  // namespace podaq::graph_detail
