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

// Codes and weights of 16 bits: more instructions, but any weights.
struct WideDot {
  static constexpr std::size_t most_sums = 12;
  static constexpr std::size_t sums_in_flight = 1;

  [[gnu::always_inline]] static inline void add(__m256i& sums, __m256i codes, __m256i weights) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(codes, weights));
  }
};

}  // namespace

void convolve_quad_lists(const QuadListTask& task) {
  QuadTask wide = task.conv;
  wide.input = reinterpret_cast<const std::uint8_t*>(task.wide_input);
  wide.row_stride *= sizeof(std::int16_t);
  wide.column_stride *= sizeof(std::int16_t);
  quad_lists::for_each_block(task,
                             [&](const QuadBlock& block, const std::uint32_t* offsets, const std::int8_t* weights) {
                               if (block.is_wide)
                                 quad_lists::compute_any_block<WideDot>(wide, block, offsets, weights);
                               else
                                 quad_lists::compute_any_block<Dot>(task.conv, block, offsets, weights);
                             });
}

void widen_codes(const WidenTask& task) {
  constexpr std::size_t step = 16;
  std::size_t i = 0;
  for (; i + step <= task.count; i += step) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(task.input + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(task.output + i), _mm256_cvtepu8_epi16(codes));
  }
  for (; i < task.count; ++i) task.output[i] = task.input[i];
}

}  // namespace podaq::runtime_detail::avx2
