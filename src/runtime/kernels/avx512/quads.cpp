#include <immintrin.h>

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/quad_windows.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t most_vectors = 4;
constexpr std::size_t vector_bytes = 64;

// g++ 12 spills accumulators around _mm512_dpbusd_epi32 and loses more than half of the speed; it keeps the operands of
// a one-line asm in registers.
[[gnu::always_inline]] inline void dot_quads(__m512i& accumulator, __m512i codes, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(accumulator) : "v"(codes), "v"(weights));
}

[[gnu::always_inline]] inline __m512i broadcast_quad(const std::uint8_t* quad) {
  int bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm512_set1_epi32(bits);
}

// Where one tile of the output starts.
struct Place {
  std::size_t first_output = 0;  ///< Channel.
  std::size_t first_result = 0;
  std::size_t row = 0, column = 0;  ///< Of the first result.
  std::size_t vectors = 0;          ///< Of 16 channels each.
  __mmask16 last_vector_mask = 0;   ///< Lanes of the last vector that are channels.
};

constexpr std::size_t most_positions = 12;

// A tile's accumulators: one row of up to 64 channels per position.
struct Accumulators {
  alignas(vector_bytes) std::int32_t rows[most_positions][most_vectors * lanes];
};

const std::uint8_t* residual_codes(const QuadTask& task, std::size_t position, std::size_t channel) {
  return task.residual + position * task.residual_position_stride + channel;
}

[[gnu::always_inline]] inline void store_floats(const QuadTask& task, std::size_t position, std::size_t channel,
                                                __mmask16 mask, __m512 result) {
  const __m512 limited = bounded(result, task.epilogue.minimum, task.epilogue.maximum);
  float* output =
      static_cast<float*>(task.output) + position * task.output_position_stride + channel * task.output_channel_stride;
  if (task.output_channel_stride == 1) {
    _mm512_mask_storeu_ps(output, mask, limited);
    return;
  }
  alignas(vector_bytes) float row[lanes];
  _mm512_store_ps(row, limited);
  for (std::size_t lane = 0; lane < lanes; ++lane)
    if ((mask >> lane) & 1U) output[lane * task.output_channel_stride] = row[lane];
}

// Turns a tile's accumulators into output elements.
template <bool adds, bool gives_codes>
void finish_tile(const QuadTask& task, const Place& place, std::size_t positions, const Accumulators& accumulators) {
  for (std::size_t p = 0; p < positions; ++p)
    for (std::size_t v = 0; v < place.vectors; ++v) {
      const std::size_t position = place.first_result + p;
      const std::size_t channel = place.first_output + v * lanes;
      const __mmask16 mask = v + 1 == place.vectors ? place.last_vector_mask : __mmask16{0xFFFF};
      const __m512i sums = _mm512_load_si512(accumulators.rows[p] + v * lanes);
      __m512 result = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(task.multipliers + channel));
      if constexpr (adds)
        result = _mm512_add_ps(result, residual_of(task.epilogue, residual_codes(task, position, channel), mask));
      if constexpr (gives_codes) {
        std::uint8_t* output = static_cast<std::uint8_t*>(task.output) + position * task.output_position_stride;
        _mm_mask_storeu_epi8(output + channel, mask, codes_of(result, task.epilogue));
      } else {
        store_floats(task, position, channel, mask, result);
      }
    }
}

void finish(const QuadTask& task, const Place& place, std::size_t positions, const Accumulators& accumulators) {
  if (task.epilogue.gives_codes && task.residual == nullptr)
    finish_tile<false, true>(task, place, positions, accumulators);
  else if (task.epilogue.gives_codes)
    finish_tile<true, true>(task, place, positions, accumulators);
  else if (task.residual == nullptr)
    finish_tile<false, false>(task, place, positions, accumulators);
  else
    finish_tile<true, false>(task, place, positions, accumulators);
}

// 64 rounded numbers to codes: saturation does what a clamp to int16 and to [0, 255] would. Packing works within
// quarters of a register, so the result is put in order at the end.
[[gnu::always_inline]] inline __m512i pack_codes(const __m512i (&rounded)[most_vectors], const EpilogueTask& e) {
  const __m512i zero_point = _mm512_set1_epi16(static_cast<short>(e.zero_point));
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[1]), zero_point);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[3]), zero_point);
  const __m512i codes = _mm512_packus_epi16(low, high);
  const __m512i limited = _mm512_min_epu8(_mm512_max_epu8(codes, _mm512_set1_epi8(static_cast<char>(e.lowest))),
                                          _mm512_set1_epi8(static_cast<char>(e.highest)));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, limited);
}

