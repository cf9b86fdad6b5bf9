#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "compress/compressor_state.h"
#include "compress/integer_graph.h"
#include "podaq/core/error.h"
#include "podaq/core/version.h"
#include "podaq/graph/dead_channels.h"
#include "podaq/graph/passes.h"

namespace podaq {
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

// The learned steps as they apply to the folded weight (see fake_quantize_layer).
std::vector<float> folded_steps(const Graph& snapshot, const Step& step, const NetworkQuantizer& quantizer,
                                std::size_t index) {
  std::vector<float> steps = quantizer.weight_steps(index);
  if (!step.batch_norm || quantizer.weight_quantization(index).granularity == WeightGranularity::tensor) return steps;
  const std::vector<float> factors = batch_norm_affine(snapshot, snapshot.nodes[*step.batch_norm]).scale;
  for (std::size_t c = 0; c < steps.size(); ++c) steps[c] *= std::abs(factors[c]);
  return steps;
}

compress_detail::IntegerPlan integer_plan(const GraphModule& model, const Graph& snapshot,
                                          const NetworkQuantizer& quantizer) {
  const Graph& graph = model.graph();
  const Placement& placement = quantizer.placement();
  compress_detail::IntegerPlan plan;
  for (ValueId value = 0; value < graph.values.size(); ++value)
    if (const auto index = placement.quantizer_of[value])
      plan.values.emplace(graph.values[value].name, quantizer.qparams(*index).value());
  for (std::size_t i = 0; i < model.steps().size(); ++i)
    if (placement.on_codes[i])
      plan.steps_on_codes.emplace(
          graph.values[model.steps()[i].output].name,
          compress_detail::StepOnCodes{.weight = quantizer.weight_quantization(i),
                                       .learned = folded_steps(snapshot, model.steps()[i], quantizer, i)});
  return plan;
}

double epochs_until_end(const StageLengths& epochs, Stage stage) {
  double sum = epochs.dense + epochs.prune + epochs.recover + epochs.quantize;
  if (stage >= Stage::freeze_batch_norm) sum += epochs.freeze_batch_norm;
  if (stage >= Stage::freeze_observers) sum += epochs.freeze_observers;
  return sum;
}

}  // namespace

// The network holds its average while this lives.
class Compressor::AverageInPlace {
 public:
  explicit AverageInPlace(State& state) : state_(state), swaps_(!state.average_is_swapped_in) {
    if (swaps_) state_.swap_average();
  }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;
  ~AverageInPlace() {
    if (swaps_) state_.swap_average();
  }

 private:
  State& state_;
  bool swaps_;
};

void Compressor::State::require_fixed_masks() const {
  if (masks_are_fixed()) return;
  double fixed_from = recipe.epochs.dense + recipe.epochs.prune;
  if (recipe.prune->fold_rounded_zeros) fixed_from = epochs_until_end(recipe.epochs, *recipe.prune->fold_rounded_zeros);
  if (!is_attached())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convert: the recipe prunes, but training has not begun; call attach and train: masks are "
                            "fixed from epoch {:.6g} on",
                            fixed_from));
  const double done =
      static_cast<double>(epoch) + static_cast<double>(steps_in_epoch) / static_cast<double>(steps_per_epoch);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("convert: training is in stage '{}', at epoch {:.6g}; masks are fixed from epoch {:.6g} on: "
                          "train until then, or use a recipe without [prune]",
                          name_of(stage()), done, fixed_from));
}

Graph Compressor::State::integer_graph() const {
  require_observed(*model, *quantizer);
  const Graph snapshot = model->snapshot();
  return compress_detail::to_integer_graph(fuse(snapshot), integer_plan(*model, snapshot, *quantizer));
}

Graph Compressor::convert(const ConvertOptions& options) const {
  State& state = *state_;
  state.require_fixed_masks();
  if (state.quantizer && !state.is_quantizing() && epochs() > 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convert: the recipe quantizes, but training is still in stage '{}'; train on, "
                            "call calibrate, or use a recipe without [quantize]",
                            name_of(stage())));
  if (!state.idle_quantizers.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convert: trained without their quantizers: {}; do not remove the network's hooks, or keep "
                            "these layers float (quantize.float_layers)",
                            fmt::join(state.idle_quantizers, ", ")));
  const AverageInPlace average(state);
  // Weights may have been written since the last step, for instance by restoring an earlier copy.
  if (state.pruner) apply_masks(*state.model, state.pruner->masks());

  Graph graph = state.quantizer ? state.integer_graph() : fuse(state.model->snapshot());
  graph.metadata["producer"] = fmt::format("podaq {}", version);
  graph.metadata["recipe_sha256"] = recipe_hash(state.recipe);
  return options.remove_dead_channels ? remove_dead_channels(graph) : graph;
}

}  // namespace podaq
