#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "podaq/prune/masks.h"
#include "podaq/prune/schedule.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// Layers whose weights compete with each other for one sparsity.
struct PruneGroup {
  std::vector<WeightedLayer> layers;  ///< At least one.
  double sparsity = 0;                ///< At the end of the schedule, in [0, 1).
};

/// Prunes a network by magnitude along a schedule. Each group holds exactly zeros_at(sparsity, …) zeros, no layer
/// empty.
class Pruner {
 public:
  /// @param schedule  its final sparsity is replaced by each group's; its initial one is limited to it.
  Pruner(std::vector<PruneGroup> groups, const SparsitySchedule& schedule);

  /// To be called after optimizer step number `step`: brings the masks to what the schedule asks then, if it asks for
  /// more or fewer zeros than before, and writes zeros over the pruned weights. Does nothing before the schedule
  /// begins.
  void update(const GraphModule& model, std::int64_t step);

  /// Whether the masks stay as they are from `step` on.
  [[nodiscard]] bool is_settled(std::int64_t step) const { return step >= schedule_.end; }

  /// The masks now.
  [[nodiscard]] const Masks& masks() const { return masks_; }
  /// Puts masks back, as from a checkpoint.
  void set_masks(Masks masks) { masks_ = std::move(masks); }

 private:
  void prune_group(const GraphModule& model, const PruneGroup& group, std::int64_t step);

  std::vector<PruneGroup> groups_;
  SparsitySchedule schedule_;
  Masks masks_;
};

}  // namespace podaq
