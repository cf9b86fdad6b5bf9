#include <immintrin.h>

#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/quantize_loops.h"
#include "runtime/kernels/vectors256.h"

namespace podaq::runtime_detail::avx2 {

namespace {

constexpr std::size_t lanes = 8;
constexpr std::size_t vector_bytes = 32;

[[gnu::always_inline]] inline __m256i load_codes(const std::uint8_t* codes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
}

// The maximum of one window over 32 channels, or what lies behind the last of them.
[[gnu::always_inline]] inline __m256i window_maximum(const CodeMaxPoolTask& task, WindowSpan rows, WindowSpan columns,
                                                     std::size_t channel) {
  __m256i largest = _mm256_setzero_si256();
  for (std::size_t y = 0; y < rows.count; ++y)
    for (std::size_t x = 0; x < columns.count; ++x) {
      const std::size_t position =
          (rows.first + y * task.row_step) * task.input_width + columns.first + x * task.column_step;
      largest = _mm256_max_epu8(largest, load_codes(task.input + position * task.channels + channel));
    }
  return largest;
}

struct Codes {
  [[gnu::always_inline]] static inline __m128i quantize(const QuantizeTask& task, const float* input,
                                                        std::size_t count) {
    const CodeRange range{.zero_point = task.zero_point, .lowest = task.lowest, .highest = task.highest};
    const __m256 factor = _mm256_set1_ps(task.inverse_scale);
    const bool is_whole = count >= 2 * lanes;
    const std::size_t behind = count > lanes ? count - lanes : 0;
    const __m256 first = is_whole ? _mm256_loadu_ps(input) : _mm256_maskload_ps(input, first_lanes(count));
    const __m256 second =
        is_whole ? _mm256_loadu_ps(input + lanes) : _mm256_maskload_ps(input + lanes, first_lanes(behind));
    return codes_of(difference_of(_mm256_mul_ps(first, factor), range),
                    difference_of(_mm256_mul_ps(second, factor), range), range.zero_point);
  }
  [[gnu::always_inline]] static inline void store(std::uint8_t* output, __m128i codes, std::size_t count) {
    store_codes(output, codes, count < 2 * lanes ? count : 2 * lanes);
  }
};

}  // namespace

void pool_code_maxima(const CodeMaxPoolTask& task) {
  std::uint8_t* output = task.output;
  for (std::size_t row = 0; row < task.rows; ++row)
    for (std::size_t column = 0; column < task.columns; ++column, output += task.channels)
      for (std::size_t channel = 0; channel < task.channels; channel += vector_bytes) {
        const __m256i largest = window_maximum(task, task.row_spans[row], task.column_spans[column], channel);
        const std::size_t left = task.channels - channel;
        Codes::store(output + channel, _mm256_castsi256_si128(largest), left);
        if (left > vector_bytes / 2)
          Codes::store(output + channel + vector_bytes / 2, _mm256_extracti128_si256(largest, 1),
                       left - vector_bytes / 2);
      }
}

void quantize_floats(const QuantizeTask& task) {
  quantizing::quantize<Codes>(task);
}

}  // namespace podaq::runtime_detail::avx2
