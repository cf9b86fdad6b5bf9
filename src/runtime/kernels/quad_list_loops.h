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

/// Turns sums that are still in registers into codes, the largest of `pooled` positions into one. Scaled sums must stay
/// below 2^31: then saturation does what a clamp to 16 bits and to [0, 255] would.
template <std::size_t pooled, bool adds, std::size_t positions, std::size_t vectors>
[[gnu::always_inline]] static inline void store_tile(const QuadTask& task, const QuadBlock& block, const Place& place,
                                                     const __m256i (&sums)[positions][vectors]) {
  const std::size_t left = task.outputs - block.first_output;
  const std::size_t channels = left < most_vectors * lanes ? left : most_vectors * lanes;
  const __m256i zero_point = _mm256_set1_epi16(static_cast<short>(task.epilogue.zero_point));
  const __m128i lowest = _mm_set1_epi8(static_cast<char>(task.epilogue.lowest));
  const __m128i highest = _mm_set1_epi8(static_cast<char>(task.epilogue.highest));
  auto* output =
      static_cast<std::uint8_t*>(task.output) + place.first_result * task.output_position_stride + block.first_output;
  __m256 multipliers[vectors];
#pragma GCC unroll 2
  for (std::size_t v = 0; v < vectors; ++v)
    multipliers[v] = _mm256_loadu_ps(task.multipliers + block.first_output + v * lanes);
#pragma GCC unroll 8
  for (std::size_t p = 0; p + pooled <= positions; p += pooled, output += task.output_position_stride) {
    __m256i rounded[most_vectors] = {};
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v) {
      __m256i largest = sums[p][v];
#pragma GCC unroll 4
      for (std::size_t other = 1; other < pooled; ++other) largest = _mm256_max_epi32(largest, sums[p + other][v]);
      __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(largest), multipliers[v]);
      if constexpr (adds)
        scaled = _mm256_add_ps(scaled, residual_of(task, place.first_result + p, block.first_output + v * lanes));
      rounded[v] = _mm256_cvtps_epi32(scaled);
    }
    const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), zero_point);
    store_codes(output, _mm_min_epu8(_mm_max_epu8(bytes_of_words(words), lowest), highest), channels);
  }
}

/// The same for any sums, and for float outputs; without pooling. `Dot` only keeps it private to one file.
template <typename Dot>
void finish(const QuadTask& task, const QuadBlock& block, const Place& place, std::size_t results, const Sums& sums) {
  const EpilogueTask& e = task.epilogue;
  const CodeRange range{.zero_point = e.zero_point, .lowest = e.lowest, .highest = e.highest};
  const std::size_t left = task.outputs - block.first_output;
  const std::size_t channels = left < most_vectors * lanes ? left : most_vectors * lanes;
  for (std::size_t r = 0; r < results; ++r) {
    const std::size_t result = place.first_result + r;
    __m256i differences[most_vectors] = {};
    for (std::size_t v = 0; v < block.vectors; ++v) {
      const std::size_t channel = block.first_output + v * lanes;
      const __m256i sum = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums.rows[r]) + v);
      __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(task.multipliers + channel));
      if (task.residual != nullptr) scaled = _mm256_add_ps(scaled, residual_of(task, result, channel));
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
void compute_tile(const QuadTask& task, const QuadBlock& block, const Place& place, const std::uint32_t* offsets,
                  const std::int8_t* weights) {
  constexpr std::size_t sets = positions * vectors * 4 <= Dot::sums_in_flight   ? 4
                               : positions * vectors * 2 <= Dot::sums_in_flight ? 2
                                                                                : 1;
  const std::uint8_t* windows[positions];
  find_windows(task, place.row, place.column, windows);
  __m256i sums[sets][positions][vectors];
#pragma GCC unroll 2
  for (std::size_t v = 0; v < vectors; ++v) {
    const auto* bias = reinterpret_cast<const __m256i*>(task.bias + block.first_output + v * lanes);
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
#pragma GCC unroll 4
  for (std::size_t s = 1; s < sets; ++s)
#pragma GCC unroll 8
    for (std::size_t p = 0; p < positions; ++p)
#pragma GCC unroll 2
      for (std::size_t v = 0; v < vectors; ++v) sums[0][p][v] = _mm256_add_epi32(sums[0][p][v], sums[s][p][v]);
  const std::size_t pooled = task.pool_rows * task.pool_columns;
  if (pooled == 2) return store_tile<2, false>(task, block, place, sums[0]);
  if (pooled == 4) return store_tile<4, false>(task, block, place, sums[0]);
  if (task.epilogue.gives_codes && task.epilogue.sums_fit && task.residual == nullptr)
    return store_tile<1, false>(task, block, place, sums[0]);
  if (task.epilogue.gives_codes && task.epilogue.sums_fit) return store_tile<1, true>(task, block, place, sums[0]);
  Sums finished;
#pragma GCC unroll 8
  for (std::size_t p = 0; p < positions; ++p)
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v)
      _mm256_store_si256(reinterpret_cast<__m256i*>(finished.rows[p]) + v, sums[0][p][v]);
  finish<Dot>(task, block, place, positions, finished);
}

