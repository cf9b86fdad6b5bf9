#pragma once

#include <cstdint>

#include "podaq/numerics/qparams.h"
#include "podaq/numerics/quantize.h"
#include "podaq/numerics/rounding.h"

namespace podaq::numerics {

/// Inclusive bounds of codes; ReLU and clamp fold into them.
struct CodeBounds {
  std::int32_t lowest = 0;     ///< Smallest code.
  std::int32_t highest = 255;  ///< Largest code.
};

/// The bounds that a clamp to [minimum, maximum] leaves of `q`'s codes. Quantizing is monotonic, so clamping the code
/// is the same as quantizing the clamped number.
[[nodiscard]] constexpr CodeBounds clamp_codes(const QParams& q, float minimum, float maximum) {
  return {.lowest = quantize(minimum, q), .highest = quantize(maximum, q)};
}

/// float(double(input_scale) * weight_scale / output_scale): the multiplier of one output channel.
[[nodiscard]] constexpr float requantization_multiplier(float input_scale, float weight_scale, float output_scale) {
  return static_cast<float>(static_cast<double>(input_scale) * weight_scale / output_scale);
}

/// float(double(input_scale) * weight_scale): the multiplier of a layer whose output is float.
[[nodiscard]] constexpr float dequantization_multiplier(float input_scale, float weight_scale) {
  return static_cast<float>(static_cast<double>(input_scale) * weight_scale);
}

/// The code of a real number already divided by the output scale.
[[nodiscard]] constexpr std::int32_t round_to_code(float scaled, std::int32_t zero_point, CodeBounds bounds) {
  const float limited = clamp_or(scaled, static_cast<float>(bounds.lowest - zero_point),
                                 static_cast<float>(bounds.highest - zero_point), 0.0F);
  return static_cast<std::int32_t>(round_ties_to_even(limited)) + zero_point;
}

/// conv / linear: int(clamp(nearbyint(float(acc) * m), lo - z, hi - z)) + z.
[[nodiscard]] constexpr std::int32_t requantize(std::int32_t accumulator, float multiplier, std::int32_t zero_point,
                                                CodeBounds bounds) {
  return round_to_code(static_cast<float>(accumulator) * multiplier, zero_point, bounds);
}

/// An add fused into a conv / linear: float(acc) * m + float(qr - zr) * mr.
[[nodiscard]] constexpr std::int32_t requantize_add(std::int32_t accumulator, float multiplier, std::int32_t residual,
                                                    float residual_multiplier, std::int32_t zero_point,
                                                    CodeBounds bounds) {
  const float own = static_cast<float>(accumulator) * multiplier;
  const float other = static_cast<float>(residual) * residual_multiplier;
  return round_to_code(own + other, zero_point, bounds);
}

}  // namespace podaq::numerics
