#include "podaq/quantize/bias_correction.h"

#include <c10/core/GradMode.h>

#include <memory>
#include <variant>

#include "quantize/layer_probe.h"

namespace podaq {
namespace {

// The tensor that a layer's bias per channel lies in, after folding; empty where there is none.
std::string bias_name(const Graph& graph, const Step& step) {
  const Node& node = graph.nodes[step.batch_norm ? *step.batch_norm : step.node];
  return node.tensors.size() > 1 ? node.tensors[1] : std::string();
}

// The mean output of each channel, in double.
torch::Tensor mean_output(const GraphModule& model, const Step& step, const LayerParameters& parameters,
                          const std::vector<torch::Tensor>& inputs) {
  const std::int64_t channels = parameters.weight.size(0);
  const bool channels_last = std::holds_alternative<Linear>(model.graph().nodes[step.node].op);
  torch::Tensor sum = torch::zeros({channels}, torch::kDouble);
  std::int64_t count = 0;
  for (const torch::Tensor& input : inputs) {
    const torch::Tensor output = quantize_detail::layer_output(model, step, input, parameters).to(torch::kDouble);
    const torch::Tensor rows = channels_last ? output.reshape({-1, channels}).t() : output.transpose(0, 1).flatten(1);
    sum += rows.sum(1).to(torch::kCPU);
    count += rows.size(1);
  }
  return sum / static_cast<double>(count);
}

}  // namespace

std::vector<std::string> correct_biases(GraphModule& model, const NetworkQuantizer& quantizer,
                                        std::span<const CalibrationBatch> batches) {
  const torch::NoGradGuard no_grad;
  // What layers compute before any correction.
  const auto original = std::dynamic_pointer_cast<GraphModule>(model.clone());
  std::vector<std::string> without_bias;
  for (const std::size_t index : quantize_detail::layers_on_codes(model, quantizer)) {
    const Step& step = model.steps()[index];
    const Node& node = model.graph().nodes[step.node];
    const std::string name = bias_name(model.graph(), step);
    if (name.empty()) {
      without_bias.push_back(node.name);
      continue;
    }
    const torch::Tensor expected = mean_output(*original, step, original->folded_parameters(step),
                                               quantize_detail::values_at(*original, nullptr, node.inputs[0], batches));
    const torch::Tensor got = mean_output(model, step, quantizer.rounded(index, model.folded_parameters(step)),
                                          quantize_detail::values_at(model, &quantizer, node.inputs[0], batches));
    torch::Tensor bias = model.tensor(name);
    bias.add_((expected - got).to(bias.options()));
  }
  quantizer.enable(model);
  return without_bias;
}

}  // namespace podaq
