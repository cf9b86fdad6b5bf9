#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

#include "podaq/numerics/qparams.h"

namespace podaq {

/// What quantizing and dequantizing makes of each element, with a straight-through gradient: 1 where the rounded,
/// unclamped code lies within [lowest, highest], else 0. The arithmetic is numerics::fake_quantize, so for finite
/// |x / scale| < 2^31 values and gradients equal ATen's fake_quantize_per_tensor_affine bit for bit; beyond, and for
/// NaN and infinities, codes saturate as numerics::quantize says. Float tensors on the CPU take a single pass over
/// memory in storage order; other devices and types compose ATen operations to the same effect. Keeps shape, type,
/// device and, for dense tensors, memory format.
[[nodiscard]] torch::Tensor fake_quantize(const torch::Tensor& x, const QParams& q);

/// The same per channel along dimension 0 with zero point 0: codes [-limit, limit] at scales[c].
/// @param x       [channels, ...]; at least one dimension.
/// @param scales  one per channel.
[[nodiscard]] torch::Tensor fake_quantize_channels(const torch::Tensor& x, std::span<const float> scales,
                                                   std::int32_t limit);

/// A bias [channels] rounded to its int32 codes at scales[c] (numerics::quantize_bias), with gradient 1.
/// @param scales  numerics::accumulator_scale per channel.
[[nodiscard]] torch::Tensor fake_quantize_bias(const torch::Tensor& bias, std::span<const float> scales);

}  // namespace podaq
