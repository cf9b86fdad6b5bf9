#pragma once

#include <torch/types.h>

#include <map>
#include <span>
#include <string>

#include "podaq/graph/channel_groups.h"

namespace podaq {

/// The elements of `tensor` that the cuts leave, in memory of their own, outside autograd. An undefined tensor stays
/// undefined.
[[nodiscard]] torch::Tensor cut_tensor(const torch::Tensor& tensor, std::span<const TensorCut> cuts);

/// Replaces each tensor that goes by the name of a cut one (masks, averages, copies of parameters) by what is left.
void cut_tensors(std::map<std::string, torch::Tensor>& tensors, const SmallerGraph& smaller);

}  // namespace podaq
