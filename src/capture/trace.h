#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "capture/symbols.h"
#include "podaq/capture/capture.h"

namespace podaq::capture_detail {

/// The module's parameters, then its buffers, each tensor once, under its first name.
[[nodiscard]] std::vector<RegisteredTensor> registered_tensors(const torch::nn::Module& module);

/// Runs `forward` once under the tracer, without gradients. The module must be in the mode that `training` says.
[[nodiscard]] Trace trace(const ForwardFunction& forward, const std::vector<RegisteredTensor>& tensors,
                          const std::vector<at::Tensor>& inputs, bool training);

}  // namespace podaq::capture_detail