// Turns sums that are still in registers into codes, `pooled` positions into one.
template <std::size_t pooled, bool adds, std::size_t positions, std::size_t vectors>
[[gnu::always_inline]] inline void store_tile(const QuadTask& task, const Place& place,
                                              const __m512i (&sums)[positions][vectors]) {
  const std::size_t channels =
      (vectors - 1) * lanes +
      static_cast<std::size_t>(__builtin_popcount(static_cast<unsigned>(place.last_vector_mask)));
  const __mmask64 mask = channels == vector_bytes ? ~__mmask64{0} : (__mmask64{1} << channels) - 1;
  auto* output =
      static_cast<std::uint8_t*>(task.output) + place.first_result * task.output_position_stride + place.first_output;
  __m512 multipliers[vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v)
    multipliers[v] = _mm512_loadu_ps(task.multipliers + place.first_output + v * lanes);
#pragma GCC unroll 16
  for (std::size_t p = 0; p + pooled <= positions; p += pooled) {
    __m512i rounded[most_vectors] = {};
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      __m512i largest = sums[p][v];
#pragma GCC unroll 4
      for (std::size_t other = 1; other < pooled; ++other) largest = _mm512_max_epi32(largest, sums[p + other][v]);
      __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(largest), multipliers[v]);
      if constexpr (adds)
        scaled = _mm512_add_ps(
            scaled,
            residual_of(task.epilogue, residual_codes(task, place.first_result + p, place.first_output + v * lanes),
                        v + 1 == vectors ? place.last_vector_mask : __mmask16{0xFFFF}));
      rounded[v] = _mm512_cvtps_epi32(scaled);
    }
    _mm512_mask_storeu_epi8(output + p / pooled * task.output_position_stride, mask,
                            pack_codes(rounded, task.epilogue));
  }
}

// Computes `positions` windows for up to 64 channels. Tiles with few accumulators use several sets of them, so that a
// sum need not wait for the one before.
template <std::size_t positions, std::size_t vectors>
void compute_tile(const QuadTask& task, const Place& place, const std::int8_t* weights) {
  constexpr std::size_t sets = positions * vectors >= 8 ? 1 : 2;
  const std::uint8_t* windows[positions];
  find_windows(task, place.row, place.column, windows);
  __m512i accumulators[sets][positions][vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) {
    const __m512i bias = _mm512_loadu_si512(task.bias + place.first_output + v * lanes);
#pragma GCC unroll 16
    for (std::size_t p = 0; p < positions; ++p) {
      accumulators[0][p][v] = bias;
      if constexpr (sets == 2) accumulators[1][p][v] = _mm512_setzero_si512();
    }
  }
  const auto add_quad = [&](__m512i(&sums)[positions][vectors], std::size_t offset) __attribute__((always_inline)) {
    __m512i block[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) block[v] = _mm512_load_si512(weights + v * vector_bytes);
#pragma GCC unroll 16
    for (std::size_t p = 0; p < positions; ++p) {
      const __m512i codes = broadcast_quad(windows[p] + offset);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) dot_quads(sums[p][v], codes, block[v]);
    }
    weights += vectors * vector_bytes;
  };
  for (std::size_t run = 0; run < task.runs; ++run) {
    std::size_t offset = task.run_offsets[run];
    const std::size_t end = offset + task.quads_per_run * 4;
    if constexpr (sets == 2)
      for (; offset + 8 <= end; offset += 8) {
        add_quad(accumulators[0], offset);
        add_quad(accumulators[1], offset + 4);
      }
    for (; offset < end; offset += 4) add_quad(accumulators[0], offset);
  }
  if constexpr (sets == 2) {
#pragma GCC unroll 16
    for (std::size_t p = 0; p < positions; ++p)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v)
        accumulators[0][p][v] = _mm512_add_epi32(accumulators[0][p][v], accumulators[1][p][v]);
  }
  const std::size_t pooled = task.pool_rows * task.pool_columns;
  if (pooled == 2) return store_tile<2, false>(task, place, accumulators[0]);
  if (pooled == 4) return store_tile<4, false>(task, place, accumulators[0]);
  if (task.epilogue.gives_codes && task.epilogue.sums_fit && task.residual == nullptr)
    return store_tile<1, false>(task, place, accumulators[0]);
  if (task.epilogue.gives_codes && task.epilogue.sums_fit) return store_tile<1, true>(task, place, accumulators[0]);
  Accumulators finished;
