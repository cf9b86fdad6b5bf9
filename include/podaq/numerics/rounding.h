#pragma once

#include <cstdint>
#include <limits>

namespace podaq::numerics {

// Every product and sum in this room rounds separately to float32: compile with -ffp-contract=off.

/// The nearest integer, ties to even, of a float whose magnitude is below 2^22. Adding 1.5 * 2^23 pushes the fraction
/// out of the mantissa, so the processor's own rounding does the work; unlike nearbyintf this vectorizes everywhere.
[[nodiscard]] constexpr float round_ties_to_even(float x) {
  constexpr float magic = 12582912.0F;
  return (x + magic) - magic;
}

/// The nearest integer, ties to even, of any finite float.
[[nodiscard]] constexpr float round_ties_to_even_wide(float x) {
  constexpr float integral = 8388608.0F;  // 2^23: from here on every float is an integer
  if (x >= integral || x <= -integral) return x;
  return x < 0.0F ? -((-x + integral) - integral) : (x + integral) - integral;
}

/// `x` limited to [lowest, highest]; NaN becomes `when_nan`.
[[nodiscard]] constexpr float clamp_or(float x, float lowest, float highest, float when_nan) {
  const float low = x > lowest ? x : lowest;  // a NaN takes `lowest` here and is replaced below
  const float both = low < highest ? low : highest;
  return x == x ? both : when_nan;
}

/// True for floats that may be scales: positive, normal, with a finite reciprocal.
[[nodiscard]] constexpr bool is_valid_scale(float scale) {
  return scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max() &&
         1.0F / scale >= std::numeric_limits<float>::min();
}

}  // namespace podaq::numerics
