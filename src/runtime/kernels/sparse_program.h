#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/aligned_vector.h"
#include "runtime/kernels/avx512/sparse_tasks.h"
#include "runtime/window.h"

namespace podaq::runtime_detail {

/// What a sparse convolution computes, in the streams that convolve_sparse reads.
struct SparseProgram {
  std::vector<avx512::SparseBlock> blocks;
  std::vector<avx512::ElementPair> pairs;
  std::vector<avx512::SparseRun> runs;
  std::vector<std::uint32_t> quads;
  std::vector<avx512::SparseRow> rows;
  std::size_t most_pairs = 0;  ///< Of any block.
  std::size_t most_sums = 0;   ///< Rows whose sums are handed on from block to block.
};

/// The weights of a sparse convolution and what belongs to each of its output channels.
struct SparseWeights {
  ConvGeometry geometry;
  std::span<const std::int8_t> codes;               ///< {outputs, inputs of a group, taps}.
  std::span<const avx512::WindowElement> elements;  ///< {input channels, taps}.
  std::span<const std::int32_t> bias;               ///< Zero point folded in.
  std::span<const float> multipliers;
};

/// Arranges the nonzero weights: rows that use the same elements of the window are joined, elements that many rows use
/// together become pairs, rows of one shape follow one another. Deterministic.
[[nodiscard]] SparseProgram make_sparse_program(const SparseWeights& weights);

}  // namespace podaq::runtime_detail
