#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "podaq/compress/compressor.h"
#include "podaq/prune/pruner.h"
#include "podaq/quantize/network_quantizer.h"

namespace podaq {

/// Where stages end, in optimizer steps from the start.
using StageEnds = std::array<std::int64_t, 6>;

struct Compressor::State {
  std::shared_ptr<GraphModule> model;
  Recipe recipe;
  std::vector<PruneGroup> groups;
  std::optional<NetworkQuantizer> quantizer;
  bool calibrated = false;

  // Since attach:
  torch::optim::Optimizer* optimizer = nullptr;
  RandomSampler* sampler = nullptr;
  std::int64_t steps_per_epoch = 0;  // optimizer steps
  StageEnds ends{};
  std::optional<Pruner> pruner;

  std::int64_t epoch = 0;
  std::int64_t steps_in_epoch = 0;
  std::vector<std::string> idle_quantizers;  // found at the last step

  [[nodiscard]] std::int64_t position() const { return epoch * steps_per_epoch + steps_in_epoch; }
  [[nodiscard]] Stage stage() const;
  [[nodiscard]] bool has_reached(Stage stage) const;
  [[nodiscard]] bool is_quantizing() const {
    return quantizer && (calibrated || (is_attached() && has_reached(Stage::quantize)));
  }
  [[nodiscard]] bool is_attached() const { return optimizer != nullptr; }

  /// Brings network, masks and quantizers to what the position asks for.
  void follow_position();

  /// Throws Error(invalid_argument) while the recipe's pruning is not finished.
  void require_fixed_masks() const;
};

}  // namespace podaq
