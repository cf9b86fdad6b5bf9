#include "compress/trial_network.h"

#include <fmt/format.h>
#include <torch/optim/sgd.h>

#include <utility>

#include "compress/converted_graph.h"
#include "compress/quantization_plan.h"
#include "compress/recipe_plan.h"
#include "podaq/core/error.h"
#include "podaq/prune/pruner.h"

namespace podaq::compress_detail {

TrialNetwork::TrialNetwork(const GraphModule& model, Recipe recipe)
    : model_(std::dynamic_pointer_cast<GraphModule>(model.clone())),
      recipe_(std::move(recipe)),
      snapshot_(take_snapshot(*model_)),
      layers_(searched_layers(*model_, recipe_)) {}

double TrialNetwork::call(const ValidationFunction& validation) {
  const torch::NoGradGuard no_grad;
  model_->eval();
  const double loss = validation(*model_);
  model_->clear_hooks();
  rewind(*model_, snapshot_);
  return loss;
}

double TrialNetwork::baseline(const ValidationFunction& validation) {
  if (!recipe_.quantize) return call(validation);
  NetworkQuantizer quantizer = make_quantizer(*model_, recipe_);
  quantizer.observe_only(true);
  quantizer.enable(*model_);
  const double loss = call(validation);
  quantizer.observe_only(false);
  for (const auto& [value, range] : quantizer.ranges())
    if (!range.is_observed)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("validation function: value '{}' of the network that it was given never held a finite "
                              "number; it must run that network, on data without NaN",
                              value));
  observed_ = quantizer.state();
  return loss;
}

double TrialNetwork::loss_with(const SearchedLayer& searched, const LayerCandidate& candidate,
                               const ValidationFunction& validation) {
  const Masks& masks = masks_at(candidate.sparsity);
  if (const auto mask = masks.find(searched.layer.weight); mask != masks.end()) apply_masks(*model_, {*mask});
  if (candidate.weight_bits < 32)
    for (const std::size_t step : searched.steps)
      model_->set_parameter_hook(model_->steps()[step].output, [&quantizer = quantizer_at(candidate.weight_bits),
                                                                step](const LayerParameters& parameters) {
        return quantizer.rounded(step, parameters);
      });
  return call(validation);
}

Graph TrialNetwork::converted(std::span<const LayerCandidate> chosen) {
  const Recipe trial = with_candidates(recipe_, layers_, chosen);
  apply_masks(*model_, masks_of(trial));
  const std::optional<NetworkQuantizer> quantizer = trial.quantize ? std::optional(quantizer_of(trial)) : std::nullopt;
  Graph graph = converted_graph(*model_, trial, {.quantizer = quantizer ? &*quantizer : nullptr});
  rewind(*model_, snapshot_);
  return graph;
}

// By magnitude in one shot, whatever the recipe's criterion and schedule: what scores by gradients has none here.
Masks TrialNetwork::masks_of(const Recipe& trial) {
  if (!trial.prune) return {};
  Pruner pruner(
      *model_, plan_pruning(*model_, trial),
      {.criterion = MagnitudeL1{}, .pattern = trial.prune->pattern, .schedule = {.kind = ScheduleKind::constant}});
  torch::optim::SGD idle(model_->parameters(), 0.0);
  pruner.update(*model_, idle, 0);
  rewind(*model_, snapshot_);
  return pruner.masks();
}

NetworkQuantizer TrialNetwork::quantizer_of(const Recipe& trial) const {
  NetworkQuantizer quantizer = make_quantizer(*model_, trial);
  quantizer.set_state(observed_);
  return quantizer;
}

std::vector<LayerCandidate> TrialNetwork::all_alike(const LayerCandidate& candidate) const {
  std::vector<LayerCandidate> all;
  for (const SearchedLayer& searched : layers_)
    all.push_back({.sparsity = searched.searches_sparsity ? candidate.sparsity : searched.candidates[0].sparsity,
                   .weight_bits = searched.searches_bits ? candidate.weight_bits : searched.candidates[0].weight_bits});
  return all;
}

const Masks& TrialNetwork::masks_at(double sparsity) {
  auto found = masks_.find(sparsity);
  if (found == masks_.end())
    found =
        masks_.emplace(sparsity, masks_of(with_candidates(recipe_, layers_, all_alike({.sparsity = sparsity})))).first;
  return found->second;
}

const NetworkQuantizer& TrialNetwork::quantizer_at(int weight_bits) {
  auto found = quantizers_.find(weight_bits);
  if (found == quantizers_.end())
    found = quantizers_
                .emplace(weight_bits,
                         quantizer_of(with_candidates(recipe_, layers_, all_alike({.weight_bits = weight_bits}))))
                .first;
  return found->second;
}

}  // namespace podaq::compress_detail
