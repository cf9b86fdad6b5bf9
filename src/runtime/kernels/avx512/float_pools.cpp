#include <immintrin.h>

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t lanes = 16;

// `count` of up to 16 numbers, `stride` apart; nothing between or behind them is touched but for a stride of 2.
[[gnu::always_inline]] inline __m512 load(const float* numbers, std::size_t count, std::size_t stride) {
  if (stride == 1) return _mm512_maskz_loadu_ps(first_lanes(count), numbers);
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  if (stride == 2) {
    const std::size_t span = 2 * count - 1;
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(span), numbers);
    const __m512 high = _mm512_maskz_loadu_ps(first_lanes(span > lanes ? span - lanes : 0), numbers + lanes);
    return _mm512_permutex2var_ps(low, _mm512_slli_epi32(lane, 1), high);
  }
  const __m512i places = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(stride)));
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), first_lanes(count), places, numbers, sizeof(float));
}

// The larger of both; a NaN in `x` wins, and stays: nothing compares greater.
[[gnu::always_inline]] inline __m512 larger(__m512 largest, __m512 x) {
  const __mmask16 wins = _mm512_cmp_ps_mask(x, largest, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_mov_ps(largest, wins, x);
}

// `count` of up to 16 neighbouring outputs of one row, whose first window is `columns`.
void pool_columns(const FloatMaxPoolTask& task, const float* plane, const WindowSpan& rows, const WindowSpan& columns,
                  std::size_t count, float* output) {
  __m512 largest = _mm512_set1_ps(-__builtin_inff());
  for (std::size_t y = 0; y < rows.count; ++y) {
    const float* row = plane + (rows.first + y * task.row_step) * task.input_width + columns.first;
    for (std::size_t x = 0; x < columns.count; ++x)
      largest = larger(largest, load(row + x * task.column_step, count, task.stride));
  }
  _mm512_mask_storeu_ps(output, first_lanes(count), largest);
}

}  // namespace

void pool_float_maxima(const FloatMaxPoolTask& task) {
  float* output = task.output;
  for (std::size_t channel = 0; channel < task.channels; ++channel) {
    const float* plane = task.input + channel * task.input_positions;
    for (std::size_t row = 0; row < task.rows; ++row, output += task.columns)
      for (std::size_t i = 0; i < task.columns;) {
        const bool is_regular = i >= task.first_regular && i < task.end_regular;
        const std::size_t left = is_regular ? task.end_regular - i : 1;
        const std::size_t count = left < lanes ? left : lanes;
        pool_columns(task, plane, task.row_spans[row], task.column_spans[i], count, output + i);
        i += count;
      }
  }
}

}  // namespace podaq::runtime_detail::avx512
