#pragma once

#include <cstdint>

namespace podaq {

/// Affine quantization of one tensor or one channel: real = (code - zero_point) * scale.
///
/// Weights are symmetric and narrow: zero_point 0, codes [-(2^(b-1)-1), 2^(b-1)-1].
/// Activations are affine: codes [0, 2^b - 1], and the real range always contains 0, so lowest <= zero_point <=
/// highest.
struct QParams {
  float scale = 1.0F;           ///< A normal, positive float whose reciprocal is finite.
  std::int32_t zero_point = 0;  ///< The code of the real number 0.
  std::int32_t lowest = 0;      ///< The smallest code.
  std::int32_t highest = 255;   ///< The largest code.

  friend bool operator==(const QParams&, const QParams&) = default;
};

}  // namespace podaq
