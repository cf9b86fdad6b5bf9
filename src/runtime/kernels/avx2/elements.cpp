#include <immintrin.h>

#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/vectors256.h"

namespace podaq::runtime_detail::avx2 {

namespace {

constexpr std::size_t lanes = 8;

// 8 codes as 32-bit numbers; those behind a value's last may be anything.
[[gnu::always_inline]] inline __m256i wide_codes(const std::uint8_t* codes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
}

[[gnu::always_inline]] inline __m256i differences(const std::uint8_t* codes, std::int32_t zero_point) {
  return _mm256_sub_epi32(wide_codes(codes), _mm256_set1_epi32(zero_point));
}

[[gnu::always_inline]] inline void store(std::uint8_t* output, __m256 scaled, const CodeRange& range,
                                         std::size_t left) {
  const __m128i codes = codes_of(difference_of(scaled, range), _mm256_setzero_si256(), range.zero_point);
  store_codes(output, codes, left < lanes ? left : lanes);
}

}  // namespace

void combine_codes(const CodeBinaryTask& task) {
  const __m256 first_multiplier = _mm256_set1_ps(task.first_multiplier);
  const __m256 second_multiplier = _mm256_set1_ps(task.second_multiplier);
  for (std::size_t i = 0; i < task.count; i += lanes) {
    const __m256i first = differences(task.first + i, task.first_zero_point);
    const __m256i second = differences(task.second + i, task.second_zero_point);
    const __m256 result = task.multiplies
                              ? _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_mullo_epi32(first, second)), first_multiplier)
                              : _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(first), first_multiplier),
                                              _mm256_mul_ps(_mm256_cvtepi32_ps(second), second_multiplier));
    store(task.output + i, result, task.range, task.count - i);
  }
}

void average_codes(const CodeMeanTask& task) {
  const auto count = static_cast<std::int32_t>(task.rows.count * task.columns.count);
  // Sums wrap like the reference's: the difference of both is the sum of differences modulo 2^32.
  const __m256i shift = _mm256_mullo_epi32(_mm256_set1_epi32(count), _mm256_set1_epi32(task.input_zero_point));
  for (std::size_t channel = 0; channel < task.channels; channel += lanes) {
    __m256i sum = _mm256_setzero_si256();
    for (std::size_t y = 0; y < task.rows.count; ++y) {
      const std::size_t row = (task.rows.first + y * task.row_step) * task.input_width + task.columns.first;
      for (std::size_t x = 0; x < task.columns.count; ++x)
        sum = _mm256_add_epi32(sum, wide_codes(task.input + (row + x * task.column_step) * task.channels + channel));
    }
    const __m256 mean =
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(sum, shift)), _mm256_set1_ps(task.multiplier));
    store(task.output + channel, mean, task.range, task.channels - channel);
  }
}

void dequantize_codes(const DequantizeTask& task) {
  for (std::size_t i = 0; i < task.count; i += lanes) {
    const std::size_t left = task.count - i;
    const __m256 numbers =
        _mm256_mul_ps(_mm256_cvtepi32_ps(differences(task.input + i, task.zero_point)), _mm256_set1_ps(task.scale));
    _mm256_maskstore_ps(task.output + i, first_lanes(left < lanes ? left : lanes), numbers);
  }
}

}  // namespace podaq::runtime_detail::avx2
