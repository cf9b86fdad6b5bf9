#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernels/avx512/sparse_tasks.h"
#include "runtime/window.h"

namespace podaq::runtime_detail {

/// What a sparse convolution computes, in the streams that convolve_sparse reads.
struct SparseProgram {
  std::vector<avx512::SparseRun> runs;
  std::vector<std::uint32_t> quads;
  std::vector<avx512::SparseRow> rows;
};

/// The weights of a sparse convolution and what belongs to each of its output channels.
struct SparseWeights {
  ConvGeometry geometry;
  std::span<const std::int8_t> codes;  ///< {outputs, inputs of a group, taps}.
  std::span<const std::int32_t> bias;  ///< Zero point folded in.
  std::span<const float> multipliers;
};

/// Arranges the nonzero weights: rows that use the same elements of the window are joined, rows of one shape follow one
/// another. Deterministic. The quads hold the elements' numbers, {input channels, taps}, instead of their offsets.
[[nodiscard]] SparseProgram make_sparse_program(const SparseWeights& weights);

/// Whether sums lie in (-2^30, 2^23) whatever codes they meet.
[[nodiscard]] bool has_small_sums(const SparseWeights& weights);

/// Makes the rows such as SparseTask::rectifies takes them.
void rectify(SparseProgram& program);

[[nodiscard]] std::size_t quads_of(const SparseProgram& program);

/// Turns the elements' numbers into offsets.
void place_elements(SparseProgram& program, std::span<const std::uint32_t> offsets);

}  // namespace podaq::runtime_detail
