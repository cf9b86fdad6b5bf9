#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/goldbarg_training.h"
#include "compress/stages.h"
#include "podaq/compress/compressor.h"
#include "podaq/prune/pruner.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/weight_average.h"

namespace podaq {

/// Where stages end, in optimizer steps from the start.
using StageEnds = std::array<std::int64_t, compress_detail::stage_lengths.size()>;

struct Compressor::State {
  std::shared_ptr<GraphModule> model;
  Recipe recipe;
  std::vector<PruneGroup> groups;
  std::optional<NetworkQuantizer> quantizer;
  bool calibrated = false;
  std::vector<std::string> without_bias;  // of the last calibration
  std::optional<compress_detail::GoldbargTraining> goldbarg;

  // Since attach:
  torch::optim::Optimizer* optimizer = nullptr;  // null after detach too
  RandomSampler* sampler = nullptr;
  std::int64_t steps_per_epoch = 0;  // optimizer steps
  StageEnds ends{};
  std::optional<Pruner> pruner;

  std::int64_t epoch = 0;
  std::int64_t steps_in_epoch = 0;
  std::vector<std::string> idle_quantizers;  // found at the last step
  bool rounded_zeros_folded = false;
  std::optional<std::vector<bool>> removed_channels;  // by group of the whole network; once they are removed
  std::string teacher;                                // hash; empty: none
  std::optional<WeightAverage> average;
  bool average_is_swapped_in = false;

  [[nodiscard]] std::int64_t position() const { return epoch * steps_per_epoch + steps_in_epoch; }
  [[nodiscard]] Stage stage() const;
  [[nodiscard]] bool has_reached(Stage stage) const;
  /// The position of the stage's first step.
  [[nodiscard]] std::int64_t begin_of(Stage stage) const;
  [[nodiscard]] bool is_quantizing() const {
    return quantizer && (calibrated || (is_attached() && has_reached(Stage::quantize)));
  }
  /// Whether there has been an attach.
  [[nodiscard]] bool is_attached() const { return steps_per_epoch > 0; }
  /// Throws Error(invalid_argument) naming `function` without an optimizer, or while the network holds its average.
  void require_training(std::string_view function) const;
  /// Throws Error(invalid_argument) naming `function` while the network holds its average.
  void require_own_numbers(std::string_view function) const;

  /// Brings network, masks and quantizers to what the position asks for.
  void follow_position();

  /// Whether pruned channels must leave now.
  [[nodiscard]] bool removal_is_due() const;
  /// Takes channels out of everything that holds them.
  /// @param removed  by group of the whole network (see ChannelGroups).
  void remove_channels(std::vector<bool> removed);

  /// Lets the step's numbers into the average, once masks are fixed.
  void update_average();
  void swap_average();
  /// Makes the average the network's own numbers; it begins anew if training goes on.
  void settle_on_average();

  /// When weights that round to zero join the masks; none where the recipe leaves them free.
  [[nodiscard]] std::optional<std::int64_t> fold_position() const;
  void fold_rounded_zeros();

  /// Whether the recipe changes no mask any more.
  [[nodiscard]] bool masks_are_fixed() const;
  /// Throws Error(invalid_argument) while it does.
  void require_fixed_masks() const;

  /// The weights that quantization rounds to zero, by name: bool of each weight's shape, true where it is not 0 but has
  /// code 0 in each step that uses it. Empty where the network does not quantize or could not be converted now.
  [[nodiscard]] Masks rounded_zeros() const;
};

}  // namespace podaq
