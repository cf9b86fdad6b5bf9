#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/vectors512.h"

// The vector operations of the sparse convolution, for panels of 64 positions, of 32 and of 4.
namespace podaq::runtime_detail::avx512 {

/// 64 bytes: 64 codes or 16 sums.
struct WideVector {
  using Integers = __m512i;
  using Floats = __m512;
  static constexpr std::size_t positions = 64;
  static constexpr std::size_t sum_vectors = 4;  ///< That hold the sums of these positions.
  static constexpr std::size_t lanes = 4;        ///< Of 16 bytes, which unpacking and packing keep apart.

  [[gnu::always_inline]] static __mmask64 first(std::size_t count) { return first_bytes(count); }
  // g++ 12 would load the same codes a second time as an operand of each instruction that uses them.
  [[gnu::always_inline]] static Integers load(const std::uint8_t* codes) {
    __m512i loaded;
    asm("vmovdqu64 %1, %0" : "=v"(loaded) : "m"(*reinterpret_cast<const __m512i_u*>(codes)));
    return loaded;
  }
  [[gnu::always_inline]] static Integers load(const std::uint8_t* codes, std::size_t count) {
    return _mm512_maskz_loadu_epi8(first(count), codes);
  }
  [[gnu::always_inline]] static void store(std::uint8_t* codes, std::size_t count, Integers stored) {
    if (count == positions)
      _mm512_storeu_si512(codes, stored);
    else
      _mm512_mask_storeu_epi8(codes, first(count), stored);
  }
  [[gnu::always_inline]] static void store(float* results, Floats stored) { _mm512_store_ps(results, stored); }
  [[gnu::always_inline]] static Integers zero() { return _mm512_setzero_si512(); }
  [[gnu::always_inline]] static Integers words(std::int32_t word) { return _mm512_set1_epi32(word); }
  [[gnu::always_inline]] static Integers half_words(int half_word) {
    return _mm512_set1_epi16(static_cast<short>(half_word));
  }
  [[gnu::always_inline]] static Integers codes(int code) { return _mm512_set1_epi8(static_cast<char>(code)); }
  [[gnu::always_inline]] static Floats floats(float number) { return _mm512_set1_ps(number); }
  [[gnu::always_inline]] static Integers unpack_low_bytes(Integers a, Integers b) { return _mm512_unpacklo_epi8(a, b); }
  [[gnu::always_inline]] static Integers unpack_high_bytes(Integers a, Integers b) {
    return _mm512_unpackhi_epi8(a, b);
  }
  [[gnu::always_inline]] static Integers unpack_low_half_words(Integers a, Integers b) {
    return _mm512_unpacklo_epi16(a, b);
  }
  [[gnu::always_inline]] static Integers unpack_high_half_words(Integers a, Integers b) {
    return _mm512_unpackhi_epi16(a, b);
  }
  [[gnu::always_inline]] static Integers pack_words(Integers a, Integers b) { return _mm512_packs_epi32(a, b); }
  [[gnu::always_inline]] static Integers pack_half_words(Integers a, Integers b) { return _mm512_packus_epi16(a, b); }
  [[gnu::always_inline]] static Integers subtract_words(Integers a, Integers b) { return _mm512_sub_epi32(a, b); }
  [[gnu::always_inline]] static Integers add_half_words(Integers a, Integers b) { return _mm512_adds_epi16(a, b); }
  [[gnu::always_inline]] static Integers add_codes(Integers a, Integers b) { return _mm512_adds_epu8(a, b); }
  [[gnu::always_inline]] static Integers limit_codes(Integers codes, Integers lowest, Integers highest) {
    return _mm512_min_epu8(_mm512_max_epu8(codes, lowest), highest);
  }
  [[gnu::always_inline]] static Floats to_floats(Integers words) { return _mm512_cvtepi32_ps(words); }
  [[gnu::always_inline]] static Floats as_floats(Integers words) { return _mm512_castsi512_ps(words); }
  [[gnu::always_inline]] static Integers round(Floats numbers) { return _mm512_cvtps_epi32(numbers); }
  [[gnu::always_inline]] static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  [[gnu::always_inline]] static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  // Both instructions return their second operand where it is NaN, as the reference does.
  [[gnu::always_inline]] static Floats limit(Floats numbers, Floats minimum, Floats maximum) {
    return _mm512_min_ps(maximum, _mm512_max_ps(minimum, numbers));
  }
};

/// 32 bytes: codes of up to 32 positions, or 8 sums. Of 4 positions, only the first 4 codes and sums matter.
template <std::size_t most_positions>
struct HalfVector {
  using Integers = __m256i;
  using Floats = __m256;
  static constexpr std::size_t positions = most_positions;
  static constexpr std::size_t sum_vectors = positions == 4 ? 1 : 4;
  static constexpr std::size_t lanes = 2;

