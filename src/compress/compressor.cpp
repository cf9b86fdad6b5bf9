#include "podaq/compress/compressor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compress/compressor_state.h"
#include "compress/quantization_plan.h"
#include "compress/recipe_plan.h"
#include "compress/refuse_recipe.h"
#include "podaq/core/error.h"
#include "podaq/prune/channel_removal.h"
#include "podaq/prune/channel_sets.h"
#include "podaq/prune/optimizer_state.h"
#include "podaq/training/random_sampler.h"

namespace podaq {
namespace {

using compress_detail::epochs_until_end;
using compress_detail::length_of;
using compress_detail::stage_lengths;

// Sums are rounded, not summands, so that fractions of epochs do not add up to an error.
StageEnds stage_ends(const StageLengths& epochs, std::int64_t steps_per_epoch) {
  StageEnds ends{};
  for (const auto& [stage, length] : stage_lengths)
    ends[static_cast<std::size_t>(stage)] =
        std::llround(epochs_until_end(epochs, stage) * static_cast<double>(steps_per_epoch));
  return ends;
}

// Far beyond any training, and small enough that positions of the longest recipe stay exact in a double.
constexpr std::int64_t most_steps_per_epoch = 100'000'000;

void require_steps(std::int64_t value, const std::string& field) {
  if (value < 1 || value > most_steps_per_epoch)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("attach: {} is {}, must lie in [1, {}]", field, value, most_steps_per_epoch));
}

// Dense and recover stages may vanish: they change nothing that a later stage or conversion relies on.
void require_working_stages(const Recipe& recipe, const StageEnds& ends, std::int64_t steps_per_epoch) {
  for (const Stage stage :
       {Stage::prune, Stage::quantize, Stage::freeze_batch_norm, Stage::freeze_observers, Stage::goldbarg}) {
    const auto index = static_cast<std::size_t>(stage);
    const double length = length_of(recipe.epochs, stage);
    if (length == 0 || ends[index] > ends[index - 1]) continue;
    compress_detail::refuse_recipe(
        recipe, fmt::format("epochs.{}", name_of(stage)),
        fmt::format("is {} epochs, which is no step at {} optimizer steps an epoch; give it at least {} (one step), or "
                    "0 to leave the stage out",
                    length, steps_per_epoch, 1.0 / static_cast<double>(steps_per_epoch)));
  }
}

void require_own_parameters(const GraphModule& model, const torch::optim::Optimizer& optimizer) {
  std::set<const void*> own;
  for (const torch::Tensor& parameter : model.parameters()) own.insert(parameter.unsafeGetTensorImpl());
  for (const auto& group : optimizer.param_groups())
    for (const torch::Tensor& parameter : group.params())
      if (own.contains(parameter.unsafeGetTensorImpl())) return;
  throw Error(ErrorCode::invalid_argument,
              "attach: the optimizer trains none of the network's parameters; make it from model->parameters() of the "
              "network that the compressor was given");
}

}  // namespace

Stage Compressor::State::stage() const {
  for (const auto& [stage, length] : stage_lengths)
    if (position() < ends[static_cast<std::size_t>(stage)]) return stage;
  const auto lasts = [&](const auto& entry) { return recipe.epochs.*entry.second != 0; };
  return std::find_if(stage_lengths.rbegin(), stage_lengths.rend(), lasts)->first;
}

void Compressor::State::require_training(std::string_view function) const {
  if (optimizer == nullptr) throw Error(ErrorCode::invalid_argument, fmt::format("{}: call attach first", function));
  require_own_numbers(function);
}

void Compressor::State::require_own_numbers(std::string_view function) const {
  if (average_is_swapped_in)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: the network holds its average; call swap_average again before training goes on", function));
}

std::int64_t Compressor::State::begin_of(Stage stage) const {
  const auto index = static_cast<std::size_t>(stage);
  return index == 0 ? 0 : ends[index - 1];
}

bool Compressor::State::has_reached(Stage stage) const {
  return position() >= begin_of(stage);
}

