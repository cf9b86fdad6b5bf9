#include <immintrin.h>

#include "runtime/kernels/avx512/sparse_tasks.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t lanes = 8;

// The number of bits set in each of 8 words, by halves of bytes: not every CPU with VNNI counts bits of vectors.
[[gnu::always_inline]] inline __m512i count_bits(__m512i words) {
  const __m512i counts = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m512i half = _mm512_set1_epi8(15);
  const __m512i low = _mm512_shuffle_epi8(counts, _mm512_and_si512(words, half));
  const __m512i high = _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi64(words, 4), half));
  return _mm512_sad_epu8(_mm512_add_epi8(low, high), _mm512_setzero_si512());
}

}  // namespace

Partner best_partner(const PartnerTask& task) {
  const __m512i own = _mm512_set1_epi64(static_cast<long long>(task.open[task.column]));
  const __m512i step = _mm512_set1_epi64(lanes);
  __m512i index = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  __m512i best = _mm512_setzero_si512();
  __m512i best_index = _mm512_setzero_si512();
  const __m512i self = _mm512_set1_epi64(task.column);
  for (std::size_t first = 0; first < task.columns; first += lanes) {
    const std::size_t left = task.columns - first;
    const auto in_range = static_cast<__mmask8>(left >= lanes ? 0xFFU : (1U << left) - 1U);
    const __m512i shared = _mm512_and_si512(own, _mm512_maskz_loadu_epi64(in_range, task.open + first));
    const __m512i gains =
        _mm512_sub_epi64(count_bits(shared), _mm512_maskz_loadu_epi64(in_range, task.laid_out + first));
    const __mmask8 better = _mm512_mask_cmpgt_epi64_mask(_mm512_cmpneq_epi64_mask(index, self), gains, best);
    best = _mm512_mask_mov_epi64(best, better, gains);
    best_index = _mm512_mask_mov_epi64(best_index, better, index);
    index = _mm512_add_epi64(index, step);
  }
  // The first of the best columns.
  const long long most = _mm512_reduce_max_epi64(best);
  const __mmask8 ties = _mm512_cmpeq_epi64_mask(best, _mm512_set1_epi64(most));
  const long long column = _mm512_mask_reduce_min_epi64(ties, best_index);
  return {.column = static_cast<std::uint32_t>(column),
          .gain = static_cast<int>(most) - static_cast<int>(task.laid_out[task.column])};
}

}  // namespace podaq::runtime_detail::avx512
