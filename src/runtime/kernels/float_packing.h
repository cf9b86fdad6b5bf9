#pragma once

#include <cstddef>
#include <span>

#include "runtime/aligned_vector.h"

namespace podaq::runtime_detail {

/// Outputs that the vectors of one lane each hold; biases are padded to it.
inline constexpr std::size_t float_lanes = 16;

/// The number of outputs with those that pad the last vector.
[[nodiscard]] constexpr std::size_t padded_float_outputs(std::size_t outputs) {
  return (outputs + float_lanes - 1) / float_lanes * float_lanes;
}

/// Appends a matrix {outputs, inputs} in the order that FloatLinearTask reads, outputs padded with zeros.
void append_float_matrix(std::span<const float> matrix, std::size_t outputs, AlignedVector<float>& packed);

}  // namespace podaq::runtime_detail
