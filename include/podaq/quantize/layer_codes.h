#pragma once

#include <optional>
#include <span>
#include <string>

#include "podaq/graph/tensor.h"
#include "podaq/numerics/qparams.h"
#include "podaq/quantize/weight_scales.h"

namespace podaq {

/// A layer's constants as codes.
struct LayerCodes {
  Tensor weight;               ///< s8 with one scale per channel, or a single one for WeightGranularity::tensor.
  std::optional<Tensor> bias;  ///< i32 at input scale * weight scale.
};

/// Encodes a conv's or linear's float weight [channels, ...] and bias (may be null) at the scales that
/// choose_weight_scales gives. Throws Error(invalid_argument) naming `layer` where a number is not finite, or where
/// sum|w| * 255 + |bias| of a channel reaches 2^31.
[[nodiscard]] LayerCodes encode_layer(const std::string& layer, const Tensor& weight, const Tensor* bias,
                                      const WeightQuantization& how, std::span<const float> learned,
                                      const QParams& input);

}  // namespace podaq
