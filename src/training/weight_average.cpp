#include "podaq/training/weight_average.h"

#include <c10/core/GradMode.h>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

namespace {

// Calls visit(name, tensor) for each parameter and each floating-point buffer.
template <typename Visit>
void visit_numbers(const GraphModule& model, const Visit& visit) {
  for (const auto& item : model.named_parameters()) visit(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers())
    if (item.value().is_floating_point()) visit(item.key(), item.value());
}

}  // namespace

WeightAverage::WeightAverage(double decay) : decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    throw Error(ErrorCode::invalid_argument, concat("weight average: decay is ", decay, ", must lie in [0, 1)"));
}

void WeightAverage::update(const GraphModule& model) {
  const torch::NoGradGuard no_grad;
  visit_numbers(model, [&](const std::string& name, const torch::Tensor& tensor) {
    const auto [entry, is_new] = tensors_.try_emplace(name);
    if (is_new)
      entry->second = tensor.clone();
    else
      entry->second.lerp_(tensor, 1.0 - decay_);
  });
}

void WeightAverage::swap(const GraphModule& model) {
  if (tensors_.empty()) return;
  const torch::NoGradGuard no_grad;
  visit_numbers(model, [&](const std::string& name, const torch::Tensor& tensor) {
    torch::Tensor& average = tensors_.at(name);
    const torch::Tensor own = tensor.clone();
    torch::Tensor(tensor).copy_(average);
    average.copy_(own);
  });
}

}  // namespace podaq
