#include <immintrin.h>

#include "runtime/kernels/avx512/depthwise_task.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t vectors = 4;  // of 16 channels each
constexpr std::size_t lanes = 16;
constexpr std::size_t vector_bytes = 64;
constexpr std::size_t quad_rows = 4;

// See quads.cpp.
[[gnu::always_inline]] inline void dot_quads(__m512i& accumulator, __m512i codes, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(accumulator) : "v"(codes), "v"(weights));
}

// 64 channels of up to `depthwise_strip` outputs of a row.
struct Strip {
  std::size_t first_channel = 0;
  __mmask64 channels = 0;
  std::size_t first_position = 0;  ///< Of the output.
  std::size_t count = 0;
  std::size_t row_quads = 0;  ///< Of the kernel.
  const std::int8_t* weights = nullptr;
  __m512i bias[vectors];
  __m512 multipliers[vectors];
};

// Lays the codes of each four kernel rows side by side. Rows that fill up the last four repeat the last one, against
// weights of 0.
void lay_out_columns(const DepthwiseTask& task, const std::uint8_t* input, std::size_t row_quads, std::size_t count) {
  std::uint8_t* laid_out = task.laid_out;
  const std::size_t step = task.dilation_rows * task.row_bytes;
  for (std::size_t column = 0; column < count; ++column, input += task.column_bytes)
    for (std::size_t quad = 0; quad < row_quads; ++quad, laid_out += depthwise_column_bytes) {
      const std::size_t first = quad * quad_rows;
      const std::size_t last = task.kernel_rows - 1;
      const auto row = [&](std::size_t index) __attribute__((always_inline)) {
        return _mm512_loadu_si512(input + (index < last ? index : last) * step);
      };
      const __m512i a = row(first);
      const __m512i b = row(first + 1);
      const __m512i c = row(first + 2);
      const __m512i d = row(first + 3);
      const __m512i ab_low = _mm512_unpacklo_epi8(a, b);
      const __m512i ab_high = _mm512_unpackhi_epi8(a, b);
      const __m512i cd_low = _mm512_unpacklo_epi8(c, d);
      const __m512i cd_high = _mm512_unpackhi_epi8(c, d);
      _mm512_store_si512(laid_out, _mm512_unpacklo_epi16(ab_low, cd_low));
      _mm512_store_si512(laid_out + vector_bytes, _mm512_unpackhi_epi16(ab_low, cd_low));
      _mm512_store_si512(laid_out + 2 * vector_bytes, _mm512_unpacklo_epi16(ab_high, cd_high));
      _mm512_store_si512(laid_out + 3 * vector_bytes, _mm512_unpackhi_epi16(ab_high, cd_high));
    }
}

// Adds the second operand's codes, which come in the sums' order.
[[gnu::always_inline]] inline void add_residual(const DepthwiseTask& task, const Strip& strip, std::size_t position,
                                                __m512 (&scaled)[vectors]) {
  const __m512i codes = _mm512_maskz_loadu_epi8(
      strip.channels, task.residual + position * task.residual_position_stride + strip.first_channel);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i low = _mm512_unpacklo_epi8(codes, zero);
  const __m512i high = _mm512_unpackhi_epi8(codes, zero);
  const __m512i wide[vectors] = {_mm512_unpacklo_epi16(low, zero), _mm512_unpackhi_epi16(low, zero),
                                 _mm512_unpacklo_epi16(high, zero), _mm512_unpackhi_epi16(high, zero)};
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) {
    const __m512i difference = _mm512_sub_epi32(wide[v], _mm512_set1_epi32(task.epilogue.residual_zero_point));
    scaled[v] = _mm512_add_ps(
        scaled[v], _mm512_mul_ps(_mm512_cvtepi32_ps(difference), _mm512_set1_ps(task.epilogue.residual_multiplier)));
  }
}

// The numbers stay within 32 bits, so limiting the codes after rounding is the same as limiting before.
[[gnu::always_inline]] inline void store_codes(const DepthwiseTask& task, const Strip& strip, std::size_t position,
                                               const __m512 (&scaled)[vectors]) {
  const EpilogueTask& e = task.epilogue;
  const __m512i zero_point = _mm512_set1_epi16(static_cast<short>(e.zero_point));
  const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[0]), _mm512_cvtps_epi32(scaled[1]));
  const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[2]), _mm512_cvtps_epi32(scaled[3]));
  const __m512i codes = _mm512_packus_epi16(_mm512_adds_epi16(low, zero_point), _mm512_adds_epi16(high, zero_point));
  const __m512i limited = _mm512_min_epu8(_mm512_max_epu8(codes, _mm512_set1_epi8(static_cast<char>(e.lowest))),
                                          _mm512_set1_epi8(static_cast<char>(e.highest)));
  auto* output = static_cast<std::uint8_t*>(task.output) + position * task.output_position_stride + strip.first_channel;
  _mm512_mask_storeu_epi8(output, strip.channels, limited);
}

void store_floats(const DepthwiseTask& task, const Strip& strip, std::size_t position,
                  const __m512 (&results)[vectors]) {
  alignas(vector_bytes) float ordered[vectors * lanes];
  for (std::size_t v = 0; v < vectors; ++v) {
    // Both instructions return their second operand where it is NaN, as the reference does.
    const __m512 raised = _mm512_max_ps(_mm512_set1_ps(task.epilogue.minimum), results[v]);
    _mm512_store_ps(ordered + v * lanes, _mm512_min_ps(_mm512_set1_ps(task.epilogue.maximum), raised));
  }
  float* output = static_cast<float*>(task.output) + position * task.output_position_stride +
                  strip.first_channel * task.output_channel_stride;
  for (std::size_t channel = 0; channel < depthwise_channels && ((strip.channels >> channel) & 1U) != 0; ++channel)
    output[channel * task.output_channel_stride] = ordered[depthwise_place(channel)];
}

