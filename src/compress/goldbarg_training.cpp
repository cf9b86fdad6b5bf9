#include "compress/goldbarg_training.h"

#include <torch/torch.h>

#include <algorithm>

#include "compress/recipe_plan.h"
#include "podaq/graph/steps.h"
#include "podaq/prune/criterion.h"

namespace podaq::compress_detail {
namespace {

std::vector<std::string> chosen_tensors(const GraphModule& model, const Recipe& recipe) {
  const std::vector<WeightedLayer> layers = choose_layers(model, recipe, "goldbarg.layers", recipe.goldbarg->layers);
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const Node& node : model.graph().nodes) {
    if (!has_weights(node.op) || std::ranges::find(layers, node.name, &WeightedLayer::name) == layers.end()) continue;
    const auto learns = [&](const std::string& name) { return model.tensor(name).requires_grad(); };
    const std::string& bias = node.tensors[1];
    add(node.tensors[0]);
    // A frozen bias goes with a frozen layer that the recipe names.
    if (recipe.goldbarg->biases && !bias.empty() && (learns(bias) || !learns(node.tensors[0]))) add(bias);
  }
  return names;
}

}  // namespace

GoldbargTraining::GoldbargTraining(const GraphModule& model, const Recipe& recipe)
    : alpha_(recipe.goldbarg->alpha),
      restarts_(recipe.goldbarg->restart_from_quantized),
      tensors_(chosen_tensors(model, recipe)),
      steps_(std::make_shared<std::map<std::string, float>>()) {
  if (recipe.goldbarg->bits) quantization_ = {.bits = *recipe.goldbarg->bits, .codes = recipe.goldbarg->codes};
}

void GoldbargTraining::update(GraphModule& model, std::int64_t position) {
  if (position > updated_position_) {
    const torch::NoGradGuard no_grad;
    for (const std::string& name : tensors_) {
      torch::Tensor tensor = model.tensor(name);
      const double threshold = deviation_threshold(tensor, alpha_);
      if (threshold > 0) tensor.masked_fill_(threshold_mask(tensor, threshold), 0.0);
      if (quantization_) (*steps_)[name] = threshold_step(tensor, threshold, *quantization_);
    }
    updated_position_ = position;
  }
  if (!quantization_) return;
  for (const std::string& name : tensors_)
    model.set_tensor_hook(name, [steps = steps_, name, quantization = *quantization_](const torch::Tensor& tensor) {
      return round_to_step(tensor, steps->at(name), quantization);
    });
}

torch::Tensor GoldbargTraining::rounded(const GraphModule& model, const std::string& name) const {
  const torch::NoGradGuard no_grad;
  return round_to_step(model.tensor(name).detach(), steps_->at(name), *quantization_);
}

void GoldbargTraining::end_epoch(const GraphModule& model) const {
  if (!quantization_ || !restarts_) return;
  const torch::NoGradGuard no_grad;
  for (const std::string& name : tensors_) model.tensor(name).copy_(rounded(model, name));
}

Graph GoldbargTraining::snapshot(const GraphModule& model) const {
  Graph graph = model.snapshot();
  if (!quantization_) return graph;
  for (const std::string& name : tensors_) {
    Tensor& tensor = graph.tensors.at(name);
    if (!model.tensor(name).isfinite().all().item<bool>()) continue;  // conversion must see that, rounding hides it
    if (std::optional<Tensor> codes = encode_steps(model.tensor(name), steps_->at(name), *quantization_)) {
      tensor = *std::move(codes);
    } else {
      const torch::Tensor numbers = rounded(model, name).to(torch::kCPU, torch::kFloat).contiguous();
      tensor = make_tensor<float>(DType::f32, tensor.shape,
                                  {numbers.const_data_ptr<float>(), static_cast<std::size_t>(numbers.numel())});
    }
  }
  return graph;
}

Masks GoldbargTraining::rounded_zeros(const GraphModule& model) const {
  Masks zeros;
  if (!quantization_ || !has_begun()) return zeros;
  const torch::NoGradGuard no_grad;
  for (const WeightedLayer& layer : weighted_layers(model.graph()))
    if (steps_->contains(layer.weight))
      zeros[layer.weight] = rounded(model, layer.weight).eq(0).logical_and(model.tensor(layer.weight).detach() != 0);
  return zeros;
}

void GoldbargTraining::set_state(GraphModule& model, const GoldbargState& state) {
  for (const std::string& name : tensors_) model.set_tensor_hook(name, {});
  updated_position_ = state.updated_position;
  *steps_ = state.steps;
}

}  // namespace podaq::compress_detail
