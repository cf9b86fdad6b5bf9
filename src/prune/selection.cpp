#include "podaq/prune/selection.h"

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

std::int64_t zeros_at(double sparsity, std::int64_t units, std::int64_t layers) {
  const auto share = static_cast<std::int64_t>(std::floor(static_cast<double>(units) * sparsity + 0.5));
  return std::clamp<std::int64_t>(share, 0, std::max<std::int64_t>(units - layers, 0));
}

torch::Tensor with_pruned_first(const torch::Tensor& scores, const torch::Tensor& pruned) {
  constexpr double largest = std::numeric_limits<float>::max();
  const torch::Tensor finite = scores.detach().nan_to_num(largest, largest, -largest);
  if (!pruned.defined()) return finite;
  return finite.masked_fill(pruned.to(finite.device()), -std::numeric_limits<double>::infinity());
}

torch::Tensor lowest(const torch::Tensor& scores, std::int64_t count) {
  if (count == 0) return torch::zeros_like(scores, torch::kBool);
  const torch::Tensor threshold = std::get<0>(scores.kthvalue(count));
  const torch::Tensor below = scores < threshold;
  const torch::Tensor equal = scores == threshold;
  const torch::Tensor missing = count - below.sum();
  return below.logical_or(equal.logical_and(equal.cumsum(0) <= missing));
}

std::vector<torch::Tensor> lowest_units(std::span<const torch::Tensor> scores, std::int64_t zeros) {
  const torch::NoGradGuard no_grad;
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<torch::Tensor> rows;
  std::int64_t candidates = 0;
  for (const torch::Tensor& layer : scores) {
    torch::Tensor row = layer.detach();
    if (row.numel() > 0) {
      // Of several highest the last is kept, since ties prune the lower index first.
      const torch::Tensor last_highest = row.numel() - 1 - row.flip(0).argmax();
      row = row.index_fill(0, last_highest, never);
      candidates += (row < never).sum().item<std::int64_t>();
    }
    rows.push_back(row);
  }
  if (zeros < 0 || zeros > candidates)
    throw Error(ErrorCode::invalid_argument,
                concat("pruning: zeros is ", zeros, ", must lie in [0, ", candidates, "]"));
  if (rows.empty()) return {};

  const torch::Tensor all = lowest(torch::cat(rows), zeros);
  std::vector<torch::Tensor> chosen;
  std::int64_t offset = 0;
  for (const torch::Tensor& row : rows) {
    chosen.push_back(all.narrow(0, offset, row.numel()));
    offset += row.numel();
  }
  return chosen;
}

}  // namespace podaq
