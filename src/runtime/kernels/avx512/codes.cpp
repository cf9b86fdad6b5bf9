#include <immintrin.h>

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/quantize_loops.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t bytes_per_vector = 64;

// The maximum of one window over up to 64 channels.
[[gnu::always_inline]] inline __m512i window_maximum(const CodeMaxPoolTask& task, WindowSpan rows, WindowSpan columns,
                                                     std::size_t channel, __mmask64 mask) {
  __m512i largest = _mm512_setzero_si512();
  for (std::size_t y = 0; y < rows.count; ++y)
    for (std::size_t x = 0; x < columns.count; ++x) {
      const std::size_t position =
          (rows.first + y * task.row_step) * task.input_width + columns.first + x * task.column_step;
      const std::uint8_t* codes = task.input + position * task.channels + channel;
      largest = _mm512_max_epu8(largest, _mm512_maskz_loadu_epi8(mask, codes));
    }
  return largest;
}

// 16 codes in 16 bytes.
[[gnu::always_inline]] inline __m128i quantize_vector(const QuantizeTask& task, __m512 x) {
  const __m512 scaled = _mm512_mul_ps(x, _mm512_set1_ps(task.inverse_scale));
  return codes_of(scaled, task);
}

[[gnu::always_inline]] inline __m128i quantize_up_to_16(const QuantizeTask& task, const float* input,
                                                        std::size_t count) {
  return quantize_vector(task, _mm512_maskz_loadu_ps(first_lanes(count), input));
}

[[gnu::always_inline]] inline void store_bytes(std::uint8_t* output, __m128i bytes, std::size_t count) {
  _mm_mask_storeu_epi8(output, first_lanes(count), bytes);
}

struct Codes {
  [[gnu::always_inline]] static inline __m128i quantize(const QuantizeTask& task, const float* input,
                                                        std::size_t count) {
    return quantize_up_to_16(task, input, count);
  }
  [[gnu::always_inline]] static inline void store(std::uint8_t* output, __m128i bytes, std::size_t count) {
    store_bytes(output, bytes, count);
  }
};

}  // namespace

void pool_code_maxima(const CodeMaxPoolTask& task) {
  std::uint8_t* output = task.output;
  for (std::size_t row = 0; row < task.rows; ++row)
    for (std::size_t column = 0; column < task.columns; ++column, output += task.channels)
      for (std::size_t channel = 0; channel < task.channels; channel += bytes_per_vector) {
        const std::size_t left = task.channels - channel;
        const __mmask64 mask = first_bytes(left);
        const __m512i largest = window_maximum(task, task.row_spans[row], task.column_spans[column], channel, mask);
        _mm512_mask_storeu_epi8(output + channel, mask, largest);
      }
}

void quantize_floats(const QuantizeTask& task) {
  quantizing::quantize<Codes>(task);
}

}  // namespace podaq::runtime_detail::avx512
