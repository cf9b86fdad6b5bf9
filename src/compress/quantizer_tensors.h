#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "podaq/quantize/network_quantizer.h"

namespace podaq::compress_detail {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// A quantizer's state as tensors that a checkpoint holds.
[[nodiscard]] NamedTensors tensors_of(const QuantizerState& state);

/// The state in tensors that `tensors_of` may have given for a quantizer with the same names as `own`. Throws
/// Error(invalid_argument) naming a tensor that holds none, or whose name is not the quantizer's.
[[nodiscard]] QuantizerState state_in(const NamedTensors& tensors, const QuantizerState& own);

}  // namespace podaq::compress_detail
