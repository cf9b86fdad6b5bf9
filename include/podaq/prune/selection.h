#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace podaq {

/// How many of `units` units (see Pattern), spread over `layers` layers that compete with each other, are zero at
/// `sparsity`: min(floor(units * sparsity + 0.5), units - layers), in double, so that no layer needs to become empty.
[[nodiscard]] std::int64_t zeros_at(double sparsity, std::int64_t units, std::int64_t layers = 1);

/// Scores ready for `lowest_units`: NaN and +infinity become the largest number, -infinity the lowest; units that are
/// pruned already become -infinity, so that they go first and masks only grow while their count does. A row of doubles
/// on the CPU.
/// @param scores  a row, floating point, of any device.
/// @param pruned  bool, as long as `scores`, or undefined.
[[nodiscard]] torch::Tensor with_pruned_first(const torch::Tensor& scores, const torch::Tensor& pruned);

/// The units that one pruning decision takes: for each layer's row of scores a bool row, true where pruned.
///
/// Exactly `zeros` units of lowest score over all layers, and each layer keeps its highest, whatever the others hold.
/// Among equal scores the earlier layer, then the lower index goes first. A unit of score +infinity is never taken.
/// The rows are on the CPU. Throws Error(invalid_argument)
/// where `zeros` is not in [0, units that may be taken].
/// @param scores  one row per layer, as `with_pruned_first` makes them; may be empty.
[[nodiscard]] std::vector<torch::Tensor> lowest_units(std::span<const torch::Tensor> scores, std::int64_t zeros);

/// The `count` units of lowest score of one row, the lower index first among equals: bool. Throws as `lowest_units`.
[[nodiscard]] torch::Tensor lowest(const torch::Tensor& scores, std::int64_t count);

}  // namespace podaq
