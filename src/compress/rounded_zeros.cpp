#include <torch/torch.h>

#include <algorithm>
#include <variant>

#include "compress/compressor_state.h"
#include "compress/converted_graph.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

// A weight's codes in one step, or none where the step does not work on codes.
const Tensor* codes_of(const Graph& integers, const std::string& node) {
  const auto found = std::ranges::find(integers.nodes, node, &Node::name);
  if (found == integers.nodes.end() || found->tensors.empty()) return nullptr;
  const Tensor& weight = tensor_at(integers, found->tensors[0]);
  return weight.dtype == DType::s8 ? &weight : nullptr;
}

torch::Tensor is_code_zero(const Tensor& codes) {
  const std::span<const std::int8_t> values = elements<std::int8_t>(codes);
  const auto row = torch::from_blob(const_cast<std::int8_t*>(values.data()), codes.shape, torch::kChar);
  return row == 0;
}

}  // namespace

Masks Compressor::State::rounded_zeros() const {
  if (goldbarg) return goldbarg->rounded_zeros(*model);
  if (!is_quantizing()) return {};
  Graph integers;
  try {
    integers = compress_detail::integer_graph(*model, *quantizer);
  } catch (const Error&) {  // conversion names the reason; a report must do without
    return {};
  }
  const torch::NoGradGuard no_grad;
  Masks zeros;
  for (const Node& node : model->graph().nodes) {
    if (!has_weights(node.op)) continue;
    const torch::Tensor weight = model->tensor(node.tensors.at(0)).detach();
    const Tensor* codes = codes_of(integers, node.name);
    torch::Tensor rounded = codes == nullptr ? torch::zeros_like(weight, torch::kBool)
                                             : is_code_zero(*codes).to(weight.device()).logical_and(weight != 0);
    torch::Tensor& of_all_steps = zeros[node.tensors[0]];
    of_all_steps = of_all_steps.defined() ? of_all_steps.logical_and(rounded) : rounded;
  }
  return zeros;
}

void Compressor::State::fold_rounded_zeros() {
  const Masks rounded = rounded_zeros();
  Masks of_pruned_layers;
  for (const PruneGroup& group : groups)
    for (const WeightedLayer& layer : group.layers)
      if (const auto mask = rounded.find(layer.weight); mask != rounded.end()) of_pruned_layers.insert(*mask);
  pruner->add_masks(*model, of_pruned_layers);
}

}  // namespace podaq