void Compressor::State::follow_position() {
  if (pruner) pruner->update(*model, *optimizer, position());
  if (removal_is_due())
    remove_channels(pruned_channels(model->graph(), find_prunable_channels(model->graph()), pruner->masks()));
  if (is_quantizing()) quantizer->enable(*model);
  if (goldbarg && has_reached(Stage::goldbarg)) goldbarg->update(*model, position());
  if (recipe.epochs.freeze_batch_norm > 0 && has_reached(Stage::freeze_batch_norm)) model->freeze_batch_norms();
  if (quantizer && recipe.epochs.freeze_observers > 0 && has_reached(Stage::freeze_observers))
    quantizer->freeze_observers();
  if (const auto fold = fold_position(); fold && position() >= *fold && !rounded_zeros_folded) {
    fold_rounded_zeros();
    rounded_zeros_folded = true;
  }
}

bool Compressor::State::removal_is_due() const {
  return pruner && removes_channels(*recipe.prune) && pruner->is_settled(position()) && !removed_channels;
}

void Compressor::State::remove_channels(std::vector<bool> removed) {
  const SmallerGraph smaller = podaq::remove_channels(model->graph(), find_channel_groups(model->graph()), removed);
  podaq::remove_channels(*model, *optimizer, smaller);
  pruner->remove_channels(smaller);
  groups = pruner->groups();
  if (quantizer) quantizer->remove_channels(smaller);
  if (average) average->remove_channels(smaller);
  removed_channels = std::move(removed);
}

void Compressor::State::update_average() {
  if (average && masks_are_fixed()) average->update(*model);
}

void Compressor::State::swap_average() {
  if (!average || average->tensors().empty()) return;
  average->swap(*model);
  average_is_swapped_in = !average_is_swapped_in;
}

void Compressor::State::settle_on_average() {
  if (!average) return;
  if (!average_is_swapped_in) swap_average();
  average->set_tensors({});
  average_is_swapped_in = false;
}

std::optional<std::int64_t> Compressor::State::fold_position() const {
  if (!recipe.prune || !recipe.prune->fold_rounded_zeros) return std::nullopt;
  return ends[static_cast<std::size_t>(*recipe.prune->fold_rounded_zeros)];
}

bool Compressor::State::masks_are_fixed() const {
  if (!recipe.prune) return true;
  return pruner && pruner->is_settled(position()) && (!fold_position() || rounded_zeros_folded);
}

Compressor::Compressor(std::shared_ptr<GraphModule> model, Recipe recipe) : state_(std::make_unique<State>()) {
  validate(recipe);
  if (!model) throw Error(ErrorCode::invalid_argument, "Compressor: the model is null; give it what capture returns");
  if (model->has_hooks())
    throw Error(ErrorCode::invalid_argument,
                "Compressor: the network has hooks already, of an earlier Compressor or your own; call "
                "model->clear_hooks() once nobody needs them");
  state_->model = std::move(model);
  if (recipe.automatic)
    compress_detail::refuse_recipe(recipe, "auto",
                                   "must be resolved first: give the Compressor resolve_auto(recipe, *model, "
                                   "validation).recipe (podaq/compress/resolve_auto.h)");
  if (recipe.prune) state_->groups = compress_detail::plan_pruning(*state_->model, recipe);
  if (recipe.quantize) state_->quantizer = compress_detail::make_quantizer(*state_->model, recipe);
  if (recipe.goldbarg) state_->goldbarg.emplace(*state_->model, recipe);
  if (recipe.average) state_->average.emplace(recipe.average->decay);
  state_->recipe = std::move(recipe);
}

Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;
Compressor::~Compressor() = default;

