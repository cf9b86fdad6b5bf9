#pragma once

#include "podaq/graph/graph.h"

namespace podaq {

/// Scale and shift per channel that a batch norm with fixed statistics applies: y = x * scale + shift, with
/// scale = weight / sqrt(running_var + epsilon) and shift = bias - running_mean * scale, each product and quotient in
/// float. Finite for weight 0, tiny and negative. Throws Error(graph) naming the node and channel where
/// running_var + epsilon is not above 0.
struct BatchNormAffine {
  std::vector<float> scale;  ///< One per channel.
  std::vector<float> shift;  ///< One per channel.
};
[[nodiscard]] BatchNormAffine batch_norm_affine(const Graph& graph, const Node& batch_norm);

/// Fuses every step of a float graph with data (see find_steps) into one node under the name of the step's first:
/// batch norms are folded into weights and biases, clamps and adds into their producers, dropouts dropped (one that
/// computes an output of the graph becomes a reshape, so that the output keeps its name). A batch norm of one or two
/// spatial dimensions that follows no conv or linear becomes a depthwise 1x1 convolution; any other stays.
/// Weights of codes under float inputs stay codes: the batch norm goes into a scale for each channel, its sign into the
/// codes. Weights that are exactly 0 stay exactly +0. A folded tensor keeps its name unless another node uses it too,
/// in which case the copy is named after the node. Unused tensors and values are removed.
[[nodiscard]] Graph fuse(const Graph& graph);

/// Removes values no node or boundary refers to and tensors no node refers to, renumbering ids.
[[nodiscard]] Graph remove_unused(const Graph& graph);

}  // namespace podaq
