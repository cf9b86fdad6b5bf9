#pragma once

#include <span>
#include <string>
#include <vector>

#include "podaq/quantize/calibrate.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// Takes out of every layer on codes the mean error per output channel that rounding brings into it: layer by layer, in
/// execution order, the bias (the batch norm's where there is one) grows by the float network's mean output minus the
/// quantized network's, before add and clamp, over all batches in eval mode (Nagel et al., arXiv 1906.04721,
/// section 4.2, with means of data in place of the batch norms'). Writes to the network's own parameters, leaves its
/// hooks enabled, and returns the names of layers that have no bias to correct. The quantizer must have observed
/// (calibrate).
std::vector<std::string> correct_biases(GraphModule& model, const NetworkQuantizer& quantizer,
                                        std::span<const CalibrationBatch> batches);

}  // namespace podaq