#pragma GCC unroll 16
  for (std::size_t p = 0; p < positions; ++p)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) _mm512_store_si512(finished.rows[p] + v * lanes, accumulators[0][p][v]);
  finish(task, place, positions, finished);
}

// Cuts the windows into tiles as large as registers allow, then smaller ones, of whole results each.
template <std::size_t vectors>
void compute_block(const QuadTask& task, Place place, const std::int8_t* weights) {
  constexpr std::size_t largest = vectors == 4 ? 6 : vectors == 3 ? 8 : 12;
  const std::size_t pooled = task.pool_rows * task.pool_columns;
  std::size_t left = task.rows * task.columns * pooled;
  while (left > 0) {
    std::size_t taken = 1;
    if (left >= largest && largest % pooled == 0) {
      compute_tile<largest, vectors>(task, place, weights);
      taken = largest;
    } else if (left >= 4) {
      compute_tile<4, vectors>(task, place, weights);
      taken = 4;
    } else if (left >= 2) {
      compute_tile<2, vectors>(task, place, weights);
      taken = 2;
    } else {
      compute_tile<1, vectors>(task, place, weights);
    }
    left -= taken;
    place.first_result += taken / pooled;
    place.column += taken / pooled;
    while (place.column >= task.columns) {
      place.column -= task.columns;
      ++place.row;
    }
  }
}

// Turns one sample's sums of 64 outputs into codes.
void finish_whole_block(const QuadTask& task, const std::int32_t* sums, Place place) {
  place.last_vector_mask = 0xFFFF;
  __m512i block[1][most_vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < most_vectors; ++v) block[0][v] = _mm512_loadu_si512(sums + v * lanes);
  if (task.residual == nullptr)
    store_tile<1, false>(task, place, block);
  else
    store_tile<1, true>(task, place, block);
}

}  // namespace

void convolve_quads(const QuadTask& task) {
  const std::size_t block_bytes = task.runs * task.quads_per_run * most_vectors * vector_bytes;
  const std::int8_t* weights = task.weights;
  for (std::size_t first = 0; first < task.outputs; first += most_vectors * lanes, weights += block_bytes) {
    const std::size_t left = task.outputs - first;
    const std::size_t vectors = left >= most_vectors * lanes ? most_vectors : (left + lanes - 1) / lanes;
    const std::size_t last_lanes = left >= vectors * lanes ? lanes : left - (vectors - 1) * lanes;
    const Place place{
        .first_output = first, .vectors = vectors, .last_vector_mask = static_cast<__mmask16>((1U << last_lanes) - 1U)};
    switch (vectors) {
      case 1:
        compute_block<1>(task, place, weights);
        break;
      case 2:
        compute_block<2>(task, place, weights);
        break;
      case 3:
        compute_block<3>(task, place, weights);
        break;
      default:
        compute_block<4>(task, place, weights);
    }
  }
}

void finish_sums(const QuadTask& task, const std::int32_t* sums, std::size_t sample) {
  std::size_t first = 0;
  if (task.epilogue.gives_codes && task.epilogue.sums_fit)
    for (; first + most_vectors * lanes <= task.outputs; first += most_vectors * lanes)
      finish_whole_block(task, sums + first, {.first_output = first, .first_result = sample, .vectors = most_vectors});
  Accumulators block;
  for (; first < task.outputs; first += lanes) {
    const std::size_t left = task.outputs - first;
    const auto mask = static_cast<__mmask16>(left >= lanes ? 0xFFFFU : (1U << left) - 1U);
    _mm512_store_si512(block.rows[0], _mm512_loadu_si512(sums + first));
    finish(task, {.first_output = first, .first_result = sample, .vectors = 1, .last_vector_mask = mask}, 1, block);
  }
}

}  // namespace podaq::runtime_detail::avx512
