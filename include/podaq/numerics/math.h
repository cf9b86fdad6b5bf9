#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "podaq/numerics/rounding.h"

// podaq's own exp, log, tanh, erf and sigmoid. They use only +, -, *, / and integer operations on bits, so every
// compiler, library and instruction set gives the same bits, which the libm functions do not promise. All are branch
// free, so loops over them vectorize. NaN gives NaN. The polynomials are Chebyshev fits made for these ranges.

namespace podaq::numerics {

namespace math_detail {

// ln 2 in two parts; the first has 9 significant bits, so that its product with an exponent is exact.
inline constexpr float ln2_high = 0.693359375F;
inline constexpr float ln2_low = -2.12194440e-4F;
inline constexpr float log2_e = 1.44269504F;

/// 2^exponent for exponents of normal floats, -126 to 127.
[[nodiscard]] constexpr float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23U);
}

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
[[nodiscard]] constexpr float exp_tail(float r) {
  float tail = 1.9891981e-4F;
  tail = tail * r + 1.39345419e-3F;
  tail = tail * r + 8.33331002e-3F;
  tail = tail * r + 4.16664568e-2F;
  tail = tail * r + 1.66666667e-1F;
  return tail * r + 5.00000001e-1F;
}

[[nodiscard]] constexpr float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
}

/// `value`, at least 0, with the sign of `sign`.
[[nodiscard]] constexpr float with_sign(float value, float sign) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (std::bit_cast<std::uint32_t>(sign) & 0x80000000U));
}

}  // namespace math_detail

/// e^x, within 2 units in the last place (of the smallest normal float where the result is subnormal).
[[nodiscard]] constexpr float exp(float x) {
  using namespace math_detail;
  const float limited = clamp_or(x, -104.0F, 89.0F, 0.0F);  // beyond these the result is 0 or infinity
  const float n = round_ties_to_even(limited * log2_e);
  const float r = (limited - n * ln2_high) - n * ln2_low;
  const float significand = 1.0F + (r + r * r * exp_tail(r));
  // In two factors, so that results near the ends neither overflow early nor lose their subnormal bits.
  const auto exponent = static_cast<std::int32_t>(n);
  const std::int32_t half = exponent / 2;
  const float result = significand * power_of_two(half) * power_of_two(exponent - half);
  return x == x ? result : x;
}

/// e^x - 1, accurate to 1e-6 relative near 0 too.
[[nodiscard]] constexpr float exp_minus_one(float x) {
  const float near_zero = x + x * x * math_detail::exp_tail(x);
  const float far = exp(x) - 1.0F;
  return math_detail::magnitude(x) < 0.34F ? near_zero : far;
}

/// ln x, within 1e-6 relative; -infinity for 0, NaN for negative numbers.
[[nodiscard]] constexpr float log(float x) {
  using namespace math_detail;
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float normal = subnormal ? x * 33554432.0F : x;  // 2^25
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(normal);
  // The significand is taken from [sqrt(1/2), sqrt(2)), so that numbers near 1 keep their precision.
  constexpr std::uint32_t sqrt_half = 0x3F3504F3U;
  const std::uint32_t above = bits - sqrt_half;
  const std::int32_t exponent = static_cast<std::int32_t>(above) >> 23;
  const float significand = std::bit_cast<float>((above & 0x007FFFFFU) + sqrt_half);
  const float n = static_cast<float>(exponent) - (subnormal ? 25.0F : 0.0F);
  const float f = significand - 1.0F;
  const float s = f / (2.0F + f);
  const float z = s * s;
  const float tail = z * ((2.95856807e-1F * z + 3.99886539e-1F) * z + 6.66666853e-1F);
  const float result = n * ln2_high + (n * ln2_low + (2.0F * s + s * tail));
  const float finite_or_infinite = x > std::numeric_limits<float>::max() ? x : result;
  const float at_zero = x == 0.0F ? -std::numeric_limits<float>::infinity() : finite_or_infinite;
  return x >= 0.0F ? at_zero : std::numeric_limits<float>::quiet_NaN();
}

/// tanh x, within 1e-6 relative.
[[nodiscard]] constexpr float tanh(float x) {
  using namespace math_detail;
  const float doubled = 2.0F * clamp_or(magnitude(x), 0.0F, 10.0F, 0.0F);  // tanh 10 rounds to 1
  const float t = exp_minus_one(doubled);
  return x == x ? with_sign(t / (t + 2.0F), x) : x;
}

/// 1 / (1 + e^-x), within 1e-6 relative on both sides of 0.
[[nodiscard]] constexpr float sigmoid(float x) {
  const float decayed = exp(-math_detail::magnitude(x));
  const float numerator = x < 0.0F ? decayed : 1.0F;
  return numerator / (1.0F + decayed);
}

/// The error function, within 1e-6 relative.
[[nodiscard]] constexpr float erf(float x) {
  using namespace math_detail;
  const float a = clamp_or(magnitude(x), 0.0F, 4.0F, 0.0F);  // erf 4 rounds to 1
  const float z = a * a;
  float small = 7.87587506e-5F;
  small = small * z - 8.01686429e-4F;
  small = small * z + 5.18908742e-3F;
  small = small * z - 2.68542120e-2F;
  small = small * z + 1.12835947e-1F;
  small = small * z - 3.76126267e-1F;
  small = small * z + 1.12837917F;
  // erfc a = e^(-a^2) t T(t) with t = 1 / (1 + a/2).
  const float t = 1.0F / (1.0F + 0.5F * a);
  float large = 9.48963438e-2F;
  large = large * t - 3.85767631e-1F;
  large = large * t + 4.36527588e-1F;
  large = large * t - 1.43908871e-4F;
  large = large * t + 2.97612692e-1F;
  large = large * t + 2.74151574e-1F;
  large = large * t + 2.82619890e-1F;
  const float result = a < 1.0F ? a * small : 1.0F - exp(-z) * t * large;
  return x == x ? with_sign(result, x) : x;
}

}  // namespace podaq::numerics
