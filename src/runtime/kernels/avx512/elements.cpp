#include <immintrin.h>

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t vector_bytes = 64;

// 16 codes as differences from a zero point.
[[gnu::always_inline]] inline __m512i differences(const std::uint8_t* codes, __mmask16 mask, std::int32_t zero_point) {
  return _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, codes)), _mm512_set1_epi32(zero_point));
}

// A table of 256 bytes as 128 pairs, in four registers.
struct PairTable {
  __m512i first, second, third, fourth;
};

// The entries for 32 codes, each in the low byte of a word.
[[gnu::always_inline]] inline __m512i look_up(const PairTable& table, __m512i codes) {
  const __m512i pair = _mm512_srli_epi16(codes, 1);
  const __m512i of_low = _mm512_permutex2var_epi16(table.first, pair, table.second);
  const __m512i of_high = _mm512_permutex2var_epi16(table.third, pair, table.fourth);
  const __mmask32 is_high = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x80));
  const __m512i both = _mm512_mask_blend_epi16(is_high, of_low, of_high);
  const __m512i shift = _mm512_slli_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(1)), 3);
  return _mm512_and_si512(_mm512_srlv_epi16(both, shift), _mm512_set1_epi16(0xFF));
}

template <bool multiplies>
void combine(const CodeBinaryTask& task) {
  const __m512 first_multiplier = _mm512_set1_ps(task.first_multiplier);
  const __m512 second_multiplier = _mm512_set1_ps(task.second_multiplier);
  for (std::size_t i = 0; i < task.count; i += lanes) {
    const __mmask16 mask = first_lanes(task.count - i);
    const __m512i first = differences(task.first + i, mask, task.first_zero_point);
    const __m512i second = differences(task.second + i, mask, task.second_zero_point);
    __m512 result;
    if constexpr (multiplies)
      result = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_mullo_epi32(first, second)), first_multiplier);
    else
      result = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(first), first_multiplier),
                             _mm512_mul_ps(_mm512_cvtepi32_ps(second), second_multiplier));
    _mm_mask_storeu_epi8(task.output + i, mask, codes_of(result, task.range));
  }
}

}  // namespace

void map_codes(const TableTask& task) {
  const PairTable table{_mm512_loadu_si512(task.table), _mm512_loadu_si512(task.table + vector_bytes),
                        _mm512_loadu_si512(task.table + 2 * vector_bytes),
                        _mm512_loadu_si512(task.table + 3 * vector_bytes)};
  for (std::size_t i = 0; i < task.count; i += vector_bytes) {
    const std::size_t left = task.count - i;
    const __mmask64 mask = left >= vector_bytes ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i codes = _mm512_maskz_loadu_epi8(mask, task.input + i);
    const __m512i even = look_up(table, _mm512_and_si512(codes, _mm512_set1_epi16(0xFF)));
    const __m512i odd = look_up(table, _mm512_srli_epi16(codes, 8));
    _mm512_mask_storeu_epi8(task.output + i, mask, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
  }
}

void combine_codes(const CodeBinaryTask& task) {
  if (task.multiplies)
    combine<true>(task);
  else
    combine<false>(task);
}

void average_codes(const CodeMeanTask& task) {
  const auto count = static_cast<std::int32_t>(task.rows.count * task.columns.count);
  // Sums wrap like the reference's: the difference of both is the sum of differences modulo 2^32.
  const __m512i shift = _mm512_mullo_epi32(_mm512_set1_epi32(count), _mm512_set1_epi32(task.input_zero_point));
  for (std::size_t channel = 0; channel < task.channels; channel += lanes) {
    const __mmask16 mask = first_lanes(task.channels - channel);
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t y = 0; y < task.rows.count; ++y) {
      const std::size_t row = (task.rows.first + y * task.row_step) * task.input_width + task.columns.first;
      for (std::size_t x = 0; x < task.columns.count; ++x) {
        const std::uint8_t* codes = task.input + (row + x * task.column_step) * task.channels + channel;
        sum = _mm512_add_epi32(sum, _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, codes)));
      }
    }
    const __m512 mean =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, shift)), _mm512_set1_ps(task.multiplier));
    _mm_mask_storeu_epi8(task.output + channel, mask, codes_of(mean, task.range));
  }
}

void dequantize_codes(const DequantizeTask& task) {
  for (std::size_t i = 0; i < task.count; i += lanes) {
    const __mmask16 mask = first_lanes(task.count - i);
    const __m512 numbers = _mm512_cvtepi32_ps(differences(task.input + i, mask, task.zero_point));
    _mm512_mask_storeu_ps(task.output + i, mask, _mm512_mul_ps(numbers, _mm512_set1_ps(task.scale)));
  }
}

}  // namespace podaq::runtime_detail::avx512
