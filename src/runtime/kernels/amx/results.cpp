#include <immintrin.h>

#include "runtime/kernels/amx/strips.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::amx {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t most_vectors = block_outputs / lanes;
constexpr std::size_t vector_bytes = 64;

// Results to be stored side by side: the window of result i starts at row i * step of the accumulators.
struct Segment {
  const std::int32_t* accumulators = nullptr;
  std::size_t step = 1;
  std::size_t count = 0;
  std::size_t first_result = 0;
};

// The windows of a maximum: the two common ones have their code spelled out.
enum class Pooling { none, pair, square, any };

// The largest sums of a window, for 16 channels.
template <Pooling pooling>
[[gnu::always_inline]] inline __m512i window_sums(const TileTask& task, const std::int32_t* sums) {
  const auto at = [&](std::size_t row, std::size_t column) __attribute__((always_inline)) {
    return _mm512_load_si512(sums + (row * task.pitch + column) * block_outputs);
  };
  if constexpr (pooling == Pooling::none) return at(0, 0);
  if constexpr (pooling == Pooling::pair) return _mm512_max_epi32(at(0, 0), at(0, 1));
  if constexpr (pooling == Pooling::square)
    return _mm512_max_epi32(_mm512_max_epi32(at(0, 0), at(0, 1)), _mm512_max_epi32(at(1, 0), at(1, 1)));
  __m512i largest = at(0, 0);
  for (std::size_t row = 0; row < task.pool_rows; ++row)
    for (std::size_t column = 0; column < task.pool_columns; ++column)
      largest = _mm512_max_epi32(largest, at(row, column));
  return largest;
}

// 64 rounded numbers to codes: saturation does what a clamp to int16 and to [0, 255] would. Packing works within
// quarters of a register, so the result is put in order at the end.
[[gnu::always_inline]] inline __m512i codes_of(const __m512i (&rounded)[most_vectors], const EpilogueTask& e) {
  const __m512i zero_point = _mm512_set1_epi16(static_cast<short>(e.zero_point));
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[1]), zero_point);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[3]), zero_point);
  const __m512i codes = _mm512_packus_epi16(low, high);
  const __m512i limited = _mm512_min_epu8(_mm512_max_epu8(codes, _mm512_set1_epi8(static_cast<char>(e.lowest))),
                                          _mm512_set1_epi8(static_cast<char>(e.highest)));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, limited);
}

// Stores results as codes; where a position's channels fill a part of a register and positions lie side by side,
// several positions at once.
template <std::size_t vectors, bool adds, Pooling pooling>
void store_codes(const TileTask& task, const Block& block, const Segment& segment) {
  const bool side_by_side = block.outputs == vectors * lanes && task.output_position_stride == block.outputs;
  const std::size_t at_once = side_by_side ? most_vectors / vectors : 1;
  __m512 multipliers[vectors];
  for (std::size_t v = 0; v < vectors; ++v)
    multipliers[v] =
        v < block.vectors ? _mm512_loadu_ps(task.multipliers + block.first_output + v * lanes) : _mm512_setzero_ps();
  auto* output =
      static_cast<std::uint8_t*>(task.output) + segment.first_result * task.output_position_stride + block.first_output;
  const std::uint8_t* residual = nullptr;
  if constexpr (adds)
    residual = task.residual + segment.first_result * task.residual_position_stride + block.first_output;
  for (std::size_t i = 0; i < segment.count; i += at_once) {
    __m512i rounded[most_vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < most_vectors; ++v) {
      const std::size_t result = i + v / vectors;
      const std::size_t channel = v % vectors * lanes;
      const __m512i sums = window_sums<pooling>(
          task, segment.accumulators + (v / vectors < at_once ? result : i) * segment.step * block_outputs + channel);
      __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), multipliers[v % vectors]);
      if constexpr (adds) {
        const bool exists = channel < block.outputs && result < segment.count && v / vectors < at_once;
        const __mmask16 mask = exists ? first_lanes(block.outputs - channel) : __mmask16{0};
        scaled = _mm512_add_ps(
            scaled, residual_of(task.epilogue, residual + result * task.residual_position_stride + channel, mask));
      }
      rounded[v] = _mm512_cvtps_epi32(scaled);
    }
    const std::size_t left = segment.count - i;
    const std::size_t results = left < at_once ? left : at_once;
    _mm512_mask_storeu_epi8(output + i * task.output_position_stride, first_bytes(results * block.outputs),
                            codes_of(rounded, task.epilogue));
  }
}

