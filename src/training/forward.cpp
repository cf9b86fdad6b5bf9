#include <torch/torch.h>

#include <optional>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/training/graph_module.h"
#include "training/operations.h"

namespace podaq {

namespace {

using training_detail::is_lifted;
using training_detail::to_plain;

std::optional<torch::Tensor> if_defined(const torch::Tensor& tensor) {
  return tensor.defined() ? std::optional<torch::Tensor>(tensor) : std::nullopt;
}

// Values of one per channel, shaped to multiply a weight or value whose channels lie in `dimension`.
torch::Tensor along(const torch::Tensor& values, std::int64_t dimension, std::int64_t rank) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(dimension)] = -1;
  return values.view(sizes);
}

// A batch norm with fixed statistics as a factor and an offset per channel (reference: batch_norm_affine).
struct ChannelAffine {
  torch::Tensor scale, shift;
};

ChannelAffine affine_of(const BatchNorm& op, const std::vector<torch::Tensor>& tensors) {
  const torch::Tensor variance = tensors[3] + op.epsilon;
  // LibTorch's float square root may be off by one unit in the last place; in double, then rounded, it is exact, as
  // conversion's is.
  const torch::Tensor deviation = variance.to(torch::kDouble).sqrt().to(variance.scalar_type());
  const torch::Tensor scale = tensors[0].defined() ? tensors[0] / deviation : deviation.reciprocal();
  const torch::Tensor shift = -tensors[2] * scale;
  return {.scale = scale, .shift = tensors[1].defined() ? tensors[1] + shift : shift};
}

LayerParameters folded(const LayerParameters& layer, const BatchNorm& op, const std::vector<torch::Tensor>& tensors) {
  const ChannelAffine affine = affine_of(op, tensors);
  const torch::Tensor bias = layer.bias.defined() ? layer.bias * affine.scale + affine.shift : affine.shift;
  return {.weight = layer.weight * along(affine.scale, 0, layer.weight.dim()),
          .bias = bias,
          .factor = affine.scale.detach()};
}

// The average that running statistics take the new batch with, after counting it.
double count_batch(const BatchNorm& op, const torch::Tensor& batches) {
  const torch::NoGradGuard no_grad;
  if (batches.defined()) torch::Tensor(batches).add_(1);
  if (op.momentum) return *op.momentum;
  return batches.defined() ? 1.0 / static_cast<double>(batches.item<std::int64_t>()) : 0.0;
}

}  // namespace

torch::Tensor GraphModule::forward(const torch::Tensor& input) {
  const auto outputs = forward(std::vector<torch::Tensor>{input});
  if (outputs.size() != 1)
    throw Error(ErrorCode::invalid_argument,
                concat("the network has ", outputs.size(), " outputs: call forward with a list"));
  return outputs[0];
}

std::vector<torch::Tensor> GraphModule::forward(const std::vector<torch::Tensor>& inputs) {
  if (inputs.size() != graph_.inputs.size())
    throw Error(ErrorCode::invalid_argument,
                concat("the network has ", graph_.inputs.size(), " inputs, got ", inputs.size()));
  std::vector<torch::Tensor> values(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[graph_.inputs[i]] = with_hook(graph_.inputs[i], checked_input(i, inputs[i]));
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const ValueId output = graph_.nodes[i].output;
    values[output] = with_hook(output, run(i, values));
    for (const ValueId value : plans_[i].last_uses) values[value] = torch::Tensor();
  }
  std::vector<torch::Tensor> outputs;
  for (const ValueId output : graph_.outputs)
    outputs.push_back(to_plain(values[output], graph_.values[output].shape.size()).contiguous());
  return outputs;
}

torch::Tensor GraphModule::checked_input(std::size_t index, const torch::Tensor& input) const {
  const Value& value = graph_.values[graph_.inputs[index]];
  const bool fits = input.defined() && input.dim() == std::ssize(value.shape) + 1 &&
                    input.sizes().slice(1).equals(torch::IntArrayRef(value.shape));
  if (!fits) {
    std::string sizes;
    for (const std::int64_t size : value.shape) sizes += concat(", ", size);
    std::string given;
    if (input.defined())
      for (const std::int64_t size : input.sizes()) given += concat(given.empty() ? "" : ", ", size);
    throw Error(ErrorCode::invalid_argument, concat("input '", value.name, "': expected a tensor of [batch", sizes,
                                                    "], got ", input.defined() ? concat("[", given, "]") : "none"));
  }
  return input;
}

