#pragma once

#include <torch/optim/optimizer.h>

#include "podaq/graph/channel_groups.h"
#include "podaq/prune/masks.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// Takes channels out of a network while it trains (see GraphModule::remove_channels): the optimizer goes on with the
/// new parameters in the places of the old and with what is left of their state. Whoever else keeps tensors of the
/// parameters' shapes must follow: Pruner, NetworkQuantizer and WeightAverage have a `remove_channels` too, masks of
/// one's own can go through cut_tensors. Throws Error(invalid_argument) for an optimizer whose state is unknown (see
/// problem_with_cutting), and as GraphModule::remove_channels does; nothing has changed then.
void remove_channels(GraphModule& model, torch::optim::Optimizer& optimizer, const SmallerGraph& smaller);

/// The network's graph without the channels that the masks prune as a whole (see pruned_channels). What masks leave of
/// them, a bias or a batch norm's, is lost.
[[nodiscard]] SmallerGraph without_pruned_channels(const GraphModule& model, const Masks& masks);

}  // namespace podaq
