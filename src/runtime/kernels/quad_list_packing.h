#pragma once

#include "runtime/kernels/packed.h"

namespace podaq::runtime_detail {

/// Outputs of a vector and of a block of QuadListTask.
inline constexpr std::size_t list_vector_outputs = 8, list_block_outputs = 16;

/// How the products of a quad are added, which decides what is listed.
enum class QuadSums : std::uint8_t {
  in_32_bits,
  /// Neighbours in 16 bits first, which could saturate: where that may happen, weights are split between two quads of
  /// the same bytes, so that each sum fits whatever the codes.
  in_16_bits,
  /// The same, but blocks of outputs that would be split too often get codes and weights of 16 bits instead.
  in_16_bits_or_wide,
};

/// Lists the quads of a packed convolution or linear, block by block of 16 outputs. Quads whose weights are all 0 are
/// left out.
[[nodiscard]] QuadListConv list_quads(QuadConv conv, QuadSums sums);

}  // namespace podaq::runtime_detail