/// The place `results` behind another.
[[gnu::always_inline]] static inline Place behind(const QuadTask& task, Place place, std::size_t results) {
  place.first_result += results;
  place.column += results;
  while (place.column >= task.columns) {
    place.column -= task.columns;
    ++place.row;
  }
  return place;
}

/// Cuts the windows into tiles as large as registers allow, then smaller ones, of whole results each.
template <typename Dot, std::size_t vectors>
void compute_block(const QuadTask& task, const QuadBlock& block, const std::uint32_t* offsets,
                   const std::int8_t* weights) {
  constexpr std::size_t fitting = Dot::most_sums / vectors;
  constexpr std::size_t largest = fitting < most_positions ? fitting : most_positions;
  const std::size_t pooled = task.pool_rows * task.pool_columns;
  const std::size_t results_of_largest = largest / pooled;
  const bool largest_is_whole = results_of_largest * pooled == largest;
  const std::size_t results = task.rows * task.columns;
  for (Place place; place.first_result < results;) {
    const std::size_t positions = (results - place.first_result) * pooled;
    if (positions >= largest && largest_is_whole) {
      compute_tile<Dot, largest, vectors>(task, block, place, offsets, weights);
      place = behind(task, place, results_of_largest);
    } else if (positions >= 4) {
      compute_tile<Dot, 4, vectors>(task, block, place, offsets, weights);
      place = behind(task, place, pooled == 1 ? 4 : pooled == 2 ? 2 : 1);
    } else if (positions >= 2) {
      compute_tile<Dot, 2, vectors>(task, block, place, offsets, weights);
      place = behind(task, place, pooled == 1 ? 2 : 1);
    } else {
      compute_tile<Dot, 1, vectors>(task, block, place, offsets, weights);
      place = behind(task, place, 1);
    }
  }
}

/// Calls compute(block, offsets, weights) for each block of a task.
template <typename Compute>
[[gnu::always_inline]] static inline void for_each_block(const QuadListTask& task, Compute compute) {
  const std::uint32_t* offsets = task.offsets;
  const std::int8_t* weights = task.weights;
  for (std::size_t b = 0; b < task.block_count; ++b) {
    const QuadBlock& block = task.blocks[b];
    compute(block, offsets, weights);
    offsets += block.quads;
    weights += block.quads * block.vectors * vector_bytes;
  }
}

/// Computes a block of a task.
template <typename Dot>
void compute_any_block(const QuadTask& task, const QuadBlock& block, const std::uint32_t* offsets,
                       const std::int8_t* weights) {
  if (block.vectors == 1)
    compute_block<Dot, 1>(task, block, offsets, weights);
  else
    compute_block<Dot, 2>(task, block, offsets, weights);
}

}  // namespace podaq::runtime_detail::quad_lists
