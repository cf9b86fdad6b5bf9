#include "compress/converted_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "compress/integer_graph.h"
#include "podaq/core/error.h"
#include "podaq/core/version.h"
#include "podaq/graph/dead_channels.h"
#include "podaq/graph/passes.h"

namespace podaq::compress_detail {
namespace {

// The first layer that reads `value`, for error texts.
std::string reader_of(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs)
      if (input == value) return node.name;
  return "the network's output";
}

void require_observed(const GraphModule& model, const NetworkQuantizer& quantizer) {
  const std::map<std::string, ObservedRange> ranges = quantizer.ranges();
  const Graph& graph = model.graph();
  for (const PlacedQuantizer& placed : quantizer.placement().quantizers)
    for (const ValueId value : placed.observed) {
      const std::string& name = graph.values[value].name;
      if (ranges.at(name).is_observed) continue;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("convert: no data observed at value '{}', read by '{}'; train in the quantize "
                              "stage, or calibrate, first",
                              name, reader_of(graph, value)));
    }
}

void require_finite(const Graph& graph) {
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.dtype == DType::f32 &&
        !std::ranges::all_of(elements<float>(tensor), [](float number) { return std::isfinite(number); }))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("convert: '{}' holds NaN or infinities: training has diverged; go back to an earlier "
                              "checkpoint, with a lower learning rate",
                              name));
}

// The learned steps as they apply to the folded weight (see fake_quantize_layer).
std::vector<float> folded_steps(const Graph& snapshot, const Step& step, const NetworkQuantizer& quantizer,
                                std::size_t index) {
  std::vector<float> steps = quantizer.weight_steps(index);
  if (!step.batch_norm || quantizer.weight_quantization(index).granularity == WeightGranularity::tensor) return steps;
  const std::vector<float> factors = batch_norm_affine(snapshot, snapshot.nodes[*step.batch_norm]).scale;
  for (std::size_t c = 0; c < steps.size(); ++c) steps[c] *= std::abs(factors[c]);
  return steps;
}

IntegerPlan integer_plan(const GraphModule& model, const Graph& snapshot, const NetworkQuantizer& quantizer) {
  const Graph& graph = model.graph();
  const Placement& placement = quantizer.placement();
  IntegerPlan plan;
  for (ValueId value = 0; value < graph.values.size(); ++value)
    if (const auto index = placement.quantizer_of[value])
      plan.values.emplace(graph.values[value].name, quantizer.qparams(*index).value());
  for (std::size_t i = 0; i < model.steps().size(); ++i)
    if (placement.on_codes[i])
      plan.steps_on_codes.emplace(graph.values[model.steps()[i].output].name,
                                  StepOnCodes{.weight = quantizer.weight_quantization(i),
                                              .learned = folded_steps(snapshot, model.steps()[i], quantizer, i)});
  return plan;
}

}  // namespace

Graph integer_graph(const GraphModule& model, const NetworkQuantizer& quantizer) {
  require_observed(model, quantizer);
  const Graph snapshot = model.snapshot();
  return to_integer_graph(fuse(snapshot), integer_plan(model, snapshot, quantizer));
}

Graph converted_graph(const GraphModule& model, const Recipe& recipe, const Rounding& rounding,
                      const ConvertOptions& options) {
  const auto rounded_graph = [&] {
    if (rounding.quantizer != nullptr) return integer_graph(model, *rounding.quantizer);
    return fuse(rounding.goldbarg != nullptr ? rounding.goldbarg->snapshot(model) : model.snapshot());
  };
  Graph graph = rounded_graph();
  require_finite(graph);
  graph.metadata["producer"] = fmt::format("podaq {}", version);
  graph.metadata["recipe_sha256"] = recipe_hash(recipe);
  return options.remove_dead_channels ? remove_dead_channels(graph) : graph;
}

}  // namespace podaq::compress_detail
