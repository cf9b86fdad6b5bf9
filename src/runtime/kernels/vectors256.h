#pragma once

#include <immintrin.h>

#include "runtime/kernels/tasks.h"

// What the files with 256-bit registers have in common. Nothing here may leave a symbol that the linker could share.
namespace podaq::runtime_detail {

/// Stores the first `count` of 16 codes, and no byte more: others may already be there.
[[gnu::always_inline]] static inline void store_codes(std::uint8_t* output, __m128i codes, std::size_t count) {
  if (count == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output), codes);
    return;
  }
  if ((count & 8U) != 0) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(output), codes);
    codes = _mm_srli_si128(codes, 8);
    output += 8;
  }
  auto bits = static_cast<std::uint64_t>(_mm_cvtsi128_si64(codes));
  for (std::size_t i = 0; i < (count & 7U); ++i, bits >>= 8) output[i] = static_cast<std::uint8_t>(bits);
}

/// The lanes below `count`.
[[gnu::always_inline]] static inline __m256i first_lanes(std::size_t count) {
  const __m256i indices = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), indices);
}

/// Scaled numbers as codes' differences from the zero point; NaN gives 0.
[[gnu::always_inline]] static inline __m256i difference_of(__m256 scaled, const CodeRange& range) {
  const __m256 low = _mm256_set1_ps(static_cast<float>(range.lowest - range.zero_point));
  const __m256 high = _mm256_set1_ps(static_cast<float>(range.highest - range.zero_point));
  const __m256 numbers = _mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q);
  const __m256 limited = _mm256_min_ps(_mm256_max_ps(scaled, low), high);
  return _mm256_cvtps_epi32(_mm256_and_ps(limited, numbers));
}

/// 16 words, of which each half of the register has 4 of the first 8 before 4 of the last 8, as packing two vectors of
/// numbers makes them, to bytes in order.
[[gnu::always_inline]] static inline __m128i bytes_of_words(__m256i words) {
  const __m256i bytes = _mm256_packus_epi16(words, words);
  const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
  return _mm256_castsi256_si128(ordered);
}

/// Two vectors of differences from a zero point, which limits keep within 9 bits, as 16 codes.
[[gnu::always_inline]] static inline __m128i codes_of(__m256i first, __m256i second, std::int32_t zero_point) {
  const __m256i words = _mm256_packs_epi32(first, second);
  return bytes_of_words(_mm256_add_epi16(words, _mm256_set1_epi16(static_cast<short>(zero_point))));
}

/// `x` limited to [minimum, maximum]; both instructions return their second operand where it is NaN, as the reference
/// does.
[[gnu::always_inline]] static inline __m256 bounded(__m256 x, float minimum, float maximum) {
  return _mm256_min_ps(_mm256_set1_ps(maximum), _mm256_max_ps(_mm256_set1_ps(minimum), x));
}

}  // namespace podaq::runtime_detail
