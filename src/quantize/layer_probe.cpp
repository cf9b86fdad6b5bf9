#include "quantize/layer_probe.h"

#include <c10/core/GradMode.h>

#include <utility>
#include <variant>

#include "quantize/eval_mode.h"
#include "training/operations.h"

namespace podaq::quantize_detail {
namespace {

// Removes the hook that it set, also where a forward pass throws.
class ScopedValueHook {
 public:
  ScopedValueHook(GraphModule& model, ValueId value, ValueHook hook) : model_(model), value_(value) {
    model_.set_value_hook(value_, std::move(hook));
  }
  ~ScopedValueHook() { model_.set_value_hook(value_, {}); }
  ScopedValueHook(const ScopedValueHook&) = delete;
  ScopedValueHook& operator=(const ScopedValueHook&) = delete;

 private:
  GraphModule& model_;
  ValueId value_;
};

}  // namespace

std::vector<torch::Tensor> values_at(GraphModule& model, const NetworkQuantizer* quantizer, ValueId value,
                                     std::span<const CalibrationBatch> batches) {
  const torch::NoGradGuard no_grad;
  const EvalMode eval(model);
  std::vector<torch::Tensor> seen;
  if (quantizer != nullptr) quantizer->enable(model);
  {
    const ScopedValueHook hook(model, value, [&](const torch::Tensor& tensor, bool /*training*/) {
      const torch::Tensor read = quantizer == nullptr ? tensor : quantizer->rounded(value, tensor);
      seen.push_back(read.clone());
      return read;
    });
    for (const CalibrationBatch& batch : batches) model.forward(batch);
  }
  if (quantizer != nullptr) quantizer->enable(model);
  return seen;
}

torch::Tensor layer_output(const GraphModule& model, const Step& step, const torch::Tensor& input,
                           const LayerParameters& parameters) {
  const Node& node = model.graph().nodes[step.node];
  if (const auto* conv = std::get_if<Conv>(&node.op))
    return training_detail::convolve(*conv, input, parameters.weight, parameters.bias);
  return training_detail::multiply(input, model.graph().values[node.inputs[0]].shape.size(), parameters.weight,
                                   parameters.bias);
}

std::vector<std::size_t> layers_on_codes(const GraphModule& model, const NetworkQuantizer& quantizer) {
  std::vector<std::size_t> layers;
  for (std::size_t i = 0; i < model.steps().size(); ++i) {
    const Op& op = model.graph().nodes[model.steps()[i].node].op;
    if (has_weights(op) && quantizer.placement().on_codes[i]) layers.push_back(i);
  }
  return layers;
}

}  // namespace podaq::quantize_detail
