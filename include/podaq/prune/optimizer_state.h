#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <span>
#include <string>

#include "podaq/graph/channel_groups.h"

// What LibTorch's optimizers keep of each parameter: SGD, Adam, AdamW, RMSprop and Adagrad. Parameters without state
// (before the first step) are left alone.

namespace podaq {

/// Writes 0 over the momentum of a parameter at the places where `places` (bool, of its shape) is true: SGD's momentum,
/// the first moment of Adam and AdamW, RMSprop's momentum. Other optimizers are left alone.
void clear_momentum(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter, const torch::Tensor& places);

/// Why a parameter of the optimizer cannot lose channels: it is of another kind than those above. Empty where it can.
[[nodiscard]] std::string problem_with_cutting(const torch::optim::Optimizer& optimizer);

/// Lets `after` take the place of `before` in the optimizer's groups, with what the cuts leave of its state; counts of
/// steps stay. Does nothing where the optimizer does not train `before`.
void replace_parameter(torch::optim::Optimizer& optimizer, const torch::Tensor& before, const torch::Tensor& after,
                       std::span<const TensorCut> cuts);

}  // namespace podaq
