#include "podaq/prune/pruner.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/prune/optimizer_state.h"
#include "podaq/prune/selection.h"

namespace podaq {
namespace {

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, concat("pruning: ", problem));
}

void require(bool holds, const std::string& problem) {
  if (!holds) refuse(problem);
}

bool has_threshold(const PrunerOptions& options) {
  return std::holds_alternative<DeviationThreshold>(options.criterion);
}

// Whether the group ever gets zeros, so that its layers must be scored.
bool is_pruned(const PruneGroup& group, const PrunerOptions& options) {
  return group.sparsity > 0 || has_threshold(options);
}

void check_schedule(const PrunerOptions& options) {
  const SparsitySchedule& schedule = options.schedule;
  require(schedule.end >= schedule.begin, "the schedule ends before it begins");
  require(schedule.initial_sparsity >= 0 && schedule.initial_sparsity < 1, "initial_sparsity must lie in [0, 1)");
  require(schedule.update_every >= 1, "update_every must be at least 1");
  require(schedule.rounds >= 1, "rounds must be at least 1");
  const bool needs_shares = schedule.kind == ScheduleKind::exponential || schedule.kind == ScheduleKind::iterative;
  require(!has_threshold(options) || !needs_shares,
          "a threshold goes with a constant, one_shot, linear or cubic schedule");
}

void check_group(const GraphModule& model, const PruneGroup& group, const PrunerOptions& options) {
  require(!group.layers.empty(), "a group has no layers");
  require(group.sparsity >= 0 && group.sparsity < 1, concat("sparsity is ", group.sparsity, ", must lie in [0, 1)"));
  if (!is_pruned(group, options)) return;
  for (const WeightedLayer& layer : group.layers) {
    const std::string problem = problem_with(options.criterion, model, layer);
    require(problem.empty(), concat("the criterion ", problem));
    require(!options.regrowth || model.tensor(layer.weight).requires_grad(),
            concat("regrowth needs gradients, but the weight of layer '", layer.name, "' needs none"));
  }
}

struct UnitCounts {
  std::int64_t units = 0;
  std::int64_t prunable = 0;
  std::int64_t layers = 0;  // with units
};

UnitCounts count_units(const GraphModule& model, const PruneGroup& group, const Pattern& pattern) {
  UnitCounts counts;
  for (const WeightedLayer& layer : group.layers) {
    const torch::Tensor weight = model.tensor(layer.weight);
    const std::int64_t units = count_units(pattern, weight.sizes(), layer.groups);
    counts.units += units;
    counts.prunable += count_prunable_units(pattern, weight.sizes(), layer.groups);
    counts.layers += units > 0 ? 1 : 0;
  }
  return counts;
}

UnitCounts count_channels(const std::vector<ChannelSet>& sets) {
  UnitCounts counts;
  for (const ChannelSet& set : sets) counts.units += std::ssize(set.groups);
  counts.layers = std::ssize(sets);
  counts.prunable = counts.units - counts.layers;
  return counts;
}

// How many units the schedule asks of a group whose sparsity it leads to.
std::int64_t zeros_asked(SparsitySchedule schedule, double sparsity, const UnitCounts& counts, std::int64_t step) {
  if (step < schedule.begin) return 0;
  schedule.final_sparsity = sparsity;
  schedule.initial_sparsity = std::min(schedule.initial_sparsity, sparsity);
  return std::min(zeros_at(sparsity_at(schedule, step), counts.units, counts.layers), counts.prunable);
}

}  // namespace

Pruner::Pruner(const GraphModule& model, std::vector<PruneGroup> groups, PrunerOptions options)
    : groups_(std::move(groups)), options_(std::move(options)) {
  const auto require_none = [](std::string_view what, const std::string& problem) {
    require(problem.empty(), concat(what, problem));
  };
  require_none("the pattern ", problem_with(options_.pattern));
  require_none("the criterion ", problem_with(options_.criterion, options_.pattern));
  check_schedule(options_);
  if (options_.regrowth) {
    require_none("regrowth ", problem_with(*options_.regrowth));
    require(!std::holds_alternative<NOfMPattern>(options_.pattern), "regrowth does not go with the pattern N:M");
    require(!std::holds_alternative<ChannelPattern>(options_.pattern),
            "regrowth does not go with the pattern channels, whose pruned channels get no gradient");
    require(!has_threshold(options_), "regrowth does not go with a threshold, whose masks move by themselves");
  }
  for (const PruneGroup& group : groups_) check_group(model, group, options_);
  if (std::holds_alternative<ChannelPattern>(options_.pattern)) find_sets(model.graph());
}

