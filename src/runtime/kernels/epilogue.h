#pragma once

#include <cstddef>
#include <cstdint>

#include "podaq/numerics/requantize.h"
#include "runtime/kernel.h"
#include "runtime/kernels/avx512/tasks.h"

namespace podaq::runtime_detail {

template <typename Element>
[[nodiscard]] const Element* as(const std::byte* bytes) {
  return reinterpret_cast<const Element*>(bytes);
}
template <typename Element>
[[nodiscard]] Element* as(std::byte* bytes) {
  return reinterpret_cast<Element*>(bytes);
}

/// The epilogue as the vector kernels read it.
[[nodiscard]] inline EpilogueTask epilogue_task(const IntegerEpilogue& epilogue) {
  return {.gives_codes = epilogue.gives_codes,
          .sums_fit = epilogue.sums_fit,
          .residual_multiplier = epilogue.residual_multiplier,
          .residual_zero_point = epilogue.residual_zero_point,
          .zero_point = epilogue.zero_point,
          .lowest = epilogue.lowest,
          .highest = epilogue.highest,
          .minimum = epilogue.bounds.minimum,
          .maximum = epilogue.bounds.maximum};
}

/// `x` limited to `bounds`; NaN and the sign of zeros within the bounds pass.
[[nodiscard]] inline float bounded(float x, FloatBounds bounds) {
  const float low = x < bounds.minimum ? bounds.minimum : x;
  return low > bounds.maximum ? bounds.maximum : low;
}

/// Turns the accumulator of output `channel` into the output element at `index`, with the added element at
/// `residual_index` (both of the whole batch).
inline void finish(const IntegerEpilogue& epilogue, std::int32_t accumulator, std::size_t channel, std::size_t index,
                   std::size_t residual_index, const Operands& operands) {
  const float multiplier = epilogue.multipliers[channel];
  const std::int32_t residual =
      epilogue.adds_codes ? as<std::uint8_t>(operands.inputs[1])[residual_index] - epilogue.residual_zero_point : 0;
  if (epilogue.gives_codes) {
    const numerics::CodeBounds bounds{.lowest = epilogue.lowest, .highest = epilogue.highest};
    const std::int32_t code = epilogue.adds_codes
                                  ? numerics::requantize_add(accumulator, multiplier, residual,
                                                             epilogue.residual_multiplier, epilogue.zero_point, bounds)
                                  : numerics::requantize(accumulator, multiplier, epilogue.zero_point, bounds);
    as<std::uint8_t>(operands.output)[index] = static_cast<std::uint8_t>(code);
    return;
  }
  float result = static_cast<float>(accumulator) * multiplier;
  if (epilogue.adds_codes) result = result + static_cast<float>(residual) * epilogue.residual_multiplier;
  as<float>(operands.output)[index] = bounded(result, epilogue.bounds);
}

}  // namespace podaq::runtime_detail
