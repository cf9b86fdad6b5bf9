#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/tasks.h"

// What the files with 512-bit registers have in common. Nothing here may leave a symbol that the linker could share.
namespace podaq::runtime_detail {

/// The lanes of 32 bits below `count`.
[[gnu::always_inline]] static inline __mmask16 first_lanes(std::size_t count) {
  return count >= 16 ? __mmask16{0xFFFF} : static_cast<__mmask16>((1U << count) - 1U);
}

/// The bytes below `count`.
[[gnu::always_inline]] static inline __mmask64 first_bytes(std::size_t count) {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

/// 16 scaled numbers as codes; NaN gives the zero point.
/// @param range  Anything with `zero_point`, `lowest` and `highest`.
template <typename Range>
[[gnu::always_inline]] static inline __m128i codes_of(__m512 scaled, const Range& range) {
  const __mmask16 numbers = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);
  const __m512 low = _mm512_set1_ps(static_cast<float>(range.lowest - range.zero_point));
  const __m512 high = _mm512_set1_ps(static_cast<float>(range.highest - range.zero_point));
  const __m512 limited = _mm512_maskz_min_ps(numbers, _mm512_max_ps(scaled, low), high);
  return _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(limited), _mm512_set1_epi32(range.zero_point)));
}

/// `numbers` limited to [minimum, maximum]; both instructions return their second operand where it is NaN, as the
/// reference does.
[[gnu::always_inline]] static inline __m512 bounded(__m512 numbers, float minimum, float maximum) {
  return _mm512_min_ps(_mm512_set1_ps(maximum), _mm512_max_ps(_mm512_set1_ps(minimum), numbers));
}

/// 16 codes of an epilogue's second operand, those of `mask`, as what they add to the scaled sums.
[[gnu::always_inline]] static inline __m512 residual_of(const EpilogueTask& epilogue, const std::uint8_t* codes,
                                                        __mmask16 mask) {
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, codes));
  const __m512i difference = _mm512_sub_epi32(wide, _mm512_set1_epi32(epilogue.residual_zero_point));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(difference), _mm512_set1_ps(epilogue.residual_multiplier));
}

}  // namespace podaq::runtime_detail
