#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "podaq/graph/channel_groups.h"
#include "podaq/training/graph_module.h"
#include "podaq/training/tensor_cut.h"

namespace podaq {

/// An exponential moving average of a network's parameters and floating-point buffers: a += (1 - decay) * (w - a) after
/// each step, beginning with a copy. Noise of single steps averages out, which helps most where the learning rate stays
/// high (Polyak & Juditsky 1992; Tarvainen & Valpola, arXiv 1703.01780). What is 0 in every step since the beginning
/// stays 0; where masks change, zero the average with `apply_masks` of the network while it holds it.
class WeightAverage {
 public:
  /// @param decay  in [0, 1): the longer to remember, the closer to 1. Throws Error(invalid_argument) otherwise.
  explicit WeightAverage(double decay);

  /// To be called after each optimizer step.
  void update(const GraphModule& model);

  /// Exchanges the network's numbers for the average's, in place; called again, it exchanges them back. Buffers of
  /// integers stay. Does nothing before the first update.
  void swap(const GraphModule& model);

  /// Follows a network that becomes smaller (GraphModule::remove_channels).
  void remove_channels(const SmallerGraph& smaller) { cut_tensors(tensors_, smaller); }

  /// The averages by tensor name; empty before the first update.
  [[nodiscard]] const std::map<std::string, torch::Tensor>& tensors() const { return tensors_; }
  /// Puts averages back, as from a checkpoint.
  void set_tensors(std::map<std::string, torch::Tensor> tensors) { tensors_ = std::move(tensors); }

 private:
  double decay_;
  std::map<std::string, torch::Tensor> tensors_;
};

}  // namespace podaq
