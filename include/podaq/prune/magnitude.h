#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace podaq {

/// How many of `weights` weights, spread over `layers` layers that compete with each other, are zero at `sparsity`:
/// min(floor(weights * sparsity + 0.5), weights - layers), in double, so that no layer needs to become empty.
[[nodiscard]] std::int64_t zeros_at(double sparsity, std::int64_t weights, std::int64_t layers = 1);

/// The masks of one pruning decision: bool tensors of the weights' shapes, true where a weight is pruned.
///
/// Exactly `zeros` weights of smallest magnitude over all layers are pruned, and each layer keeps its largest, whatever
/// the others hold. Among equal magnitudes the earlier layer, then the lower index (row-major) goes first; NaN counts
/// as larger than every number. Weights that `previous` prunes go before all others, so masks only grow while `zeros`
/// does. Runs on the weights' device.
/// @param weights   any shapes, one floating-point type and device.
/// @param zeros     0 to (all weights) - (layers with weights).
/// @param previous  empty, or one earlier mask (may be undefined) per weight.
[[nodiscard]] std::vector<torch::Tensor> magnitude_masks(std::span<const torch::Tensor> weights, std::int64_t zeros,
                                                         std::span<const torch::Tensor> previous = {});

}  // namespace podaq