torch::Tensor GraphModule::with_hook(ValueId value, const torch::Tensor& tensor) const {
  const auto hook = value_hooks_.find(value);
  if (hook == value_hooks_.end()) return tensor;
  const std::size_t rank = graph_.values[value].shape.size();
  const torch::Tensor changed = hook->second(to_plain(tensor, rank), is_training());
  return is_lifted(tensor, rank) ? changed.unsqueeze(2) : changed;
}

torch::Tensor GraphModule::run(std::size_t index, const std::vector<torch::Tensor>& values) const {
  const Node& node = graph_.nodes[index];
  const NodePlan& plan = plans_[index];
  const torch::Tensor& x = values[node.inputs[0]];
  if (std::holds_alternative<BatchNorm>(node.op)) return run_batch_norm(index, x);
  if (const auto* conv = std::get_if<Conv>(&node.op)) {
    const LayerParameters layer = parameters_of_step(steps_[*plan.starts_step]);
    return training_detail::convolve(*conv, x, layer.weight, layer.bias);
  }
  if (std::holds_alternative<Linear>(node.op)) {
    const LayerParameters layer = parameters_of_step(steps_[*plan.starts_step]);
    return training_detail::multiply(x, graph_.values[node.inputs[0]].shape.size(), layer.weight, layer.bias);
  }
  std::vector<torch::Tensor> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(values[input]);
  return training_detail::apply(graph_, node, inputs, is_training(), plan.owned_input, generator_);
}

LayerParameters GraphModule::own_parameters(const Step& step, bool with_hooks) const {
  const std::vector<torch::Tensor>& tensors = plans_[step.node].tensors;
  LayerParameters parameters = {.weight = tensors[0], .bias = tensors[1]};
  if (!with_hooks || tensor_hooks_.empty()) return parameters;
  const std::vector<std::string>& names = graph_.nodes[step.node].tensors;
  if (const auto hook = tensor_hooks_.find(names[0]); hook != tensor_hooks_.end())
    parameters.weight = hook->second(parameters.weight);
  if (const auto hook = tensor_hooks_.find(names[1]); hook != tensor_hooks_.end())
    parameters.bias = hook->second(parameters.bias);
  return parameters;
}

LayerParameters GraphModule::with_batch_norm(const Step& step, const LayerParameters& parameters) const {
  if (!step.batch_norm) return parameters;
  return folded(parameters, std::get<BatchNorm>(graph_.nodes[*step.batch_norm].op), plans_[*step.batch_norm].tensors);
}

LayerParameters GraphModule::folded_parameters(const Step& step) const {
  return with_batch_norm(step, own_parameters(step, false));
}

LayerParameters GraphModule::parameters_of_step(const Step& step) const {
  LayerParameters parameters = own_parameters(step, true);
  if (step.batch_norm && !statistics_are_fixed())
    parameters.bias_is_final = false;
  else
    parameters = with_batch_norm(step, parameters);
  const auto hook = parameter_hooks_.find(step.output);
  return hook == parameter_hooks_.end() ? parameters : hook->second(parameters);
}

torch::Tensor GraphModule::run_batch_norm(std::size_t index, const torch::Tensor& x) const {
  const NodePlan& plan = plans_[index];
  const auto& op = std::get<BatchNorm>(graph_.nodes[index].op);
  const std::vector<torch::Tensor>& tensors = plan.tensors;
  if (statistics_are_fixed()) {
    if (plan.folds_away) return x;
    const auto hook =
        plan.starts_step ? parameter_hooks_.find(steps_[*plan.starts_step].output) : parameter_hooks_.end();
    if (hook != parameter_hooks_.end()) {
      const ChannelAffine affine = affine_of(op, tensors);
      const std::int64_t weight_rank = std::ssize(graph_.values[graph_.nodes[index].inputs[0]].shape) + 1;
      const LayerParameters depthwise =
          hook->second({.weight = along(affine.scale, 0, weight_rank), .bias = affine.shift});
      return x * along(depthwise.weight.flatten(), 1, x.dim()) + along(depthwise.bias, 1, x.dim());
    }
    return at::batch_norm(x, if_defined(tensors[0]), if_defined(tensors[1]), tensors[2], tensors[3], false, 0.0,
                          op.epsilon, at::globalContext().userEnabledCuDNN());
  }
  if (x.size(0) > 0 && x.numel() / x.size(1) <= 1)
    throw Error(ErrorCode::invalid_argument,
                concat("batch norm '", graph_.nodes[index].name,
                       "' needs more than one value per channel while training: give a larger batch"));
  const double momentum = count_batch(op, tensors[4]);
  return at::batch_norm(x, if_defined(tensors[0]), if_defined(tensors[1]), tensors[2], tensors[3], true, momentum,
                        op.epsilon, at::globalContext().userEnabledCuDNN());
}

}  // namespace podaq
