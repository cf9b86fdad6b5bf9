#pragma once

#include "runtime/kernels/packed.h"

namespace podaq::runtime_detail {

/// Outputs of a vector and of a block of QuadListTask.
inline constexpr std::size_t list_vector_outputs = 8, list_block_outputs = 16;

/// How an instruction set adds the four products of a quad.
enum class QuadSums : std::uint8_t {
  wide,              ///< In 32 bits.
  pairs_of_16_bits,  ///< Neighbours in 16 bits, which saturate, then in 32.
};

/// Lists the quads of a packed convolution or linear, block by block of 16 outputs. Quads whose weights are all 0 are
/// left out. Where two products of pairs_of_16_bits could saturate, weights are split between two quads of the same
/// bytes, so that each sum fits: the result is exact whatever the codes.
[[nodiscard]] QuadListConv list_quads(QuadConv conv, QuadSums sums);

}  // namespace podaq::runtime_detail
