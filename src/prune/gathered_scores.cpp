#include "podaq/prune/gathered_scores.h"

#include <torch/torch.h>

#include <variant>

#include "prune/weight_rows.h"
#include "training/memory_layout.h"

namespace podaq {
namespace {

bool are_laid_out_alike(const torch::Tensor& sums, const torch::Tensor& weight, const torch::Tensor& gradient) {
  using training_detail::is_dense_float;
  return is_dense_float(sums) && is_dense_float(weight) && is_dense_float(gradient) &&
         sums.strides() == weight.strides() && sums.strides() == gradient.strides();
}

void gather(torch::Tensor& sums, const torch::Tensor& weight, const torch::Tensor& gradient, bool is_movement) {
  if (are_laid_out_alike(sums, weight, gradient)) {
    const auto add = is_movement ? prune_detail::subtract_products : prune_detail::add_magnitudes_of_products;
    add(weight.const_data_ptr<float>(), gradient.const_data_ptr<float>(), sums.mutable_data_ptr<float>(), sums.numel());
    return;
  }
  torch::Tensor products = (weight * gradient).nan_to_num_(0.0, 0.0, 0.0);
  sums.add_(is_movement ? products.neg_() : products.abs_());
}

}  // namespace

void gather_scores(GatheredScores& scores, const Criterion& criterion, const GraphModule& model,
                   std::span<const WeightedLayer> layers) {
  if (!gathers(criterion)) return;
  const torch::NoGradGuard no_grad;
  for (const WeightedLayer& layer : layers) {
    const torch::Tensor weight = model.tensor(layer.weight).detach();
    const torch::Tensor gradient = model.tensor(layer.weight).grad();
    if (!gradient.defined()) continue;
    torch::Tensor& sums = scores[layer.weight];
    if (!sums.defined()) sums = torch::zeros_like(weight);
    gather(sums, weight, gradient.detach(), std::holds_alternative<Movement>(criterion));
  }
}

}  // namespace podaq
