#pragma once

#include <cstddef>
#include <vector>

#include "podaq/training/graph_module.h"

namespace podaq {

/// Two layers of which the second alone reads what the first computes, through nothing but ReLU, leaky ReLU, pooling,
/// dropout and flattening, so that a positive factor per channel can move from one to the other.
struct EqualizationPair {
  std::size_t first = 0;   ///< Index of the first layer's step.
  std::size_t second = 0;  ///< Index of the second's.
};

/// All pairs of a network, in execution order: conv or linear followed by conv (depthwise and grouped too) or linear.
/// Left out are layers whose batch norm has no weight, that share tensors with others, and what a clamp other than ReLU
/// or a residual add stands behind.
[[nodiscard]] std::vector<EqualizationPair> equalization_pairs(const GraphModule& model);

/// Gives the channels between two layers ranges that suit a common scale, for all pairs and in turn until no factor
/// moves by more than 0.1 % (at most 40 rounds): channel i of the first layer is divided by
/// s_i = sqrt(r1_i / r2_i), where r1_i and r2_i are the largest magnitudes of the first layer's output channel and the
/// second's input channel after batch-norm folding, and the second's input channel is multiplied by it (Nagel et al.,
/// Data-Free Quantization through Weight Equalization and Bias Correction, arXiv 1906.04721, eq. 11). A batch norm
/// takes the first layer's factor into its weight and bias. The network computes the same numbers in eval mode, up to
/// rounding; zeros stay zeros, and channels that are all zeros on either side are left alone. Writes to the network's
/// own parameters. Returns the number of pairs.
std::size_t equalize_layers(GraphModule& model);

}  // namespace podaq