void Pruner::gather(const GraphModule& model, std::int64_t step) {
  if (step <= options_.schedule.begin || is_settled(state_.updated_step)) return;
  for (const PruneGroup& group : groups_)
    if (is_pruned(group, options_)) gather_scores(state_.gathered, options_.criterion, model, group.layers);
}

void Pruner::update(const GraphModule& model, torch::optim::Optimizer& optimizer, std::int64_t step) {
  const bool is_due = step > state_.updated_step && !is_settled(state_.updated_step);
  // The optimizer has moved pruned weights. A threshold looks at that, everything else must not.
  if (!is_due || !has_threshold(options_)) apply_masks(model, state_.masks);
  if (is_due && move_masks(model, optimizer, step)) apply_masks(model, state_.masks);
}

bool Pruner::move_masks(const GraphModule& model, torch::optim::Optimizer& optimizer, std::int64_t step) {
  const SparsitySchedule& schedule = options_.schedule;
  const std::int64_t last = state_.updated_step;
  bool has_changed = false;
  if (options_.rewind_step && last < *options_.rewind_step && step >= *options_.rewind_step)
    state_.snapshot = take_snapshot(model);
  if (step >= schedule.begin) {
    for (std::size_t group = 0; group < groups_.size(); ++group)
      has_changed = prune_group(model, group, step) || has_changed;
    if (options_.regrowth && regrow_is_due(last, step)) {
      regrow(model, optimizer, regrow_fraction_at(*options_.regrowth, schedule, step));
      has_changed = true;
    }
    if (options_.rewind_step && rounds_at(schedule, step) > rounds_at(schedule, last)) {
      rewind(model, state_.snapshot);
      optimizer.state().clear();
      has_changed = true;
    }
  }
  if (is_settled(step)) {
    state_.gathered.clear();
    state_.snapshot.clear();
  }
  state_.updated_step = step;
  return has_changed;
}

bool Pruner::regrow_is_due(std::int64_t last, std::int64_t step) const {
  const SparsitySchedule& schedule = options_.schedule;
  const auto moves = [&](std::int64_t at) { return (at - schedule.begin) / options_.regrowth->every; };
  return step < schedule.end && moves(step) > moves(std::max(last, schedule.begin));
}

bool Pruner::prune_group(const GraphModule& model, std::size_t index, std::int64_t step) {
  const PruneGroup& group = groups_[index];
  if (has_threshold(options_)) {
    mask_below_threshold(model, group, step);
    return true;
  }
  // What was asked for last is a matter of the schedule, so that resumed runs move the same masks.
  const UnitCounts counts = channels_ ? count_channels(sets_[index]) : count_units(model, group, options_.pattern);
  const std::int64_t before = zeros_asked(options_.schedule, group.sparsity, counts, state_.updated_step);
  const std::int64_t zeros = zeros_asked(options_.schedule, group.sparsity, counts, step);
  if (zeros == before) return false;
  if (channels_)
    prune_channels(model, index, zeros);
  else
    prune_units(model, group, zeros);
  return true;
}

void Pruner::prune_units(const GraphModule& model, const PruneGroup& group, std::int64_t zeros) {
  std::vector<torch::Tensor> rows;
  for (const WeightedLayer& layer : group.layers) {
    torch::Tensor row = scores_of(model, layer);
    if (const auto* n_of_m = std::get_if<NOfMPattern>(&options_.pattern)) {
      const torch::Tensor spared = spared_weights(*n_of_m, row.reshape(model.tensor(layer.weight).sizes()));
      row = row.masked_fill(spared.reshape({-1}), std::numeric_limits<double>::infinity());
    }
    rows.push_back(std::move(row));
  }
  const std::vector<torch::Tensor> chosen = lowest_units(rows, zeros);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const WeightedLayer& layer = group.layers[i];
    const torch::Tensor weight = model.tensor(layer.weight);
    state_.masks[layer.weight] =
        mask_of_units(options_.pattern, chosen[i], weight.sizes(), layer.groups).to(weight.device());
  }
}

