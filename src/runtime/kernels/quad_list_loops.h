#pragma once

#include <immintrin.h>

#include "runtime/kernels/quad_windows.h"
#include "runtime/kernels/tasks.h"
#include "runtime/kernels/vectors256.h"

// The loops of convolve_quad_lists for AVX2 and AVX-VNNI. Each includes this file with a `Dot` of its own, a type in an
// anonymous namespace, so that nothing here leaves a symbol that the linker could share:
//   static void add(__m256i& sums, __m256i codes, __m256i weights): adds 8 dot products of 4 bytes;
//   most_sums: accumulators that fit the registers beside what `add` needs;
//   sums_in_flight: how many it takes to hide the latency of `add`.
namespace podaq::runtime_detail::quad_lists {

inline constexpr std::size_t lanes = 8;
inline constexpr std::size_t vector_bytes = 32;
inline constexpr std::size_t most_vectors = 2;
inline constexpr std::size_t most_positions = 8;

/// Where a tile's results start.
struct Place {
  std::size_t first_result = 0;
  std::size_t row = 0, column = 0;
};

/// A tile's accumulators: one row of up to 16 channels per position.
struct Sums {
  alignas(vector_bytes) std::int32_t rows[most_positions][most_vectors * lanes];
};

[[gnu::always_inline]] static inline __m256 residual_of(const QuadTask& task, std::size_t result, std::size_t channel) {
  const auto* codes =
      reinterpret_cast<const __m128i*>(task.residual + result * task.residual_position_stride + channel);
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(codes));
  const __m256i difference = _mm256_sub_epi32(wide, _mm256_set1_epi32(task.epilogue.residual_zero_point));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(difference), _mm256_set1_ps(task.epilogue.residual_multiplier));
}

[[gnu::always_inline]] static inline void store_floats(const QuadTask& task, std::size_t result, std::size_t channel,
                                                       __m256 numbers) {
  const __m256 limited = bounded(numbers, task.epilogue.minimum, task.epilogue.maximum);
  const std::size_t count = task.outputs - channel < lanes ? task.outputs - channel : lanes;
  float* output =
      static_cast<float*>(task.output) + result * task.output_position_stride + channel * task.output_channel_stride;
  if (task.output_channel_stride == 1) {
    _mm256_maskstore_ps(output, first_lanes(count), limited);
    return;
  }
  alignas(vector_bytes) float row[lanes];
  _mm256_store_ps(row, limited);
  for (std::size_t lane = 0; lane < count; ++lane) output[lane * task.output_channel_stride] = row[lane];
}

/// Turns a tile's sums into `results` output elements of each channel, each from the largest of the windows pooled.
template <typename Dot, bool adds>
void finish(const QuadTask& task, const QuadBlock& block, const Place& place, std::size_t results, const Sums& sums) {
  const EpilogueTask& e = task.epilogue;
  const CodeRange range{.zero_point = e.zero_point, .lowest = e.lowest, .highest = e.highest};
  const std::size_t pooled = task.pool_rows * task.pool_columns;
  const std::size_t left = task.outputs - block.first_output;
  const std::size_t channels = left < most_vectors * lanes ? left : most_vectors * lanes;
  for (std::size_t r = 0; r < results; ++r) {
    const std::size_t result = place.first_result + r;
    __m256i differences[most_vectors] = {};
    for (std::size_t v = 0; v < block.vectors; ++v) {
      const std::size_t channel = block.first_output + v * lanes;
      const auto* rows = reinterpret_cast<const __m256i*>(sums.rows[r * pooled] + v * lanes);
      __m256i largest = _mm256_load_si256(rows);
      for (std::size_t p = 1; p < pooled; ++p)
        largest = _mm256_max_epi32(largest, _mm256_load_si256(rows + p * most_vectors));
      __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(largest), _mm256_loadu_ps(task.multipliers + channel));
      if constexpr (adds) scaled = _mm256_add_ps(scaled, residual_of(task, result, channel));
      if (e.gives_codes)
        differences[v] = difference_of(scaled, range);
      else
        store_floats(task, result, channel, scaled);
    }
    if (e.gives_codes)
      store_codes(static_cast<std::uint8_t*>(task.output) + result * task.output_position_stride + block.first_output,
                  codes_of(differences[0], differences[1], range.zero_point), channels);
  }
}