void Compressor::attach(torch::optim::Optimizer& optimizer, const AttachOptions& options) {
  require_steps(options.steps_per_epoch, "steps_per_epoch");
  require_steps(options.accumulation, "accumulation");
  if (epochs() == 0)
    throw Error(ErrorCode::invalid_argument,
                "attach: the recipe has no stage to train; call calibrate and convert, or give it epochs");
  state_->require_own_numbers("attach");
  require_own_parameters(*state_->model, optimizer);
  if (state_->recipe.prune && removes_channels(*state_->recipe.prune))
    if (const std::string problem = problem_with_cutting(optimizer); !problem.empty())
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("attach: {}; the recipe removes channels, use one of these or set prune.remove_channels = "
                      "false",
                      problem));
  const std::int64_t steps_per_epoch = (options.steps_per_epoch + options.accumulation - 1) / options.accumulation;
  if (state_->position() > 0 && steps_per_epoch != state_->steps_per_epoch)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("attach: an epoch has {} optimizer steps here, but had {} when training began",
                            steps_per_epoch, state_->steps_per_epoch));
  const StageEnds ends = stage_ends(state_->recipe.epochs, steps_per_epoch);
  require_working_stages(state_->recipe, ends, steps_per_epoch);
  std::optional<PrunerOptions> pruning;
  if (state_->recipe.prune) pruning = compress_detail::plan_schedule(state_->recipe, ends[0], ends[1], steps_per_epoch);
  state_->optimizer = &optimizer;
  state_->sampler = nullptr;
  state_->teacher = options.teacher;
  state_->steps_per_epoch = steps_per_epoch;
  state_->ends = ends;
  // In mid-training the schedule is the same as before, and the pruner has a past.
  if (pruning && (!state_->pruner || state_->position() == 0)) {
    Masks masks = state_->pruner ? state_->pruner->masks() : Masks();
    state_->pruner.emplace(*state_->model, state_->groups, *pruning);
    state_->pruner->set_state({.masks = std::move(masks)});
  }
  state_->follow_position();
}

void Compressor::attach(torch::optim::Optimizer& optimizer, RandomSampler& sampler, const AttachOptions& options) {
  attach(optimizer, options);
  state_->sampler = &sampler;
}

void Compressor::detach() {
  state_->optimizer = nullptr;
  state_->sampler = nullptr;
}

void Compressor::step() {
  State& state = *state_;
  state.require_training("step");
  if (state.epoch >= epochs())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("step: all {} epochs of the recipe are done; call convert, or lengthen a stage", epochs()));
  if (state.steps_in_epoch >= state.steps_per_epoch)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("step: called more than {} times in epoch {}; call it once after each optimizer.step() "
                            "(not after each accumulated batch) and end_epoch() after each epoch, and attach with the "
                            "number of batches and the accumulation",
                            state.steps_per_epoch, state.epoch));
  if (state.is_quantizing()) {
    state.idle_quantizers = state.quantizer->take_idle();
    state.quantizer->learn_steps(*state.model);
  }
  ++state.steps_in_epoch;
  if (state.pruner) state.pruner->gather(*state.model, state.position());
  state.follow_position();
  state.update_average();
}

void Compressor::end_epoch() {
  state_->require_training("end_epoch");
  const State& state = *state_;
  if (state.goldbarg && state.position() > state.begin_of(Stage::goldbarg)) state.goldbarg->end_epoch(*state.model);
  ++state_->epoch;
  state_->steps_in_epoch = 0;
  if (state_->sampler != nullptr) state_->sampler->finish_epoch();
  state_->follow_position();
}

std::int64_t Compressor::epoch() const {
  return state_->epoch;
}

std::int64_t Compressor::epochs() const {
  return whole_epochs(state_->recipe);
}

Stage Compressor::stage() const {
  return state_->is_attached() ? state_->stage() : Stage::dense;
}

bool Compressor::settled() const {
  const State& state = *state_;
  if (!state.is_attached()) return false;
  const std::int64_t last = state.ends.back();
  if (state.position() >= last) return true;
  if (!state.masks_are_fixed() || state.goldbarg) return false;
  return !state.quantizer || (state.recipe.epochs.freeze_observers > 0 && state.has_reached(Stage::freeze_observers));
}

bool Compressor::averages() const {
  return state_->average.has_value();
}

void Compressor::swap_average() {
  state_->swap_average();
}

std::string Compressor::placement_text() const {
  if (!state_->quantizer) return {};
  return to_text(state_->quantizer->placement(), state_->model->graph(), state_->model->steps());
}

}  // namespace podaq
