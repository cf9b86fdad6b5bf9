#pragma once

#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "podaq/prune/channel_sets.h"
#include "podaq/prune/criterion.h"
#include "podaq/prune/gathered_scores.h"
#include "podaq/prune/masks.h"
#include "podaq/prune/pattern.h"
#include "podaq/prune/regrowth.h"
#include "podaq/prune/rewinding.h"
#include "podaq/prune/schedule.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// Layers whose units (see Pattern) compete with each other for one sparsity.
struct PruneGroup {
  std::vector<WeightedLayer> layers;  ///< At least one.
  double sparsity = 0;                ///< Share of the units at the end of the schedule, in [0, 1).
};

/// How a network is pruned.
struct PrunerOptions {
  Criterion criterion = MagnitudeL1{};      ///< What goes first.
  Pattern pattern = UnstructuredPattern{};  ///< What goes together.
  /// Its final sparsity is replaced by each group's; its initial one is limited to it. Under DeviationThreshold it
  /// ramps alpha instead.
  SparsitySchedule schedule = {};
  std::optional<Regrowth> regrowth = {};         ///< None: masks only grow.
  std::optional<std::int64_t> rewind_step = {};  ///< Steps done when what iterative rounds rewind to is copied.
};

/// All that a Pruner keeps between steps.
struct PrunerState {
  Masks masks = {};                ///< As they are.
  GatheredScores gathered = {};    ///< While the ramp lasts.
  NetworkSnapshot snapshot = {};   ///< From the rewind step to the last round.
  std::int64_t updated_step = -1;  ///< The step that `update` last moved the masks for.
};

/// Prunes a network along a schedule. Each group holds exactly zeros_at(sparsity, …) pruned units, no layer
/// empty, and under NOfMPattern no more than leaves n of m; under DeviationThreshold the number follows the weights.
/// Under ChannelPattern the units are channels that all layers of one group compute; what layers of several groups
/// compute together stays.
class Pruner {
 public:
  /// Throws Error(invalid_argument) naming what is out of range or does not fit together, and the layer that the
  /// criterion cannot score.
  Pruner(const GraphModule& model, std::vector<PruneGroup> groups, PrunerOptions options);

  /// To be called once after each optimizer step, before `update`: lets criteria that gather see its gradients.
  void gather(const GraphModule& model, std::int64_t step);

  /// To be called after optimizer step number `step`, as often as wanted: brings the masks to what the schedule asks
  /// then, moves regrowing masks, rewinds after a round, and writes zeros over the pruned weights. Does nothing before
  /// the schedule begins. Rewinding clears the optimizer's state; regrowth clears momentum where weights come back.
  /// Throws Error(invalid_argument) where gradients are needed and there are none.
  void update(const GraphModule& model, torch::optim::Optimizer& optimizer, std::int64_t step);

  /// Whether the schedule moves no mask from `step` on.
  [[nodiscard]] bool is_settled(std::int64_t step) const { return step >= options_.schedule.end; }

  /// Follows a network that has become smaller (see prune/channel_removal.h). Throws Error(invalid_argument) before the
  /// schedule is over, whose counts are those of the whole network.
  void remove_channels(const SmallerGraph& smaller);

  /// Masks more weights once the schedule is over. Each layer keeps its largest weight.
  void add_masks(const GraphModule& model, const Masks& more);

  /// What it prunes.
  [[nodiscard]] const std::vector<PruneGroup>& groups() const { return groups_; }
  /// The masks now.
  [[nodiscard]] const Masks& masks() const { return state_.masks; }
  /// What it keeps between steps.
  [[nodiscard]] const PrunerState& state() const { return state_; }
  /// Puts it back, as from a checkpoint of the same network and options.
  void set_state(PrunerState state) { state_ = std::move(state); }

 private:
  // Each says whether masks or weights may have changed.
  bool move_masks(const GraphModule& model, torch::optim::Optimizer& optimizer, std::int64_t step);
  bool prune_group(const GraphModule& model, std::size_t group, std::int64_t step);
  [[nodiscard]] bool regrow_is_due(std::int64_t last, std::int64_t step) const;
  void mask_below_threshold(const GraphModule& model, const PruneGroup& group, std::int64_t step);
  void regrow(const GraphModule& model, torch::optim::Optimizer& optimizer, double fraction);
  void find_sets(const Graph& graph);
  void prune_units(const GraphModule& model, const PruneGroup& group, std::int64_t zeros);
  void prune_channels(const GraphModule& model, std::size_t group, std::int64_t zeros);
  [[nodiscard]] std::vector<double> channel_scores(const GraphModule& model, const PruneGroup& group) const;
  void mask_channels(const GraphModule& model, std::size_t group, const std::vector<bool>& pruned);
  [[nodiscard]] torch::Tensor pruned_units(const WeightedLayer& layer) const;
  [[nodiscard]] torch::Tensor raw_scores_of(const GraphModule& model, const WeightedLayer& layer) const;
  [[nodiscard]] torch::Tensor scores_of(const GraphModule& model, const WeightedLayer& layer) const;

  std::vector<PruneGroup> groups_;
  PrunerOptions options_;
  PrunerState state_;
  std::optional<PrunableChannels> channels_;        // under ChannelPattern
  std::vector<std::vector<ChannelSet>> sets_ = {};  // under ChannelPattern, by group
};

}  // namespace podaq
