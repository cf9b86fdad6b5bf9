#pragma once

#include <cstdint>

#include "podaq/numerics/qparams.h"
#include "podaq/numerics/quantize.h"
#include "podaq/numerics/requantize.h"

namespace podaq::numerics {

/// float(double(input_scale) / output_scale): the multiplier of an operand of an add, of a residual fused into a conv
/// or linear whose output has codes, and of a change of parameters.
[[nodiscard]] constexpr float rescaling_multiplier(float input_scale, float output_scale) {
  return static_cast<float>(static_cast<double>(input_scale) / output_scale);
}

/// float(double(scale_a) * scale_b / output_scale): the multiplier of a product.
[[nodiscard]] constexpr float product_multiplier(float scale_a, float scale_b, float output_scale) {
  return static_cast<float>(static_cast<double>(scale_a) * scale_b / output_scale);
}

/// float(double(input_scale) / output_scale / count): the multiplier m/n of a mean over `count` elements.
[[nodiscard]] constexpr float mean_multiplier(float input_scale, float output_scale, std::int64_t count) {
  return static_cast<float>(static_cast<double>(input_scale) / output_scale / static_cast<double>(count));
}

/// Add: float(qa - za) * ma + float(qb - zb) * mb. The arguments are the differences q - z.
[[nodiscard]] constexpr std::int32_t add_codes(std::int32_t a, float multiplier_a, std::int32_t b, float multiplier_b,
                                               std::int32_t zero_point, CodeBounds bounds) {
  const float first = static_cast<float>(a) * multiplier_a;
  const float second = static_cast<float>(b) * multiplier_b;
  return round_to_code(first + second, zero_point, bounds);
}

/// Mul: float((qa - za) * (qb - zb)) * m. The arguments are the differences q - z.
[[nodiscard]] constexpr std::int32_t multiply_codes(std::int32_t a, std::int32_t b, float multiplier,
                                                    std::int32_t zero_point, CodeBounds bounds) {
  return round_to_code(static_cast<float>(a * b) * multiplier, zero_point, bounds);
}

/// Mean: float(sum of (q - z)) * (m/n), with m/n from `mean_multiplier`.
[[nodiscard]] constexpr std::int32_t mean_code(std::int32_t sum, float multiplier, std::int32_t zero_point,
                                               CodeBounds bounds) {
  return round_to_code(static_cast<float>(sum) * multiplier, zero_point, bounds);
}

/// The code, under the parameters that `multiplier` (`rescaling_multiplier`), `zero_point` and `bounds` stand for, of
/// the number that had the code difference q - z. Used where pooling, concat or clamp change parameters; equal
/// parameters copy the code instead.
[[nodiscard]] constexpr std::int32_t rescale_code(std::int32_t difference, float multiplier, std::int32_t zero_point,
                                                  CodeBounds bounds) {
  return round_to_code(static_cast<float>(difference) * multiplier, zero_point, bounds);
}

/// One of the 256 entries of a table activation: the code of function(number that `code` stands for).
template <typename Function>
[[nodiscard]] constexpr std::uint8_t table_entry(std::int32_t code, const QParams& input, const QParams& output,
                                                 Function&& function) {
  return static_cast<std::uint8_t>(quantize(function(dequantize(code, input)), output));
}

}  // namespace podaq::numerics