template <bool adds, bool gives_codes>
[[gnu::always_inline]] inline void finish(const DepthwiseTask& task, const Strip& strip, std::size_t position,
                                          const __m512i (&sums)[vectors]) {
  __m512 scaled[vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v)
    scaled[v] = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), strip.multipliers[v]);
  if constexpr (adds) add_residual(task, strip, position, scaled);
  if constexpr (gives_codes)
    store_codes(task, strip, position, scaled);
  else
    store_floats(task, strip, position, scaled);
}

// Three kernel columns of up to four rows, whose weights stay in registers.
template <bool adds, bool gives_codes>
void compute_three_columns(const DepthwiseTask& task, const Strip& strip) {
  constexpr std::size_t columns = 3;
  __m512i weights[columns][vectors];
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t v = 0; v < vectors; ++v)
      weights[column][v] = _mm512_load_si512(strip.weights + (column * vectors + v) * vector_bytes);
  const std::uint8_t* laid_out = task.laid_out;
  const std::size_t dilation = task.dilation_columns * depthwise_column_bytes;
  const std::size_t stride = task.stride_columns * depthwise_column_bytes;
  for (std::size_t i = 0; i < strip.count; ++i, laid_out += stride) {
    __m512i sums[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = strip.bias[v];
#pragma GCC unroll 4
    for (std::size_t column = 0; column < columns; ++column)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v)
        dot_quads(sums[v], _mm512_load_si512(laid_out + column * dilation + v * vector_bytes), weights[column][v]);
    finish<adds, gives_codes>(task, strip, strip.first_position + i, sums);
  }
}

template <bool adds, bool gives_codes>
void compute_columns(const DepthwiseTask& task, const Strip& strip) {
  const std::uint8_t* laid_out = task.laid_out;
  const std::size_t column_bytes = strip.row_quads * depthwise_column_bytes;
  for (std::size_t i = 0; i < strip.count; ++i, laid_out += task.stride_columns * column_bytes) {
    __m512i sums[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = strip.bias[v];
    const std::int8_t* weights = strip.weights;
    for (std::size_t column = 0; column < task.kernel_columns; ++column) {
      const std::uint8_t* quads = laid_out + column * task.dilation_columns * column_bytes;
      for (const std::uint8_t* const end = quads + column_bytes; quads != end;
           quads += depthwise_column_bytes, weights += depthwise_column_bytes)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v)
          dot_quads(sums[v], _mm512_load_si512(quads + v * vector_bytes),
                    _mm512_load_si512(weights + v * vector_bytes));
    }
    finish<adds, gives_codes>(task, strip, strip.first_position + i, sums);
  }
}

template <bool adds, bool gives_codes>
void compute(const DepthwiseTask& task, const Strip& strip) {
  if (task.kernel_columns == 3 && strip.row_quads == 1)
    compute_three_columns<adds, gives_codes>(task, strip);
  else
    compute_columns<adds, gives_codes>(task, strip);
}

void compute_strip(const DepthwiseTask& task, const Strip& strip) {
  const bool adds = task.residual != nullptr;
  if (task.epilogue.gives_codes)
    adds ? compute<true, true>(task, strip) : compute<false, true>(task, strip);
  else
    adds ? compute<true, false>(task, strip) : compute<false, false>(task, strip);
}

Strip first_strip(const DepthwiseTask& task, std::size_t first_channel) {
  const std::size_t left = task.channels - first_channel;
  Strip strip{};
  strip.first_channel = first_channel;
  strip.channels = left >= depthwise_channels ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
  strip.row_quads = (task.kernel_rows + quad_rows - 1) / quad_rows;
  strip.weights = task.weights + first_channel * task.kernel_columns * strip.row_quads * quad_rows;
  for (std::size_t v = 0; v < vectors; ++v) {
    strip.bias[v] = _mm512_loadu_si512(task.bias + first_channel + v * lanes);
    strip.multipliers[v] = _mm512_loadu_ps(task.multipliers + first_channel + v * lanes);
  }
  return strip;
}

}  // namespace

std::size_t depthwise_place(std::size_t channel) {
  return channel / 4 % vectors * lanes + channel / lanes * 4 + channel % 4;
}

void convolve_depthwise(const DepthwiseTask& task) {
  for (std::size_t channel = 0; channel < task.channels; channel += depthwise_channels) {
    Strip strip = first_strip(task, channel);
    for (std::size_t row = 0; row < task.rows; ++row)
      for (std::size_t column = 0; column < task.columns; column += depthwise_strip) {
        const std::size_t left = task.columns - column;
        strip.count = left < depthwise_strip ? left : depthwise_strip;
        strip.first_position = row * task.columns + column;
        const std::uint8_t* input = task.input + row * task.stride_rows * task.row_bytes +
                                    column * task.stride_columns * task.column_bytes + channel;
        lay_out_columns(
            task, input, strip.row_quads,
            (strip.count - 1) * task.stride_columns + (task.kernel_columns - 1) * task.dilation_columns + 1);
        compute_strip(task, strip);
      }
  }
}

}  // namespace podaq::runtime_detail::avx512
