#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

// Quantization after training: what calibration data alone can tell. The functions of this header change no weight.

namespace podaq {

/// One batch of calibration data: a tensor per input of the network, in the captured order, [batch, ...].
using CalibrationBatch = std::vector<torch::Tensor>;

/// Lets the quantizer observe what the float network computes in eval mode: batch norms at their running statistics,
/// no dropout, nothing rounded. Leaves hooks enabled and the network in the mode that it was in. Throws
/// Error(invalid_argument) for no batches, naming what is missing.
void calibrate(GraphModule& model, NetworkQuantizer& quantizer, std::span<const CalibrationBatch> batches);

}  // namespace podaq
