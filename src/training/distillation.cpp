#include "podaq/training/distillation.h"

#include <torch/nn/functional/activation.h>

#include <span>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/sha256.h"
#include "podaq/core/text.h"

namespace podaq {

namespace {

void check(const DistillationOptions& options) {
  if (!(options.weight >= 0 && options.weight <= 1))
    throw Error(ErrorCode::invalid_argument,
                concat("distillation: weight is ", options.weight, ", must lie in [0, 1]"));
  if (!(options.temperature > 0 && options.temperature <= 1000))
    throw Error(ErrorCode::invalid_argument,
                concat("distillation: temperature is ", options.temperature, ", must lie in (0, 1000]"));
}

std::string hash_of(const Graph& graph) {
  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  for (const Node& node : graph.nodes) {
    const std::string layer = concat(node.name, ':', name_of(node.op), ';');
    append(std::as_bytes(std::span(layer)));
  }
  for (const auto& [name, tensor] : graph.tensors) {
    append(std::as_bytes(std::span(name)));
    append(std::as_bytes(std::span(tensor.shape)));
    append(tensor.bytes);
  }
  return to_hexadecimal(sha256(bytes));
}

}  // namespace

torch::Tensor distillation_loss(const torch::Tensor& student, const torch::Tensor& teacher,
                                const torch::Tensor& label_loss, const DistillationOptions& options) {
  check(options);
  if (student.dim() != 2 || student.sizes() != teacher.sizes())
    throw Error(ErrorCode::invalid_argument, "distillation: student and teacher need logits [batch, classes] alike");
  const double temperature = options.temperature;
  const torch::Tensor wanted = (teacher.detach() / temperature).log_softmax(1);
  const torch::Tensor given = (student / temperature).log_softmax(1);
  const torch::Tensor divergence = (wanted.exp() * (wanted - given)).sum(1).mean();
  return options.weight * temperature * temperature * divergence + (1.0 - options.weight) * label_loss;
}

Teacher::Teacher(const GraphModule& model) : model_(std::dynamic_pointer_cast<GraphModule>(model.clone())) {
  model_->eval();
  for (torch::Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
  hash_ = hash_of(model_->snapshot());
}

torch::Tensor Teacher::logits(const torch::Tensor& input) const {
  const torch::NoGradGuard no_grad;
  return model_->forward(input);
}

}  // namespace podaq
