#pragma once

#include <torch/types.h>

#include <functional>
#include <span>
#include <vector>

#include "podaq/quantize/calibrate.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq::quantize_detail {

/// What passes at `value` when the float network (no quantizer) or the quantized one runs in eval mode on each batch:
/// as the value's readers get it, in memory of its own. `model` has no hooks afterwards, or the quantizer's.
[[nodiscard]] std::vector<torch::Tensor> values_at(GraphModule& model, const NetworkQuantizer* quantizer, ValueId value,
                                                   std::span<const CalibrationBatch> batches);

/// What a conv's or linear's step computes from `input` before its add and clamp, with the given parameters. Its
/// channels lie in dimension 1, or last for a linear of several rows.
[[nodiscard]] torch::Tensor layer_output(const GraphModule& model, const Step& step, const torch::Tensor& input,
                                         const LayerParameters& parameters);

/// The conv and linear steps that work on codes, in execution order.
[[nodiscard]] std::vector<std::size_t> layers_on_codes(const GraphModule& model, const NetworkQuantizer& quantizer);

}  // namespace podaq::quantize_detail
