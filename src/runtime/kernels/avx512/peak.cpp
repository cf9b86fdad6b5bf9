#include "runtime/kernels/peak.h"

#include <immintrin.h>

namespace podaq::runtime_detail::avx512 {

std::uint64_t multiply_at_peak(std::size_t rounds) {
  constexpr std::size_t accumulators = 16;  // more than two units with a latency of five cycles need
  constexpr std::uint64_t products = 64;    // of one instruction
  __m512i sums[accumulators];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < accumulators; ++i) sums[i] = _mm512_setzero_si512();
  const __m512i codes = _mm512_set1_epi8(1);
  for (std::size_t round = 0; round < rounds; ++round)
#pragma GCC unroll 16
    for (std::size_t i = 0; i < accumulators; ++i) asm volatile("vpdpbusd %1, %1, %0" : "+v"(sums[i]) : "v"(codes));
  return rounds * accumulators * products;
}

}  // namespace podaq::runtime_detail::avx512
