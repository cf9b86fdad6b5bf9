#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "podaq/numerics/qparams.h"

namespace podaq {

/// What a weight's codes share a scale over.
enum class WeightGranularity : std::uint8_t {
  channel,  ///< Each output channel has its own.
  tensor,   ///< The whole weight has one.
};

/// How a weight's scale is found.
enum class WeightScale : std::uint8_t {
  largest,        ///< max|w| / limit: nothing is clipped.
  least_squares,  ///< Of least squared error among k/64 of that, k = 1 … 64.
  learned,        ///< A step that learns with the weights (learned_step.h), from the least_squares one on.
};

/// How a conv's or linear's weight becomes codes.
struct WeightQuantization {
  int bits = 8;                                                ///< 2 to 8.
  WeightGranularity granularity = WeightGranularity::channel;  ///< What shares a scale.
  WeightScale scale = WeightScale::largest;                    ///< How the scale is found.
  int scale_mantissa_bits = 23;  ///< 0 to 23: scales go up to the next number of so many (round_up_to_mantissa).

  friend bool operator==(const WeightQuantization&, const WeightQuantization&) = default;
};

/// The scale of least squared error for `weights` under `bits`-bit codes: the best of k/64 max|w| / limit for k = 1 to
/// 64, all tried, ties to the larger. 0 where all weights are 0; NaN is passed over.
[[nodiscard]] float least_squares_scale(std::span<const float> weights, int bits);

/// The scale of each output channel of row-major `weights` [channels, ...], all the same for WeightGranularity::tensor,
/// each raised where the channel's bias or the accumulator needs it (numerics::raise_weight_scale), then to the
/// mantissa bits asked for. Training and conversion both call this, so they agree.
/// @param bias     one per channel, or empty where there is none or it is not final.
/// @param learned  for WeightScale::learned: the present steps, one per channel or one for the tensor; empty, or 0 for
/// a
///                 channel, where learning has not begun: least_squares_scale counts then.
/// @param input    the parameters of the layer's input.
[[nodiscard]] std::vector<float> choose_weight_scales(std::span<const float> weights, std::size_t channels,
                                                      std::span<const float> bias, const WeightQuantization& how,
                                                      std::span<const float> learned, const QParams& input);

}  // namespace podaq
