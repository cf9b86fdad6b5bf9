#include <immintrin.h>

#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/vectors256.h"

namespace podaq::runtime_detail::avx2 {

namespace {

// Vectors run across outputs only: each output's sum is made in the same order as in the reference, multiply and add
// rounded separately.

constexpr std::size_t lanes = 8;
constexpr std::size_t most_sums = 8;  // enough to hide the latency of an addition

[[gnu::always_inline]] inline __m256 multiply_add(__m256 sum, __m256 x, __m256 w) {
  return _mm256_add_ps(sum, _mm256_mul_ps(x, w));
}

// Stores the first `count` of a vector of sums, the bias and, where there is one, the residual added.
template <typename Task>
[[gnu::always_inline]] inline void store(const Task& task, std::size_t index, std::size_t count, __m256 sum,
                                         __m256 bias) {
  const __m256i mask = first_lanes(count < lanes ? count : lanes);
  __m256 result = _mm256_add_ps(sum, bias);
  if (task.residual != nullptr) result = _mm256_add_ps(result, _mm256_maskload_ps(task.residual + index, mask));
  _mm256_maskstore_ps(task.output + index, mask, bounded(result, task.minimum, task.maximum));
}

// A run of up to 8 neighbouring outputs in one row.
struct Slot {
  std::size_t row, column;
};

template <std::size_t outputs, std::size_t slots>
void conv_tile(const FloatConvTask& task, std::size_t first_output, const float* weights, const Slot* places) {
  const float* windows[slots];
  __m256 sums[outputs][slots];
#pragma GCC unroll 8
  for (std::size_t s = 0; s < slots; ++s) {
    windows[s] = task.input + places[s].row * task.row_stride + places[s].column;
#pragma GCC unroll 4
    for (std::size_t o = 0; o < outputs; ++o) sums[o][s] = _mm256_setzero_ps();
  }
  for (std::size_t channel = 0; channel < task.channels; ++channel)
    for (std::size_t tap = 0; tap < task.taps; ++tap) {
      const std::size_t offset = channel * task.channel_stride + task.tap_offsets[tap];
      __m256 x[slots];
#pragma GCC unroll 8
      for (std::size_t s = 0; s < slots; ++s) x[s] = _mm256_loadu_ps(windows[s] + offset);
#pragma GCC unroll 4
      for (std::size_t o = 0; o < outputs; ++o) {
        const __m256 w = _mm256_set1_ps(weights[o]);
#pragma GCC unroll 8
        for (std::size_t s = 0; s < slots; ++s) sums[o][s] = multiply_add(sums[o][s], x[s], w);
      }
      weights += outputs;
    }
#pragma GCC unroll 4
  for (std::size_t o = 0; o < outputs; ++o)
#pragma GCC unroll 8
    for (std::size_t s = 0; s < slots; ++s) {
      const std::size_t output = first_output + o;
      const std::size_t index = (output * task.rows + places[s].row) * task.columns + places[s].column;
      store(task, index, task.columns - places[s].column, sums[o][s], _mm256_set1_ps(task.bias[output]));
    }
}

template <std::size_t outputs>
void conv_block(const FloatConvTask& task, std::size_t first_output, const float* weights) {
  constexpr std::size_t most_slots = most_sums / outputs;
  const std::size_t slots_per_row = (task.columns + lanes - 1) / lanes;
  const std::size_t slot_count = task.rows * slots_per_row;
  for (std::size_t slot = 0; slot < slot_count;) {
    const std::size_t count = slot_count - slot >= most_slots ? most_slots : 1;
    Slot places[most_slots];
    for (std::size_t i = 0; i < count; ++i)
      places[i] = {(slot + i) / slots_per_row, (slot + i) % slots_per_row * lanes};
    if (count == most_slots)
      conv_tile<outputs, most_slots>(task, first_output, weights, places);
    else
      conv_tile<outputs, 1>(task, first_output, weights, places);
    slot += count;
  }
}

// `weights` are those of the tile's first output; the next input's are `block_width` floats behind.
template <std::size_t rows, std::size_t vectors>
void linear_tile(const FloatLinearTask& task, std::size_t first_row, std::size_t first_output, const float* weights,
                 std::size_t block_width) {
  __m256 sums[rows][vectors];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) sums[r][v] = _mm256_setzero_ps();
  const float* input = task.input + first_row * task.inputs;
  for (std::size_t i = 0; i < task.inputs; ++i, weights += block_width) {
    __m256 x[rows];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r) x[r] = _mm256_set1_ps(input[r * task.inputs + i]);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m256 w = _mm256_load_ps(weights + v * lanes);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < rows; ++r) sums[r][v] = multiply_add(sums[r][v], x[r], w);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t output = first_output + v * lanes;
      if (output >= task.outputs) break;
      store(task, (first_row + r) * task.outputs + output, task.outputs - output, sums[r][v],
            _mm256_loadu_ps(task.bias + output));
    }
}

template <std::size_t vectors>
void linear_row(const FloatLinearTask& task, std::size_t row, std::size_t first_output, const float* weights) {
  linear_tile<1, vectors>(task, row, first_output, weights, vectors * lanes);
}

void linear_block(const FloatLinearTask& task, std::size_t first_output, const float* weights, std::size_t width) {
  constexpr std::size_t tile_rows = 4;
  constexpr std::size_t tile_vectors = 2;
  std::size_t row = 0;
  for (; row + tile_rows <= task.rows; row += tile_rows)
    for (std::size_t first = 0; first < width; first += tile_vectors * lanes)
      linear_tile<tile_rows, tile_vectors>(task, row, first_output + first, weights + first, width);
  for (; row < task.rows; ++row) {
    if (width == 8 * lanes)
      linear_row<8>(task, row, first_output, weights);
    else if (width == 6 * lanes)
      linear_row<6>(task, row, first_output, weights);
    else if (width == 4 * lanes)
      linear_row<4>(task, row, first_output, weights);
    else
      linear_row<2>(task, row, first_output, weights);
  }
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
  constexpr std::size_t block_outputs = 64;
  constexpr std::size_t outputs_multiple = 16;
  const float* weights = task.weights;
  for (std::size_t output = 0; output < task.outputs; output += block_outputs) {
    const std::size_t left = task.outputs - output;
    const std::size_t width =
        left >= block_outputs ? block_outputs : (left + outputs_multiple - 1) / outputs_multiple * outputs_multiple;
    linear_block(task, output, weights, width);
    weights += task.inputs * width;
  }
}

}  // namespace podaq::runtime_detail::avx2
