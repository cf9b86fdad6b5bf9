#include "compress/quantization_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "compress/refuse_recipe.h"
#include "podaq/core/glob.h"
#include "podaq/prune/masks.h"

namespace podaq::compress_detail {
namespace {

// A conv or linear step. Tied layers too: each works on codes of its own.
struct LayerStep {
  WeightedLayer layer;
  std::size_t step = 0;
};

std::vector<LayerStep> layer_steps(const GraphModule& model) {
  std::vector<LayerStep> layers;
  for (std::size_t i = 0; i < model.steps().size(); ++i) {
    const Node& node = model.graph().nodes[model.steps()[i].node];
    if (has_weights(node.op)) layers.push_back({.layer = {.name = node.name, .weight = node.tensors.at(0)}, .step = i});
  }
  return layers;
}

bool is_chosen(std::span<const std::string> globs, const WeightedLayer& layer) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return chooses_layer(glob, layer); });
}

std::optional<int> bits_for(std::span<const BitsFor> exceptions, const WeightedLayer& layer) {
  std::optional<int> bits;
  for (const BitsFor& exception : exceptions)
    if (chooses_layer(exception.names, layer)) bits = exception.bits;
  return bits;
}

// Refuses globs that match nothing.
class Globs {
 public:
  Globs(const GraphModule& model, const Recipe& recipe)
      : graph_(model.graph()), recipe_(recipe), layers_(layer_steps(model)) {
    values_ = quantizable_values(graph_, model.steps());
  }

  void require_layer(const std::string& field, const std::string& glob) const {
    std::vector<std::string> names;
    for (const LayerStep& candidate : layers_) names.push_back(candidate.layer.name);
    const bool matches = std::any_of(layers_.begin(), layers_.end(),
                                     [&](const LayerStep& candidate) { return chooses_layer(glob, candidate.layer); });
    require_match(recipe_, field, glob, matches, "layer", fmt::format("{}", fmt::join(names, ", ")));
  }

  [[nodiscard]] std::set<ValueId> values(const std::string& field, const std::string& glob) const {
    std::set<ValueId> matched;
    std::vector<std::string> names;
    for (const ValueId value : values_) {
      names.push_back(graph_.values[value].name);
      if (matches_glob(glob, names.back())) matched.insert(value);
    }
    require_match(recipe_, field, glob, !matched.empty(), "value", fmt::format("{}", fmt::join(names, ", ")));
    return matched;
  }

  [[nodiscard]] std::set<ValueId> values(const std::string& field, std::span<const std::string> globs) const {
    std::set<ValueId> all;
    for (const std::string& glob : globs) all.merge(values(field, glob));
    return all;
  }

 private:
  const Graph& graph_;
  const Recipe& recipe_;
  std::vector<LayerStep> layers_;
  std::vector<ValueId> values_;
};

Placement place(const GraphModule& model, const Recipe& recipe, const Globs& globs) {
  const QuantizeRecipe& quantize = recipe.quantize.value();
  std::set<const Node*> chosen;
  for (const auto& [layer, step] : layer_steps(model))
    if (is_chosen(quantize.layers, layer) && !is_chosen(quantize.float_layers, layer))
      chosen.insert(&model.graph().nodes[model.steps()[step].node]);
  const PlacementOverrides overrides{.stay_float = globs.values("quantize.float_values", quantize.float_values),
                                     .quantized = globs.values("quantize.quantized_values", quantize.quantized_values)};
  try {
    return place_quantizers(
        model.graph(), model.steps(), [&](const Node& node) { return chosen.contains(&node); }, overrides);
  } catch (const Error& error) {
    refuse_recipe(recipe, overrides.stay_float.empty() ? "quantize.quantized_values" : "quantize.float_values",
                  fmt::format("cannot be had: {}", error.what()));
  }
}

// A glob with wildcards may pass over values without a quantizer; a name may not.
void require_quantizer(const Recipe& recipe, const std::string& field, const std::string& glob, bool has_quantizer) {
  if (has_quantizer || !is_literal_glob(glob)) return;
  refuse_recipe(recipe, fmt::format("{}.\"{}\"", field, glob),
                "names a value that no quantizer rounds; see Compressor::placement_text for those that are");
}