  [[gnu::always_inline]] static __mmask32 first(std::size_t count) {
    return static_cast<__mmask32>(first_bytes(count));
  }
  [[gnu::always_inline]] static Integers load(const std::uint8_t* codes) {
    if constexpr (positions == 4) return _mm256_zextsi128_si256(_mm_loadu_si32(codes));
    __m256i loaded;
    asm("vmovdqu64 %1, %0" : "=v"(loaded) : "m"(*reinterpret_cast<const __m256i_u*>(codes)));
    return loaded;
  }
  [[gnu::always_inline]] static Integers load(const std::uint8_t* codes, std::size_t count) {
    return _mm256_maskz_loadu_epi8(first(count), codes);
  }
  [[gnu::always_inline]] static void store(std::uint8_t* codes, std::size_t count, Integers stored) {
    _mm256_mask_storeu_epi8(codes, first(count), stored);
  }
  [[gnu::always_inline]] static void store(float* results, Floats stored) { _mm256_store_ps(results, stored); }
  [[gnu::always_inline]] static Integers zero() { return _mm256_setzero_si256(); }
  [[gnu::always_inline]] static Integers words(std::int32_t word) { return _mm256_set1_epi32(word); }
  [[gnu::always_inline]] static Integers half_words(int half_word) {
    return _mm256_set1_epi16(static_cast<short>(half_word));
  }
  [[gnu::always_inline]] static Integers codes(int code) { return _mm256_set1_epi8(static_cast<char>(code)); }
  [[gnu::always_inline]] static Floats floats(float number) { return _mm256_set1_ps(number); }
  [[gnu::always_inline]] static Integers unpack_low_bytes(Integers a, Integers b) { return _mm256_unpacklo_epi8(a, b); }
  [[gnu::always_inline]] static Integers unpack_high_bytes(Integers a, Integers b) {
    return _mm256_unpackhi_epi8(a, b);
  }
  [[gnu::always_inline]] static Integers unpack_low_half_words(Integers a, Integers b) {
    return _mm256_unpacklo_epi16(a, b);
  }
  [[gnu::always_inline]] static Integers unpack_high_half_words(Integers a, Integers b) {
    return _mm256_unpackhi_epi16(a, b);
  }
  [[gnu::always_inline]] static Integers pack_words(Integers a, Integers b) { return _mm256_packs_epi32(a, b); }
  [[gnu::always_inline]] static Integers pack_half_words(Integers a, Integers b) { return _mm256_packus_epi16(a, b); }
  [[gnu::always_inline]] static Integers subtract_words(Integers a, Integers b) { return _mm256_sub_epi32(a, b); }
  [[gnu::always_inline]] static Integers add_half_words(Integers a, Integers b) { return _mm256_adds_epi16(a, b); }
  [[gnu::always_inline]] static Integers add_codes(Integers a, Integers b) { return _mm256_adds_epu8(a, b); }
  [[gnu::always_inline]] static Integers limit_codes(Integers codes, Integers lowest, Integers highest) {
    return _mm256_min_epu8(_mm256_max_epu8(codes, lowest), highest);
  }
  [[gnu::always_inline]] static Floats to_floats(Integers words) { return _mm256_cvtepi32_ps(words); }
  [[gnu::always_inline]] static Floats as_floats(Integers words) { return _mm256_castsi256_ps(words); }
  [[gnu::always_inline]] static Integers round(Floats numbers) { return _mm256_cvtps_epi32(numbers); }
  [[gnu::always_inline]] static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  [[gnu::always_inline]] static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  // AVX-512 alone promises no 256-bit form.
  [[gnu::always_inline]] static Floats multiply_add(Floats a, Floats b, Floats c) {
    return _mm512_castps512_ps256(
        _mm512_fmadd_ps(_mm512_castps256_ps512(a), _mm512_castps256_ps512(b), _mm512_castps256_ps512(c)));
  }
  [[gnu::always_inline]] static Floats limit(Floats numbers, Floats minimum, Floats maximum) {
    return _mm256_min_ps(maximum, _mm256_max_ps(minimum, numbers));
  }
};

using NarrowVector = HalfVector<32>;
using FewVector = HalfVector<4>;

}  // namespace podaq::runtime_detail::avx512
