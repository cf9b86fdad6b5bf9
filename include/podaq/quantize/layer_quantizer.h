#pragma once

#include <torch/types.h>

#include <vector>

#include "podaq/numerics/qparams.h"
#include "podaq/quantize/weight_scales.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// A conv's or linear's parameters as its codes will hold them, differentiable (straight-through): the weight rounded
/// at the scales that choose_weight_scales gives for its present values and steps, and, where the bias is final, the
/// bias rounded to int32 codes. An undefined bias stays undefined. Zeros stay exactly 0.
///
/// Steps per channel are those of the weight before batch-norm folding; a folded weight's scales are steps * |factor|.
/// A step for the whole tensor is one of the folded weight, and unused while the batch norm still follows.
/// @param input  the parameters of the layer's input.
/// @param steps  for WeightScale::learned: [channels] or [1], float on the CPU, 0 where learning has not begun;
///               undefined before. Where it requires a gradient it gets one.
[[nodiscard]] LayerParameters fake_quantize_layer(const LayerParameters& parameters, const WeightQuantization& how,
                                                  const QParams& input, const torch::Tensor& steps = {});

/// The scales that fake_quantize_layer rounds the weight at, one per channel.
[[nodiscard]] std::vector<float> layer_scales(const LayerParameters& parameters, const WeightQuantization& how,
                                              const QParams& input, const torch::Tensor& steps = {});

}  // namespace podaq
