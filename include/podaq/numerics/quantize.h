#pragma once

#include <cstdint>

#include "podaq/numerics/qparams.h"
#include "podaq/numerics/rounding.h"

namespace podaq::numerics {

/// The code of `x`: int(clamp(nearbyint(x * (1/s)), lo - z, hi - z)) + z, ties to even, NaN -> z, +-Inf -> the ends.
/// Clamping comes first here, which gives the same code because the bounds are integers.
/// @param inverse_scale  1.0F / scale, computed in float.
[[nodiscard]] constexpr std::int32_t quantize(float x, float inverse_scale, std::int32_t zero_point,
                                              std::int32_t lowest, std::int32_t highest) {
  const float shifted = clamp_or(x * inverse_scale, static_cast<float>(lowest - zero_point),
                                 static_cast<float>(highest - zero_point), 0.0F);
  return static_cast<std::int32_t>(round_ties_to_even(shifted)) + zero_point;
}

/// The code of `x` under `q`.
[[nodiscard]] constexpr std::int32_t quantize(float x, const QParams& q) {
  return quantize(x, 1.0F / q.scale, q.zero_point, q.lowest, q.highest);
}

/// The real number that `code` stands for: float(code - z) * s.
[[nodiscard]] constexpr float dequantize(std::int32_t code, const QParams& q) {
  return static_cast<float>(code - q.zero_point) * q.scale;
}

/// What quantizing and dequantizing makes of `x`.
[[nodiscard]] constexpr float fake_quantize(float x, float scale, float inverse_scale, std::int32_t zero_point,
                                            std::int32_t lowest, std::int32_t highest) {
  const float shifted = clamp_or(x * inverse_scale, static_cast<float>(lowest - zero_point),
                                 static_cast<float>(highest - zero_point), 0.0F);
  return round_ties_to_even(shifted) * scale;
}

/// Whether the straight-through gradient passes at `x`: the rounded, unclamped code lies within [lowest, highest].
/// (ATen's fake-quantize uses the same rule.) NaN and infinities do not pass.
[[nodiscard]] constexpr bool fake_quantize_passes_gradient(float x, float inverse_scale, std::int32_t zero_point,
                                                           std::int32_t lowest, std::int32_t highest) {
  const auto low = static_cast<float>(lowest - zero_point);
  const auto high = static_cast<float>(highest - zero_point);
  const float rounded = round_ties_to_even(clamp_or(x * inverse_scale, low - 1.0F, high + 1.0F, high + 1.0F));
  return rounded >= low && rounded <= high;
}

/// The range that bias codes keep to: +-2^30.
inline constexpr std::int32_t bias_limit = 1 << 30;

/// The scale of a layer's int32 accumulator and bias: the float product input_scale * weight_scale.
[[nodiscard]] constexpr float accumulator_scale(float input_scale, float weight_scale) {
  return input_scale * weight_scale;
}

/// The int32 bias code at `scale` (`accumulator_scale`), rounded like every code, saturated to +-bias_limit; NaN -> 0.
[[nodiscard]] constexpr std::int32_t quantize_bias(float bias, float scale) {
  constexpr auto limit = static_cast<float>(bias_limit);
  return static_cast<std::int32_t>(round_ties_to_even_wide(clamp_or(bias * (1.0F / scale), -limit, limit, 0.0F)));
}

}  // namespace podaq::numerics
