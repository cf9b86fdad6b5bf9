#include "runtime/kernels/float_packing.h"

#include <algorithm>

namespace podaq::runtime_detail {

void append_float_matrix(std::span<const float> matrix, std::size_t outputs, AlignedVector<float>& packed) {
  constexpr std::size_t block_outputs = 64;
  const std::size_t inputs = matrix.size() / outputs;
  const std::size_t padded = padded_float_outputs(outputs);
  const std::size_t start = packed.size();
  packed.resize(start + padded * inputs, 0.0F);
  for (std::size_t output = 0; output < outputs; ++output) {
    const std::size_t first_of_block = output / block_outputs * block_outputs;
    const std::size_t block_width = std::min(block_outputs, padded - first_of_block);
    float* block = packed.data() + start + first_of_block * inputs;
    for (std::size_t i = 0; i < inputs; ++i)
      block[i * block_width + output - first_of_block] = matrix[output * inputs + i];
  }
}

}  // namespace podaq::runtime_detail
