#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "compress/compressor_state.h"
#include "podaq/prune/masks.h"

namespace podaq {
namespace {

LayerReport report_layer(const GraphModule& model, const WeightedLayer& layer, const Masks* masks,
                         const Masks& rounded) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor weight = model.tensor(layer.weight);
  const torch::Tensor is_zero = weight == 0;
  LayerReport report{.layer = layer.name, .weights = weight.numel(), .zeros = is_zero.sum().item<std::int64_t>()};
  if (weight.numel() > 0) report.channels_at_zero = is_zero.flatten(1).all(1).sum().item<std::int64_t>();
  if (masks != nullptr)
    if (const auto mask = masks->find(layer.weight); mask != masks->end()) report.masked = count_pruned(mask->second);
  if (const auto mask = rounded.find(layer.weight); mask != rounded.end())
    report.rounded_to_zero = count_pruned(mask->second);
  return report;
}

}  // namespace

CompressionReport Compressor::report() const {
  const State& state = *state_;
  const Graph& graph = state.model->graph();
  const Masks rounded = state.rounded_zeros();
  CompressionReport report{.layers = {}, .not_finite_elements = {}, .without_bias = state.without_bias};
  for (const WeightedLayer& layer : weighted_layers(graph)) {
    LayerReport entry = report_layer(*state.model, layer, state.pruner ? &state.pruner->masks() : nullptr, rounded);
    if (state.quantizer)
      for (std::size_t i = 0; i < state.model->steps().size(); ++i)
        if (state.quantizer->placement().on_codes[i] && graph.nodes[state.model->steps()[i].node].name == layer.name)
          entry.weight_bits = state.quantizer->weight_quantization(i).bits;
    if (state.goldbarg && state.recipe.goldbarg->bits)
      if (const auto& names = state.goldbarg->tensors(); std::ranges::find(names, layer.weight) != names.end())
        entry.weight_bits = *state.recipe.goldbarg->bits;
    report.layers.push_back(std::move(entry));
  }
  if (state.quantizer)
    for (const auto& [name, range] : state.quantizer->ranges())
      if (range.not_finite_elements > 0) report.not_finite_elements.emplace(name, range.not_finite_elements);
  return report;
}

std::string to_text(const CompressionReport& report) {
  std::string text = fmt::format("{:<32} {:>10} {:>10} {:>9} {:>10} {:>9} {:>5} {:>13}\n", "layer", "weights", "zeros",
                                 "sparsity", "rounded", "effective", "bits", "zero channels");
  LayerReport all{.layer = "all"};
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const auto counts_of = [&](const LayerReport& layer) {
    return fmt::format("{:<32} {:>10} {:>10} {:>9.4f} {:>10} {:>9.4f}", layer.layer, layer.weights, layer.zeros,
                       share(layer.zeros, layer.weights), layer.rounded_to_zero,
                       share(layer.zeros + layer.rounded_to_zero, layer.weights));
  };
  for (const LayerReport& layer : report.layers) {
    text += fmt::format("{} {:>5} {:>13}\n", counts_of(layer), layer.weight_bits, layer.channels_at_zero);
    all.weights += layer.weights;
    all.zeros += layer.zeros;
    all.rounded_to_zero += layer.rounded_to_zero;
  }
  text += counts_of(all) + '\n';
  for (const auto& [name, count] : report.not_finite_elements)
    text += fmt::format("value '{}' held {} NaN or infinite elements while observed\n", name, count);
  for (const std::string& layer : report.without_bias)
    text += fmt::format("layer '{}' has no bias, so its mean error was not corrected\n", layer);
  return text;
}

}  // namespace podaq
