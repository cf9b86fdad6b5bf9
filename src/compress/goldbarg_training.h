#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/graph/graph.h"
#include "podaq/prune/masks.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// What the strategy keeps between steps.
struct GoldbargState {
  std::int64_t updated_position = -1;  ///< The position whose thresholds are in force; -1: none yet.
  std::map<std::string, float> steps;  ///< By tensor: what it is rounded to multiples of; 0: not at all.
};

/// [goldbarg] on one network (see GoldbargRecipe).
class GoldbargTraining {
 public:
  /// Throws Error(recipe) for a glob that chooses no layer. Does not touch the network.
  GoldbargTraining(const GraphModule& model, const Recipe& recipe);

  /// Brings the tensors to what the next batch computes with, once for each position: prunes them in place and chooses
  /// their steps. From here on the network rounds them.
  void update(GraphModule& model, std::int64_t position);

  /// What follows the last batch of an epoch: the rounded tensors replace the unrounded ones, if the recipe says so.
  void end_epoch(const GraphModule& model) const;

  /// The network's numbers as a float graph, the tensors rounded: as codes where at most 8 bits hold them.
  [[nodiscard]] Graph snapshot(const GraphModule& model) const;

  /// The weights that are not 0 and round to 0, by name: bool of each weight's shape.
  [[nodiscard]] Masks rounded_zeros(const GraphModule& model) const;

  /// The tensors that it prunes and rounds, by name.
  [[nodiscard]] const std::vector<std::string>& tensors() const { return tensors_; }

  /// Whether there has been an update.
  [[nodiscard]] bool has_begun() const { return updated_position_ >= 0; }
  /// Whether it rounds, or prunes alone.
  [[nodiscard]] bool rounds() const { return quantization_.has_value(); }

  [[nodiscard]] GoldbargState state() const { return {.updated_position = updated_position_, .steps = *steps_}; }
  /// Puts back what `state` gave; the network rounds again from the next `update` on.
  void set_state(GraphModule& model, const GoldbargState& state);

 private:
  [[nodiscard]] torch::Tensor rounded(const GraphModule& model, const std::string& name) const;

  double alpha_;
  std::optional<ThresholdQuantization> quantization_;
  bool restarts_;
  std::vector<std::string> tensors_;
  std::int64_t updated_position_ = -1;
  std::shared_ptr<std::map<std::string, float>> steps_;  // shared with the hooks
};

}  // namespace podaq::compress_detail
