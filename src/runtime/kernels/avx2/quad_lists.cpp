#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/quad_list_loops.h"

namespace podaq::runtime_detail::avx2 {

namespace {

// Neighbouring products are added as 16-bit numbers: packing splits the weights where that could saturate.
struct Dot {
  static constexpr std::size_t most_sums = 8;
  static constexpr std::size_t sums_in_flight = 1;

  [[gnu::always_inline]] static inline void add(__m256i& sums, __m256i codes, __m256i weights) {
    const __m256i pairs = _mm256_maddubs_epi16(codes, weights);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

}  // namespace

void convolve_quad_lists(const QuadListTask& task) {
  quad_lists::compute<Dot>(task);
}

}  // namespace podaq::runtime_detail::avx2
