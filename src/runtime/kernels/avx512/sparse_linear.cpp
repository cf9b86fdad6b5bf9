#include <immintrin.h>

#include "runtime/kernels/avx512/sparse_linear_task.h"

namespace podaq::runtime_detail::avx512 {

namespace {

// See quads.cpp.
[[gnu::always_inline]] inline void dot_quads(__m512i& accumulator, __m512i codes, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(accumulator) : "v"(codes), "v"(weights));
}

// Weights are read once, so a layer that is in no near cache runs at the speed of its stream: the CPU's own prefetchers
// stay too close to it.
constexpr std::size_t prefetch_distance = 2048;

// Where the streams of steps have been read to.
struct Cursor {
  const std::uint8_t* slots = nullptr;
  const std::uint16_t* starts = nullptr;
};

template <std::size_t samples>
[[gnu::always_inline]] inline void add_step(const std::uint8_t* input, std::size_t sample_bytes, const Cursor& cursor,
                                            __m512i (&sums)[samples]) {
  _mm_prefetch(reinterpret_cast<const char*>(cursor.slots + prefetch_distance), _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char*>(cursor.slots + prefetch_distance + step_slots), _MM_HINT_T0);
  const __m512i places = _mm512_load_si512(cursor.slots);
  const __m512i weights = _mm512_load_si512(cursor.slots + step_slots);
  const std::uint8_t* window = input + *cursor.starts;
#pragma GCC unroll 4
  for (std::size_t sample = 0; sample < samples; ++sample, window += sample_bytes)
    dot_quads(sums[sample],
              _mm512_permutex2var_epi8(_mm512_loadu_si512(window), places, _mm512_loadu_si512(window + step_slots)),
              weights);
}

// Computes a block of 16 output channels for `samples` samples. A single sample has two sums, so that one need not wait
// for the other.
template <std::size_t samples>
void compute_block(const SparseLinearTask& task, std::size_t block, std::size_t first_sample, Cursor cursor) {
  const std::uint8_t* input = task.input + first_sample * task.sample_bytes;
  const __m512i bias = _mm512_loadu_si512(task.bias + block * sparse_lanes);
  __m512i sums[samples];
  __m512i others[samples];
#pragma GCC unroll 4
  for (std::size_t sample = 0; sample < samples; ++sample) {
    sums[sample] = bias;
    others[sample] = _mm512_setzero_si512();
  }
  std::size_t left = task.steps[block];
  for (; left >= 2; left -= 2, cursor.slots += 2 * step_bytes, cursor.starts += 2) {
    add_step<samples>(input, task.sample_bytes, cursor, sums);
    add_step<samples>(input, task.sample_bytes, {.slots = cursor.slots + step_bytes, .starts = cursor.starts + 1},
                      others);
  }
  if (left > 0) add_step<samples>(input, task.sample_bytes, cursor, sums);
  const __m512i outputs = _mm512_loadu_si512(task.outputs + block * sparse_lanes);
  std::int32_t* row = task.sums + first_sample * task.sums_stride;
#pragma GCC unroll 4
  for (std::size_t sample = 0; sample < samples; ++sample, row += task.sums_stride)
    _mm512_i32scatter_epi32(row, outputs, _mm512_add_epi32(sums[sample], others[sample]), sizeof(std::int32_t));
}

}  // namespace

void multiply_sparse(const SparseLinearTask& task) {
  Cursor cursor{.slots = task.slots, .starts = task.starts};
  for (std::size_t block = 0; block < task.blocks; ++block) {
    std::size_t sample = 0;
    for (; sample + 4 <= task.samples; sample += 4) compute_block<4>(task, block, sample, cursor);
    for (; sample + 2 <= task.samples; sample += 2) compute_block<2>(task, block, sample, cursor);
    for (; sample < task.samples; ++sample) compute_block<1>(task, block, sample, cursor);
    cursor.slots += task.steps[block] * step_bytes;
    cursor.starts += task.steps[block];
  }
}

}  // namespace podaq::runtime_detail::avx512