template <bool adds>
void store_floats(const TileTask& task, const Block& block, const Segment& segment) {
  const EpilogueTask& e = task.epilogue;
  for (std::size_t i = 0; i < segment.count; ++i)
    for (std::size_t v = 0; v < block.vectors; ++v) {
      const std::size_t channel = block.first_output + v * lanes;
      const std::size_t result = segment.first_result + i;
      const __mmask16 mask = first_lanes(block.outputs - v * lanes);
      const __m512i sums =
          window_sums<Pooling::any>(task, segment.accumulators + i * segment.step * block_outputs + v * lanes);
      __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(task.multipliers + channel));
      if constexpr (adds)
        scaled = _mm512_add_ps(scaled,
                               residual_of(e, task.residual + result * task.residual_position_stride + channel, mask));
      // Both instructions return their second operand where it is NaN, as the reference does.
      const __m512 raised = _mm512_max_ps(_mm512_set1_ps(e.minimum), scaled);
      const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(e.maximum), raised);
      float* output = static_cast<float*>(task.output) + result * task.output_position_stride +
                      channel * task.output_channel_stride;
      if (task.output_channel_stride == 1) {
        _mm512_mask_storeu_ps(output, mask, bounded);
        continue;
      }
      alignas(vector_bytes) float row[lanes];
      _mm512_store_ps(row, bounded);
      for (std::size_t lane = 0; lane < lanes; ++lane)
        if ((mask >> lane) & 1U) output[lane * task.output_channel_stride] = row[lane];
    }
}

template <bool adds, Pooling pooling>
void store_codes_of(const TileTask& task, const Block& block, const Segment& segment) {
  if (block.vectors == 1)
    store_codes<1, adds, pooling>(task, block, segment);
  else if (block.vectors == 2)
    store_codes<2, adds, pooling>(task, block, segment);
  else
    store_codes<4, adds, pooling>(task, block, segment);
}

void store_segment(const TileTask& task, const Block& block, const Segment& segment) {
  const bool adds = task.residual != nullptr;
  if (!task.epilogue.gives_codes)
    adds ? store_floats<true>(task, block, segment) : store_floats<false>(task, block, segment);
  else if (adds)
    store_codes_of<true, Pooling::none>(task, block, segment);
  else if (!pools(task))
    store_codes_of<false, Pooling::none>(task, block, segment);
  else if (task.pool_rows == 1 && task.pool_columns == 2)
    store_codes_of<false, Pooling::pair>(task, block, segment);
  else if (task.pool_rows == 2 && task.pool_columns == 2)
    store_codes_of<false, Pooling::square>(task, block, segment);
  else
    store_codes_of<false, Pooling::any>(task, block, segment);
}

}  // namespace

bool pools(const TileTask& task) {
  return task.pool_rows * task.pool_columns > 1;
}

void store_strip(const TileTask& task, const Block& block, const Strip& strip, std::size_t first, std::size_t count) {
  const std::size_t end = first + count;
  const auto sums_at = [&](std::size_t position) {
    return strip.accumulators + (position - strip.first) * block_outputs;
  };
  if (pools(task)) {
    const std::size_t results_per_row = task.columns / task.pool_columns;
    const std::size_t row = first / task.pitch;
    const std::size_t column = first - row * task.pitch;
    store_segment(task, block,
                  {.accumulators = sums_at(first),
                   .step = task.pool_columns,
                   .count = (task.rows == 1 ? count : task.columns) / task.pool_columns,
                   .first_result = row / task.pool_rows * results_per_row + column / task.pool_columns});
    return;
  }
  std::size_t row = first / task.pitch;
  while (first < end) {
    const std::size_t row_start = row * task.pitch;
    const std::size_t row_end = row_start + task.columns;
    const std::size_t stop = row_end < end ? row_end : end;
    if (first < stop)
      store_segment(task, block,
                    {.accumulators = sums_at(first),
                     .step = 1,
                     .count = stop - first,
                     .first_result = row * task.columns + first - row_start});
    first = row_start + task.pitch;
    ++row;
  }
}

}  // namespace podaq::runtime_detail::amx