void set_activation_bits(const GraphModule& model, const Recipe& recipe, const Globs& globs, Placement& placement) {
  const QuantizeRecipe& quantize = recipe.quantize.value();
  std::vector<int> bits(placement.quantizers.size(), 0);
  for (const auto& [layer, step] : layer_steps(model)) {
    if (!placement.on_codes[step]) continue;
    for (const ValueId value : values_read(model.graph(), model.steps()[step])) {
      int& most = bits[placement.quantizer_of[value].value()];
      most = std::max(most, bits_for(quantize.activation_bits_by_layer, layer).value_or(quantize.activation_bits));
    }
  }
  for (const BitsFor& exception : quantize.activation_bits_by_value)
    for (const ValueId value : globs.values("quantize.activation_bits_by_value", exception.names)) {
      const std::optional<std::size_t> quantizer = placement.quantizer_of[value];
      require_quantizer(recipe, "quantize.activation_bits_by_value", exception.names, quantizer.has_value());
      if (quantizer) bits[*quantizer] = exception.bits;
    }
  for (std::size_t q = 0; q < bits.size(); ++q)
    placement.quantizers[q].bits = bits[q] == 0 ? quantize.activation_bits : bits[q];
}

std::map<std::string, FixedObserver> fixed_ranges(const GraphModule& model, const Recipe& recipe, const Globs& globs,
                                                  const Placement& placement) {
  std::set<ValueId> observed;
  for (const PlacedQuantizer& quantizer : placement.quantizers)
    observed.insert(quantizer.observed.begin(), quantizer.observed.end());
  std::map<std::string, FixedObserver> ranges;
  for (const FixedRangeFor& fixed : recipe.quantize->fixed_ranges)
    for (const ValueId value : globs.values("quantize.fixed_ranges", fixed.values)) {
      require_quantizer(recipe, "quantize.fixed_ranges", fixed.values, observed.contains(value));
      if (observed.contains(value)) ranges[model.graph().values[value].name] = fixed.range;
    }
  return ranges;
}

}  // namespace

QuantizationPlan plan_quantization(const GraphModule& model, const Recipe& recipe) {
  const QuantizeRecipe& quantize = recipe.quantize.value();
  const Globs globs(model, recipe);
  for (const std::string& glob : quantize.layers) globs.require_layer("quantize.layers", glob);
  for (const std::string& glob : quantize.float_layers) globs.require_layer("quantize.float_layers", glob);
  for (const BitsFor& exception : quantize.weight_bits_by_layer)
    globs.require_layer("quantize.weight_bits_by_layer", exception.names);
  for (const BitsFor& exception : quantize.activation_bits_by_layer)
    globs.require_layer("quantize.activation_bits_by_layer", exception.names);

  QuantizationPlan plan{.placement = place(model, recipe, globs), .options = {}};
  set_activation_bits(model, recipe, globs, plan.placement);
  plan.options = {.weights = std::vector<WeightQuantization>(model.steps().size()),
                  .observer = quantize.observer,
                  .fixed_ranges = fixed_ranges(model, recipe, globs, plan.placement),
                  .learns_activation_steps = quantize.activation_scale == ActivationScale::learned,
                  .step_learning_rate = quantize.step_learning_rate};
  for (const auto& [layer, step] : layer_steps(model))
    plan.options.weights[step] = {.bits = bits_for(quantize.weight_bits_by_layer, layer).value_or(quantize.weight_bits),
                                  .granularity = quantize.weight_granularity,
                                  .scale = quantize.weight_scale,
                                  .scale_mantissa_bits = quantize.scale_mantissa_bits};
  return plan;
}

NetworkQuantizer make_quantizer(const GraphModule& model, const Recipe& recipe) {
  QuantizationPlan plan = plan_quantization(model, recipe);
  return {model, std::move(plan.placement), std::move(plan.options)};
}

}  // namespace podaq::compress_detail
