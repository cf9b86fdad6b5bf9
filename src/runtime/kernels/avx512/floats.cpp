#include <immintrin.h>

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::avx512 {

namespace {

// Vectors run across outputs only: each output's sum is made in the same order as in the reference, multiply and add
// rounded separately.

constexpr std::size_t lanes = 16;

[[gnu::always_inline]] inline __m512 multiply_add(__m512 sum, __m512 x, __m512 w) {
  return _mm512_add_ps(sum, _mm512_mul_ps(x, w));
}

// A run of up to 16 neighbouring outputs in one row.
struct Slot {
  std::size_t row, column;
};

template <std::size_t outputs, std::size_t slots>
void conv_tile(const FloatConvTask& task, std::size_t first_output, const float* weights, const Slot* places) {
  const float* windows[slots];
  __m512 sums[outputs][slots];
#pragma GCC unroll 4
  for (std::size_t s = 0; s < slots; ++s) {
    windows[s] = task.input + places[s].row * task.row_stride + places[s].column;
#pragma GCC unroll 4
    for (std::size_t o = 0; o < outputs; ++o) sums[o][s] = _mm512_setzero_ps();
  }
  for (std::size_t channel = 0; channel < task.channels; ++channel)
    for (std::size_t tap = 0; tap < task.taps; ++tap) {
      const std::size_t offset = channel * task.channel_stride + task.tap_offsets[tap];
      __m512 x[slots];
#pragma GCC unroll 4
      for (std::size_t s = 0; s < slots; ++s) x[s] = _mm512_loadu_ps(windows[s] + offset);
#pragma GCC unroll 4
      for (std::size_t o = 0; o < outputs; ++o) {
        const __m512 w = _mm512_set1_ps(weights[o]);
#pragma GCC unroll 4
        for (std::size_t s = 0; s < slots; ++s) sums[o][s] = multiply_add(sums[o][s], x[s], w);
      }
      weights += outputs;
    }
#pragma GCC unroll 4
  for (std::size_t o = 0; o < outputs; ++o)
#pragma GCC unroll 4
    for (std::size_t s = 0; s < slots; ++s) {
      const std::size_t index = ((first_output + o) * task.rows + places[s].row) * task.columns + places[s].column;
      const __mmask16 mask = first_lanes(task.columns - places[s].column);
      __m512 result = _mm512_add_ps(sums[o][s], _mm512_set1_ps(task.bias[first_output + o]));
      if (task.residual != nullptr) result = _mm512_add_ps(result, _mm512_maskz_loadu_ps(mask, task.residual + index));
      _mm512_mask_storeu_ps(task.output + index, mask, bounded(result, task.minimum, task.maximum));
    }
}

template <std::size_t outputs>
void conv_block(const FloatConvTask& task, std::size_t first_output, const float* weights) {
  const std::size_t slots_per_row = (task.columns + lanes - 1) / lanes;
  const std::size_t slot_count = task.rows * slots_per_row;
  for (std::size_t slot = 0; slot < slot_count;) {
    Slot places[4];
    std::size_t count = 0;
    for (; count < 4 && slot + count < slot_count; ++count)
      places[count] = {(slot + count) / slots_per_row, (slot + count) % slots_per_row * lanes};
    if (count == 4) {
      conv_tile<outputs, 4>(task, first_output, weights, places);
    } else if (count >= 2) {
      conv_tile<outputs, 2>(task, first_output, weights, places);
      count = 2;
    } else {
      conv_tile<outputs, 1>(task, first_output, weights, places);
    }
    slot += count;
  }
}

template <std::size_t rows, std::size_t vectors>
void linear_tile(const FloatLinearTask& task, std::size_t first_row, std::size_t first_output, const float* weights) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[r][v] = _mm512_setzero_ps();
  const float* input = task.input + first_row * task.inputs;
  for (std::size_t i = 0; i < task.inputs; ++i) {
    __m512 w[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) w[v] = _mm512_load_ps(weights + v * lanes);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r) {
      const __m512 x = _mm512_set1_ps(input[r * task.inputs + i]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) sums[r][v] = multiply_add(sums[r][v], x, w[v]);
    }
    weights += vectors * lanes;
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t output = first_output + v * lanes;
      const std::size_t index = (first_row + r) * task.outputs + output;
      const __mmask16 mask = first_lanes(task.outputs - output);
      __m512 result = _mm512_add_ps(sums[r][v], _mm512_loadu_ps(task.bias + output));
      if (task.residual != nullptr) result = _mm512_add_ps(result, _mm512_maskz_loadu_ps(mask, task.residual + index));
      _mm512_mask_storeu_ps(task.output + index, mask, bounded(result, task.minimum, task.maximum));
    }
}

template <std::size_t vectors>
void linear_block(const FloatLinearTask& task, std::size_t first_output, const float* weights) {
  std::size_t row = 0;
  for (; row + 4 <= task.rows; row += 4) linear_tile<4, vectors>(task, row, first_output, weights);
  for (; row + 2 <= task.rows; row += 2) linear_tile<2, vectors>(task, row, first_output, weights);
  for (; row < task.rows; ++row) linear_tile<1, vectors>(task, row, first_output, weights);
}

}  // namespace

void convolve_floats(const FloatConvTask& task) {
  const std::size_t window = task.channels * task.taps;
  std::size_t output = 0;
  for (; output + 4 <= task.outputs; output += 4) conv_block<4>(task, output, task.weights + output * window);
  for (; output + 2 <= task.outputs; output += 2) conv_block<2>(task, output, task.weights + output * window);
  for (; output < task.outputs; ++output) conv_block<1>(task, output, task.weights + output * window);
}

void multiply_floats(const FloatLinearTask& task) {
  constexpr std::size_t block = 4 * lanes;
  const float* weights = task.weights;
  for (std::size_t output = 0; output < task.outputs; output += block, weights += task.inputs * block) {
    const std::size_t left = task.outputs - output;
    if (left > 3 * lanes)
      linear_block<4>(task, output, weights);
    else if (left > 2 * lanes)
      linear_block<3>(task, output, weights);
    else if (left > lanes)
      linear_block<2>(task, output, weights);
    else
      linear_block<1>(task, output, weights);
  }
}

}  // namespace podaq::runtime_detail::avx512
