#include "podaq/prune/magnitude.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

// Magnitudes as a row of finite numbers: what is pruned already comes first, NaN and infinity last.
torch::Tensor scores_of(const torch::Tensor& weight, const torch::Tensor& previous) {
  constexpr double largest = std::numeric_limits<float>::max();
  torch::Tensor scores = weight.detach().abs().reshape({-1}).nan_to_num(largest, largest);
  if (previous.defined()) scores.masked_fill_(previous.reshape({-1}).to(scores.device()), -1.0);
  return scores;
}

// True at the `count` smallest scores, the lower index first among equals.
torch::Tensor smallest(const torch::Tensor& scores, std::int64_t count) {
  if (count == 0) return torch::zeros_like(scores, torch::kBool);
  const torch::Tensor threshold = std::get<0>(scores.kthvalue(count));
  const torch::Tensor below = scores < threshold;
  const torch::Tensor equal = scores == threshold;
  const torch::Tensor missing = count - below.sum();
  return below.logical_or_(equal.logical_and(equal.cumsum(0) <= missing));
}

}  // namespace

std::int64_t zeros_at(double sparsity, std::int64_t weights, std::int64_t layers) {
  const auto share = static_cast<std::int64_t>(std::floor(static_cast<double>(weights) * sparsity + 0.5));
  return std::clamp<std::int64_t>(share, 0, std::max<std::int64_t>(weights - layers, 0));
}

std::vector<torch::Tensor> magnitude_masks(std::span<const torch::Tensor> weights, std::int64_t zeros,
                                           std::span<const torch::Tensor> previous) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> rows;
  std::int64_t candidates = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    torch::Tensor scores = scores_of(weights[i], previous.empty() ? torch::Tensor() : previous[i]);
    if (scores.numel() > 0) {
      // Of several largest the last is kept, since ties prune the lower index first.
      const torch::Tensor last_largest = scores.numel() - 1 - scores.flip(0).argmax();
      scores.index_fill_(0, last_largest, std::numeric_limits<double>::infinity());
      candidates += scores.numel() - 1;
    }
    rows.push_back(scores);
  }
  if (zeros < 0 || zeros > candidates)
    throw Error(ErrorCode::invalid_argument,
                concat("magnitude masks: zeros is ", zeros, ", must lie in [0, ", candidates, "]"));
  if (rows.empty()) return {};

  const torch::Tensor all = smallest(torch::cat(rows), zeros);
  std::vector<torch::Tensor> masks;
  std::int64_t offset = 0;
  for (const torch::Tensor& weight : weights) {
    masks.push_back(all.narrow(0, offset, weight.numel()).reshape(weight.sizes()).clone());
    offset += weight.numel();
  }
  return masks;
}

}  // namespace podaq
