#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "podaq/graph/tensor.h"
#include "podaq/numerics/qparams.h"

namespace podaq {

/// max|w| of each channel of row-major `weights` [channels, ...]; NaN is passed over.
[[nodiscard]] std::vector<float> largest_magnitudes(std::span<const float> weights, std::size_t channels);

/// One scale per output channel (numerics::choose_weight_scale). Training and conversion both call this, so they agree.
/// @param largest  max|w| per channel.
/// @param bias     one per channel, or empty where there is none or it is not final.
/// @param input    the parameters of the layer's input.
[[nodiscard]] std::vector<float> choose_weight_scales(std::span<const float> largest, std::span<const float> bias,
                                                      int bits, const QParams& input);

/// A layer's constants as codes.
struct LayerCodes {
  Tensor weight;               ///< s8 with one scale per channel.
  std::optional<Tensor> bias;  ///< i32 at input scale * weight scale.
};

/// Encodes a conv's or linear's float weight [channels, ...] and bias (may be null). Throws Error(invalid_argument)
/// naming `layer` where a number is not finite, or where sum|w| * 255 + |bias| of a channel reaches 2^31.
[[nodiscard]] LayerCodes encode_layer(const std::string& layer, const Tensor& weight, const Tensor* bias, int bits,
                                      const QParams& input);

}  // namespace podaq