/// Computes `positions` windows for a block of outputs. Tiles with few accumulators use several sets of them, so that a
/// sum need not wait for the one before.
template <typename Dot, std::size_t positions, std::size_t vectors>
void compute_tile(const QuadListTask& task, const QuadBlock& block, const Place& place, const std::uint32_t* offsets,
                  const std::int8_t* weights) {
  constexpr std::size_t sets = positions * vectors * 4 <= Dot::sums_in_flight   ? 4
                               : positions * vectors * 2 <= Dot::sums_in_flight ? 2
                                                                                : 1;
  const std::uint8_t* windows[positions];
  find_windows(task.conv, place.row, place.column, windows);
  __m256i sums[sets][positions][vectors];
#pragma GCC unroll 2
  for (std::size_t v = 0; v < vectors; ++v) {
    const auto* bias = reinterpret_cast<const __m256i*>(task.conv.bias + block.first_output + v * lanes);
#pragma GCC unroll 8
    for (std::size_t p = 0; p < positions; ++p) sums[0][p][v] = _mm256_loadu_si256(bias);
#pragma GCC unroll 4
    for (std::size_t s = 1; s < sets; ++s)
#pragma GCC unroll 8
      for (std::size_t p = 0; p < positions; ++p) sums[s][p][v] = _mm256_setzero_si256();
  }
  const auto add_quad = [&](__m256i(&set)[positions][vectors], std::size_t offset) __attribute__((always_inline)) {
    __m256i block_weights[vectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v)
      block_weights[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights) + v);
#pragma GCC unroll 8
    for (std::size_t p = 0; p < positions; ++p) {
      int bits;
      __builtin_memcpy(&bits, windows[p] + offset, sizeof bits);
      const __m256i codes = _mm256_set1_epi32(bits);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < vectors; ++v) Dot::add(set[p][v], codes, block_weights[v]);
    }
    weights += vectors * vector_bytes;
  };
  const std::uint32_t* end = offsets + block.quads;
  if constexpr (sets > 1)
    for (; end - offsets >= static_cast<std::ptrdiff_t>(sets); offsets += sets) {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < sets; ++s) add_quad(sums[s], offsets[s]);
    }
  for (; offsets != end; ++offsets) add_quad(sums[0], *offsets);
  Sums finished;
#pragma GCC unroll 8
  for (std::size_t p = 0; p < positions; ++p)
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v) {
      __m256i sum = sums[0][p][v];
#pragma GCC unroll 4
      for (std::size_t s = 1; s < sets; ++s) sum = _mm256_add_epi32(sum, sums[s][p][v]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(finished.rows[p]) + v, sum);
    }
  const std::size_t results = positions / (task.conv.pool_rows * task.conv.pool_columns);
  if (task.conv.residual != nullptr)
    finish<Dot, true>(task.conv, block, place, results, finished);
  else
    finish<Dot, false>(task.conv, block, place, results, finished);
}

/// Cuts the windows into tiles as large as registers allow, then smaller ones, of whole results each.
template <typename Dot, std::size_t vectors>
void compute_block(const QuadListTask& task, const QuadBlock& block, const std::uint32_t* offsets,
                   const std::int8_t* weights) {
  constexpr std::size_t fitting = Dot::most_sums / vectors;
  constexpr std::size_t largest = fitting < most_positions ? fitting : most_positions;
  const std::size_t pooled = task.conv.pool_rows * task.conv.pool_columns;
  std::size_t left = task.conv.rows * task.conv.columns * pooled;
  Place place;
  const auto take = [&](std::size_t positions) {
    left -= positions;
    place.first_result += positions / pooled;
    place.column += positions / pooled;
    while (place.column >= task.conv.columns) {
      place.column -= task.conv.columns;
      ++place.row;
    }
  };
  while (left > 0) {
    if (left >= largest && largest % pooled == 0) {
      compute_tile<Dot, largest, vectors>(task, block, place, offsets, weights);
      take(largest);
    } else if (left >= 4) {
      compute_tile<Dot, 4, vectors>(task, block, place, offsets, weights);
      take(4);
    } else if (left >= 2) {
      compute_tile<Dot, 2, vectors>(task, block, place, offsets, weights);
      take(2);
    } else {
      compute_tile<Dot, 1, vectors>(task, block, place, offsets, weights);
      take(1);
    }
  }
}

/// Computes every block of a task.
template <typename Dot>
void compute(const QuadListTask& task) {
  const std::uint32_t* offsets = task.offsets;
  const std::int8_t* weights = task.weights;
  for (std::size_t b = 0; b < task.block_count; ++b) {
    const QuadBlock& block = task.blocks[b];
    if (block.vectors == 1)
      compute_block<Dot, 1>(task, block, offsets, weights);
    else
      compute_block<Dot, 2>(task, block, offsets, weights);
    offsets += block.quads;
    weights += block.quads * block.vectors * vector_bytes;
  }
}

}  // namespace podaq::runtime_detail::quad_lists
