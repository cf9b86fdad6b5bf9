#include "podaq/prune/optimizer_state.h"

#include <torch/torch.h>

#include <utility>

#include "podaq/training/tensor_cut.h"

namespace podaq {
namespace {

namespace optim = torch::optim;

torch::Tensor momentum_of(const optim::OptimizerParamState& state) {
  if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(&state)) return sgd->momentum_buffer();
  if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(&state)) return adam->exp_avg();
  if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(&state)) return adamw->exp_avg();
  if (const auto* rmsprop = dynamic_cast<const optim::RMSpropParamState*>(&state)) return rmsprop->momentum_buffer();
  return {};
}

template <typename Moments, typename Cut>
void cut_moments(Moments& state, const Cut& cut) {
  state.exp_avg(cut(state.exp_avg()));
  state.exp_avg_sq(cut(state.exp_avg_sq()));
  state.max_exp_avg_sq(cut(state.max_exp_avg_sq()));
}

void cut_state(optim::OptimizerParamState& state, std::span<const TensorCut> cuts) {
  const auto cut = [&](const torch::Tensor& tensor) { return cut_tensor(tensor, cuts); };
  if (auto* sgd = dynamic_cast<optim::SGDParamState*>(&state)) sgd->momentum_buffer(cut(sgd->momentum_buffer()));
  if (auto* adam = dynamic_cast<optim::AdamParamState*>(&state)) cut_moments(*adam, cut);
  if (auto* adamw = dynamic_cast<optim::AdamWParamState*>(&state)) cut_moments(*adamw, cut);
  if (auto* adagrad = dynamic_cast<optim::AdagradParamState*>(&state)) adagrad->sum(cut(adagrad->sum()));
  if (auto* rmsprop = dynamic_cast<optim::RMSpropParamState*>(&state)) {
    rmsprop->square_avg(cut(rmsprop->square_avg()));
    rmsprop->momentum_buffer(cut(rmsprop->momentum_buffer()));
    rmsprop->grad_avg(cut(rmsprop->grad_avg()));
  }
}

}  // namespace

void clear_momentum(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter, const torch::Tensor& places) {
  const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (state == optimizer.state().end()) return;
  torch::Tensor momentum = momentum_of(*state->second);
  const torch::NoGradGuard no_grad;
  if (momentum.defined()) momentum.masked_fill_(places.to(momentum.device()), 0.0);
}

std::string problem_with_cutting(const torch::optim::Optimizer& optimizer) {
  const bool is_known = dynamic_cast<const optim::SGD*>(&optimizer) != nullptr ||
                        dynamic_cast<const optim::Adam*>(&optimizer) != nullptr ||
                        dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr ||
                        dynamic_cast<const optim::RMSprop*>(&optimizer) != nullptr ||
                        dynamic_cast<const optim::Adagrad*>(&optimizer) != nullptr;
  return is_known ? "" : "the optimizer is none of SGD, Adam, AdamW, RMSprop and Adagrad, whose state can be cut";
}

void replace_parameter(torch::optim::Optimizer& optimizer, const torch::Tensor& before, const torch::Tensor& after,
                       std::span<const TensorCut> cuts) {
  for (optim::OptimizerParamGroup& group : optimizer.param_groups())
    for (torch::Tensor& parameter : group.params())
      if (parameter.is_same(before)) parameter = after;
  const auto found = optimizer.state().find(before.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return;
  auto state = std::move(found->second);
  optimizer.state().erase(found);
  cut_state(*state, cuts);
  optimizer.state()[after.unsafeGetTensorImpl()] = std::move(state);
}

}  // namespace podaq
