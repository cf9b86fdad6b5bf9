#include "podaq/prune/regrowth.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "podaq/core/text.h"
#include "podaq/prune/selection.h"

namespace podaq {

std::string problem_with(const Regrowth& regrowth) {
  constexpr std::int64_t most_steps = 100'000'000;
  if (regrowth.every < 1 || regrowth.every > most_steps)
    return concat("has every = ", regrowth.every, ", must lie in [1, ", most_steps, "]");
  if (!(regrowth.fraction > 0 && regrowth.fraction <= 1))
    return concat("has fraction = ", regrowth.fraction, ", must lie in (0, 1]");
  return {};
}

double regrow_fraction_at(const Regrowth& regrowth, const SparsitySchedule& schedule, std::int64_t step) {
  if (step < schedule.begin || step >= schedule.end) return 0;
  const double done = static_cast<double>(step - schedule.begin) / static_cast<double>(schedule.end - schedule.begin);
  return regrowth.fraction / 2 * (1 + std::cos(std::numbers::pi * done));
}

torch::Tensor regrown_units(const torch::Tensor& pruned, const torch::Tensor& scores, const torch::Tensor& gradient,
                            double fraction) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto pruned_count = pruned.sum().item<std::int64_t>();
  const std::int64_t left = pruned.numel() - pruned_count;
  const auto share = static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(left)));
  const std::int64_t moves = std::min({share, left - 1, pruned_count});
  if (moves <= 0) return pruned;
  const torch::Tensor dropped = lowest(scores.masked_fill(pruned, never), moves);
  const torch::Tensor steepness = gradient.detach().nan_to_num(0.0).neg();
  const torch::Tensor grown = lowest(steepness.masked_fill(pruned.logical_not(), never), moves);
  return pruned.logical_or(dropped).logical_and(grown.logical_not());
}

}  // namespace podaq
