#include "runtime/kernels/avxvnni/tasks.h"
#include "runtime/kernels/quad_list_loops.h"

namespace podaq::runtime_detail::avxvnni {

namespace {

struct Dot {
  static constexpr std::size_t most_sums = 12;
  static constexpr std::size_t sums_in_flight = 10;

  // g++ 12 spills accumulators around _mm256_dpbusd_avx_epi32; it keeps the operands of a one-line asm in registers.
  [[gnu::always_inline]] static inline void add(__m256i& sums, __m256i codes, __m256i weights) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(codes), "x"(weights));
  }
};

}  // namespace

void convolve_quad_lists(const QuadListTask& task) {
  quad_lists::for_each_block(task,
                             [&](const QuadBlock& block, const std::uint32_t* offsets, const std::int8_t* weights) {
                               quad_lists::compute_any_block<Dot>(task.conv, block, offsets, weights);
                             });
}

}  // namespace podaq::runtime_detail::avxvnni