void Pruner::mask_below_threshold(const GraphModule& model, const PruneGroup& group, std::int64_t step) {
  SparsitySchedule schedule = options_.schedule;
  if (updated_step(schedule, step) <= state_.updated_step && !is_settled(step)) return;
  schedule.initial_sparsity = 0;
  schedule.final_sparsity = std::get<DeviationThreshold>(options_.criterion).alpha;
  const double alpha = sparsity_at(schedule, step);
  for (const WeightedLayer& layer : group.layers) {
    const torch::Tensor weight = model.tensor(layer.weight);
    state_.masks[layer.weight] = threshold_mask(weight, deviation_threshold(weight, alpha));
  }
}

void Pruner::regrow(const GraphModule& model, torch::optim::Optimizer& optimizer, double fraction) {
  const torch::NoGradGuard no_grad;
  bool has_gradient = false;
  bool has_masks = false;
  for (const PruneGroup& group : groups_)
    for (const WeightedLayer& layer : group.layers) {
      const auto mask = state_.masks.find(layer.weight);
      if (mask == state_.masks.end()) continue;
      has_masks = true;
      const torch::Tensor weight = model.tensor(layer.weight);
      if (!weight.grad().defined()) continue;
      has_gradient = true;
      const torch::Tensor steepness = sum_units(options_.pattern, weight.grad().detach().abs(), layer.groups);
      const torch::Tensor units = regrown_units(pruned_units(layer).to(torch::kCPU), scores_of(model, layer),
                                                steepness.to(torch::kCPU), fraction);
      torch::Tensor moved = mask_of_units(options_.pattern, units, weight.sizes(), layer.groups).to(weight.device());
      const torch::Tensor returned = mask->second.logical_and(moved.logical_not());
      clear_momentum(optimizer, weight, returned);
      if (const auto gathered = state_.gathered.find(layer.weight); gathered != state_.gathered.end())
        gathered->second.masked_fill_(returned.to(weight.device()), 0.0);  // it moved while it was masked
      mask->second = std::move(moved);
    }
  if (has_masks && !has_gradient)
    refuse(
        "regrowth needs the gradients of the last batch, and no layer has any; call zero_grad before the forward "
        "pass, not between the optimizer's step and the compressor's");
}

torch::Tensor Pruner::pruned_units(const WeightedLayer& layer) const {
  const auto mask = state_.masks.find(layer.weight);
  return mask == state_.masks.end() ? torch::Tensor() : units_of_mask(options_.pattern, mask->second, layer.groups);
}

torch::Tensor Pruner::raw_scores_of(const GraphModule& model, const WeightedLayer& layer) const {
  ScoreSources sources{.gathered = {}, .pruned_units = pruned_units(layer)};
  if (gathers(options_.criterion)) {
    const auto gathered = state_.gathered.find(layer.weight);
    if (gathered == state_.gathered.end())
      refuse(concat("the criterion ", name_of(options_.criterion), " has seen no gradient of layer '", layer.name,
                    "' yet; call zero_grad before the forward pass, not between the optimizer's step and the "
                    "compressor's"));
    sources.gathered = gathered->second;
  }
  return score_units(options_.criterion, options_.pattern, model, layer, sources);
}

torch::Tensor Pruner::scores_of(const GraphModule& model, const WeightedLayer& layer) const {
  return with_pruned_first(raw_scores_of(model, layer), pruned_units(layer));
}

void Pruner::add_masks(const GraphModule& model, const Masks& more) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, added] : more) {
    const torch::Tensor weight = model.tensor(name).detach();
    torch::Tensor& mask = state_.masks[name];
    if (!mask.defined()) mask = torch::zeros_like(added);
    torch::Tensor both = mask.logical_or(added).contiguous();
    if (both.numel() > 0 && both.all().item<bool>()) {
      const torch::Tensor largest = weight.abs().masked_fill(mask, -1.0).reshape({-1}).argmax();
      both.view({-1}).index_fill_(0, largest, false);
    }
    mask = both;
  }
  apply_masks(model, state_.masks);
}

}  // namespace podaq
