#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "podaq/numerics/qparams.h"
#include "podaq/numerics/quantize.h"
#include "podaq/numerics/rounding.h"

namespace podaq::numerics {

/// The smallest scale that podaq gives a tensor. Scales below it would make products of two scales subnormal.
inline constexpr float smallest_scale = 1.0e-18F;

/// The symmetric, narrow code limit of `bits`-bit weights: 2^(bits-1) - 1.
[[nodiscard]] constexpr std::int32_t weight_code_limit(int bits) {
  return (1 << (bits - 1)) - 1;
}

/// The affine parameters of an activation observed in [minimum, maximum] (widened to contain 0), codes [0, 2^bits - 1]:
/// s = (max - min) / highest, z = round(-min / s). A range of zero width gets scale 1.
[[nodiscard]] inline QParams choose_activation_qparams(float minimum, float maximum, int bits = 8) {
  const std::int32_t highest = (1 << bits) - 1;
  const float low = std::min(minimum, 0.0F);
  const float high = std::max(maximum, 0.0F);
  const double width = static_cast<double>(high) - low;
  if (!(width > 0.0)) return {.scale = 1.0F, .zero_point = 0, .lowest = 0, .highest = highest};
  const float limit = std::numeric_limits<float>::max() / 4.0F;
  const auto scale =
      static_cast<float>(std::clamp(width / highest, static_cast<double>(smallest_scale), static_cast<double>(limit)));
  const int zero_point = quantize(-low, 1.0F / scale, 0, 0, highest);
  return {.scale = scale, .zero_point = zero_point, .lowest = 0, .highest = highest};
}

/// A weight channel's scale, raised where needed so that the channel's bias code fits (|bias| / (input_scale * 2^30))
/// and the accumulator scale stays a valid scale. A channel of zeros therefore gets a small positive scale and codes 0.
/// @param scale        what the weights alone ask for, 0 for a channel of zeros.
/// @param bias         the channel's bias, after batch-norm folding.
/// @param input_scale  the layer input's activation scale.
[[nodiscard]] inline float raise_weight_scale(float scale, float bias, float input_scale) {
  const double for_bias = std::abs(static_cast<double>(bias)) / (static_cast<double>(input_scale) * bias_limit);
  const double for_product = std::max(1.0e-36 / static_cast<double>(input_scale), 1.0e-36);
  const double raised = std::max({static_cast<double>(scale), for_bias, for_product});
  return static_cast<float>(std::min(raised, static_cast<double>(std::numeric_limits<float>::max()) / 4.0));
}

/// The next number, from `value` > 0 on upwards, whose mantissa has `bits` bits behind the leading one (0 to 23): of
/// 2^bits numbers an octave, as many as a byte counts where scales span a few octaves.
[[nodiscard]] inline float round_up_to_mantissa(float value, int bits) {
  constexpr int mantissa_bits = std::numeric_limits<float>::digits - 1;
  const std::uint32_t dropped = (std::uint32_t{1} << (mantissa_bits - bits)) - 1;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + dropped) & ~dropped);
}

/// The scale of one weight channel that clips nothing: max|w| / limit, raised as raise_weight_scale says.
/// @param largest  max|w| over the channel, after batch-norm folding.
[[nodiscard]] inline float choose_weight_scale(float largest, int bits, float bias, float input_scale) {
  return raise_weight_scale(largest / static_cast<float>(weight_code_limit(bits)), bias, input_scale);
}

}  // namespace podaq::numerics
