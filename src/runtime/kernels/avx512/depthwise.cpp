#include <immintrin.h>

#include "runtime/kernels/avx512/depthwise_task.h"
#include "runtime/kernels/vectors512.h"

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

// Up to 64 channels of up to `depthwise_strip` outputs of a row.
struct Strip {
  std::size_t first_channel = 0;
  std::size_t row = 0, column = 0;  ///< Of the first output.
  std::size_t vectors = 0;
  __mmask64 lanes = 0, last_lanes = 0;  ///< That are used, of all vectors and of the last.
  std::size_t row_quads = 0;            ///< Of the kernel.
  const std::int8_t* weights = nullptr;
  const std::int32_t* bias = nullptr;
  const float* multipliers = nullptr;
};

// What all outputs of a strip share, in registers: stores of codes could otherwise change it, as far as the compiler
// knows.
struct Shared {
  __m512i bias[vectors];
  __m512 multipliers[vectors];
  __m512i zero_point, lowest, highest;
  __m512i residual_zero_point;
  __m512 residual_multiplier, minimum, maximum;
};

[[gnu::always_inline]] inline Shared shared_by_outputs(const DepthwiseTask& task, const Strip& strip) {
  const EpilogueTask& e = task.epilogue;
  Shared shared;
  for (std::size_t v = 0; v < vectors; ++v) {
    shared.bias[v] = _mm512_loadu_si512(strip.bias + v * lanes);
    shared.multipliers[v] = _mm512_loadu_ps(strip.multipliers + v * lanes);
  }
  shared.zero_point = _mm512_set1_epi16(static_cast<short>(e.zero_point));
  shared.lowest = _mm512_set1_epi8(static_cast<char>(e.lowest));
  shared.highest = _mm512_set1_epi8(static_cast<char>(e.highest));
  shared.residual_zero_point = _mm512_set1_epi32(e.residual_zero_point);
  shared.residual_multiplier = _mm512_set1_ps(e.residual_multiplier);
  shared.minimum = _mm512_set1_ps(e.minimum);
  shared.maximum = _mm512_set1_ps(e.maximum);
  return shared;
}

// Four input rows, or lines of border where they lie outside.
struct RowQuad {
  const std::uint8_t* rows[quad_rows];  ///< At column 0.
  std::size_t column_bytes[quad_rows];  ///< Between neighbouring columns; 0 for a border.
};

// Rows that fill up the last four repeat the last one, against weights of 0.
RowQuad find_rows(const DepthwiseTask& task, const Strip& strip, std::size_t quad, const std::uint8_t* border) {
  RowQuad found;
  for (std::size_t i = 0; i < quad_rows; ++i) {
    const std::size_t index = quad * quad_rows + i;
    const std::size_t tap = index < task.kernel_rows ? index : task.kernel_rows - 1;
    const std::size_t padded = strip.row * task.stride_rows + tap * task.dilation_rows;
    const bool is_inside = padded >= task.pad_rows && padded - task.pad_rows < task.input_rows;
    found.column_bytes[i] = is_inside ? task.channels : 0;
    found.rows[i] =
        is_inside ? task.input + (padded - task.pad_rows) * task.input_columns * task.channels + strip.first_channel
                  : border;
  }
  return found;
}

[[gnu::always_inline]] inline void store_quads(std::uint8_t* laid_out, __m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab_low = _mm512_unpacklo_epi8(a, b);
  const __m512i ab_high = _mm512_unpackhi_epi8(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi8(c, d);
  const __m512i cd_high = _mm512_unpackhi_epi8(c, d);
  _mm512_store_si512(laid_out, _mm512_unpacklo_epi16(ab_low, cd_low));
  _mm512_store_si512(laid_out + vector_bytes, _mm512_unpackhi_epi16(ab_low, cd_low));
  _mm512_store_si512(laid_out + 2 * vector_bytes, _mm512_unpacklo_epi16(ab_high, cd_high));
  _mm512_store_si512(laid_out + 3 * vector_bytes, _mm512_unpackhi_epi16(ab_high, cd_high));
}

// The lanes of a vector that starts at an input column, counted with the border, that lie inside the input's row.
__mmask64 inside_row(const DepthwiseTask& task, std::size_t padded) {
  const auto below = [&](std::size_t column) -> __mmask64 {
    if (column <= padded) return 0;
    return first_bytes((column - padded) * task.channels);
  };
  const __mmask64 before_end = below(task.pad_columns + task.input_columns);
  if (task.together == 1) return padded >= task.pad_columns && before_end != 0 ? ~__mmask64{0} : 0;
  return before_end & ~below(task.pad_columns);
}

// Lays the codes of each four kernel rows side by side, for all columns that a strip reaches.
void lay_out_columns(const DepthwiseTask& task, const Strip& strip, std::size_t count) {
  alignas(vector_bytes) std::uint8_t border_line[vector_bytes];
  const __m512i border = _mm512_set1_epi8(static_cast<char>(task.outside));
  _mm512_store_si512(border_line, border);
  const std::size_t first = strip.column * task.stride_columns;
  const std::size_t step = strip.row_quads * depthwise_column_bytes;
  for (std::size_t quad = 0; quad < strip.row_quads; ++quad) {
    const RowQuad rows = find_rows(task, strip, quad, border_line);
    std::uint8_t* laid_out = task.laid_out + quad * depthwise_column_bytes;
    const auto row_at = [&](std::size_t row, std::size_t padded) __attribute__((always_inline)) {
      const auto column = static_cast<std::ptrdiff_t>(padded) - static_cast<std::ptrdiff_t>(task.pad_columns);
      return rows.rows[row] + column * static_cast<std::ptrdiff_t>(rows.column_bytes[row]);
    };
    std::size_t padded = first;
    const auto lay_out_edge = [&](std::size_t end) __attribute__((always_inline)) {
      for (; padded < end; ++padded, laid_out += step) {
        const __mmask64 inside = inside_row(task, padded);
        const auto load = [&](std::size_t row) __attribute__((always_inline)) {
          return _mm512_mask_loadu_epi8(border, inside, row_at(row, padded));
        };
        store_quads(laid_out, load(0), load(1), load(2), load(3));
      }
    };
    const std::size_t end = first + count;
    lay_out_edge(task.pad_columns < end ? task.pad_columns : end);
    const std::size_t last_whole = task.pad_columns + task.input_columns;  // vectors that end here lie inside
    if (padded < end && padded + task.together <= last_whole) {
      const std::size_t end_whole = last_whole - task.together + 1 < end ? last_whole - task.together + 1 : end;
      const std::uint8_t* a = row_at(0, padded);
      const std::uint8_t* b = row_at(1, padded);
      const std::uint8_t* c = row_at(2, padded);
      const std::uint8_t* d = row_at(3, padded);
      for (; padded < end_whole; ++padded, laid_out += step) {
        store_quads(laid_out, _mm512_loadu_si512(a), _mm512_loadu_si512(b), _mm512_loadu_si512(c),
                    _mm512_loadu_si512(d));
        a += rows.column_bytes[0];
        b += rows.column_bytes[1];
        c += rows.column_bytes[2];
        d += rows.column_bytes[3];
      }
    }
    lay_out_edge(end);
  }
}

// Where one vector of outputs lies.
struct Place {
  std::uint8_t* codes = nullptr;  ///< Or `floats`.
  float* floats = nullptr;
  std::size_t float_channel_stride = 1, float_position_stride = 1, channels = 1;
  const std::uint8_t* residual = nullptr;  ///< Or null.
  std::size_t output_step = 0, residual_step = 0;

  [[gnu::always_inline]] void advance() {
    if (codes != nullptr) codes += output_step;
    if (floats != nullptr) floats += output_step;
    residual += residual_step;
  }
};

Place first_place(const DepthwiseTask& task, const Strip& strip) {
  const std::size_t position = strip.row * task.columns + strip.column;
  const std::size_t output = position * task.output_position_stride + strip.first_channel * task.output_channel_stride;
  Place place{.float_channel_stride = task.output_channel_stride,
              .float_position_stride = task.output_position_stride,
              .channels = task.channels,
              .output_step = task.together * task.output_position_stride};
  if (task.epilogue.gives_codes)
    place.codes = static_cast<std::uint8_t*>(task.output) + output;
  else
    place.floats = static_cast<float*>(task.output) + output;
  if (task.residual != nullptr) {
    place.residual = task.residual + position * task.residual_position_stride + strip.first_channel;
    place.residual_step = task.together * task.residual_position_stride;
  }
  return place;
}

// Adds the second operand's codes, which come in the sums' order.
[[gnu::always_inline]] inline void add_residual(const Shared& shared, const Place& place, __mmask64 lanes_used,
                                                __m512 (&scaled)[vectors]) {
  const __m512i codes = _mm512_maskz_loadu_epi8(lanes_used, place.residual);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i low = _mm512_unpacklo_epi8(codes, zero);
  const __m512i high = _mm512_unpackhi_epi8(codes, zero);
  const __m512i wide[vectors] = {_mm512_unpacklo_epi16(low, zero), _mm512_unpackhi_epi16(low, zero),
                                 _mm512_unpacklo_epi16(high, zero), _mm512_unpackhi_epi16(high, zero)};
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) {
    const __m512 difference = _mm512_cvtepi32_ps(_mm512_sub_epi32(wide[v], shared.residual_zero_point));
    scaled[v] = _mm512_add_ps(scaled[v], _mm512_mul_ps(difference, shared.residual_multiplier));
  }
}

// The numbers stay within 32 bits, so limiting the codes after rounding is the same as limiting before.
[[gnu::always_inline]] inline void store_codes(const Shared& shared, const Place& place, __mmask64 lanes_used,
                                               const __m512 (&scaled)[vectors]) {
  const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[0]), _mm512_cvtps_epi32(scaled[1]));
  const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[2]), _mm512_cvtps_epi32(scaled[3]));
  const __m512i codes =
      _mm512_packus_epi16(_mm512_adds_epi16(low, shared.zero_point), _mm512_adds_epi16(high, shared.zero_point));
  const __m512i limited = _mm512_min_epu8(_mm512_max_epu8(codes, shared.lowest), shared.highest);
  _mm512_mask_storeu_epi8(place.codes, lanes_used, limited);
}

void store_floats(const Shared& shared, const Place& place, __mmask64 lanes_used, const __m512 (&results)[vectors]) {
  alignas(vector_bytes) float ordered[vectors * lanes];
  for (std::size_t v = 0; v < vectors; ++v)
    // Both instructions return their second operand where it is NaN, as the reference does.
    _mm512_store_ps(ordered + v * lanes, _mm512_min_ps(shared.maximum, _mm512_max_ps(shared.minimum, results[v])));
  for (std::size_t lane = 0; lane < depthwise_lanes && ((lanes_used >> lane) & 1U) != 0; ++lane) {
    const std::size_t position = lane / place.channels;
    const std::size_t channel = lane % place.channels;
    place.floats[position * place.float_position_stride + channel * place.float_channel_stride] =
        ordered[depthwise_place(lane)];
  }
}

template <bool adds, bool gives_codes>
[[gnu::always_inline]] inline void finish(const Shared& shared, const Place& place, __mmask64 lanes_used,
                                          const __m512i (&sums)[vectors]) {
  __m512 scaled[vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v)
    scaled[v] = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), shared.multipliers[v]);
  if constexpr (adds) add_residual(shared, place, lanes_used, scaled);
  if constexpr (gives_codes)
    store_codes(shared, place, lanes_used, scaled);
  else
    store_floats(shared, place, lanes_used, scaled);
}

// Three kernel columns of up to four rows, whose weights stay in registers.
template <bool adds, bool gives_codes>
void compute_three_columns(const DepthwiseTask& task, const Strip& strip) {
  constexpr std::size_t columns = 3;
  __m512i weights[columns][vectors];
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t v = 0; v < vectors; ++v)
      weights[column][v] = _mm512_load_si512(strip.weights + (column * vectors + v) * vector_bytes);
  const Shared shared = shared_by_outputs(task, strip);
  Place place = first_place(task, strip);
  const std::uint8_t* laid_out = task.laid_out;
  const std::size_t dilation = task.dilation_columns * depthwise_column_bytes;
  const std::size_t stride = task.together * task.stride_columns * depthwise_column_bytes;
  for (std::size_t left = strip.vectors; left > 0; --left, laid_out += stride, place.advance()) {
    __m512i sums[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = shared.bias[v];
#pragma GCC unroll 4
    for (std::size_t column = 0; column < columns; ++column)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v)
        dot_quads(sums[v], _mm512_load_si512(laid_out + column * dilation + v * vector_bytes), weights[column][v]);
    finish<adds, gives_codes>(shared, place, left == 1 ? strip.last_lanes : strip.lanes, sums);
  }
}

template <bool adds, bool gives_codes>
void compute_columns(const DepthwiseTask& task, const Strip& strip) {
  const Shared shared = shared_by_outputs(task, strip);
  Place place = first_place(task, strip);
  const std::uint8_t* laid_out = task.laid_out;
  const std::size_t column_bytes = strip.row_quads * depthwise_column_bytes;
  const std::size_t stride = task.together * task.stride_columns * column_bytes;
  const std::size_t dilation = task.dilation_columns * column_bytes;
  for (std::size_t left = strip.vectors; left > 0; --left, laid_out += stride, place.advance()) {
    __m512i sums[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = shared.bias[v];
    const std::int8_t* weights = strip.weights;
    for (std::size_t column = 0; column < task.kernel_columns; ++column) {
      const std::uint8_t* quads = laid_out + column * dilation;
      for (const std::uint8_t* const end = quads + column_bytes; quads != end;
           quads += depthwise_column_bytes, weights += depthwise_column_bytes)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v)
          dot_quads(sums[v], _mm512_load_si512(quads + v * vector_bytes),
                    _mm512_load_si512(weights + v * vector_bytes));
    }
    finish<adds, gives_codes>(shared, place, left == 1 ? strip.last_lanes : strip.lanes, sums);
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
  Strip strip{.first_channel = first_channel, .row_quads = (task.kernel_rows + quad_rows - 1) / quad_rows};
  strip.weights = task.weights + first_channel * task.kernel_columns * strip.row_quads * quad_rows;
  strip.bias = task.bias + first_channel;
  strip.multipliers = task.multipliers + first_channel;
  return strip;
}

// Sets how many outputs a strip has: `count`, of which each has `channels`.
void set_count(const DepthwiseTask& task, Strip& strip, std::size_t count, std::size_t channels) {
  strip.vectors = (count + task.together - 1) / task.together;
  strip.lanes = first_bytes(task.together * channels);
  strip.last_lanes = first_bytes((count - (strip.vectors - 1) * task.together) * channels);
}

}  // namespace

std::size_t depthwise_place(std::size_t lane) {
  return lane / 4 % vectors * lanes + lane / lanes * 4 + lane % 4;
}

void convolve_depthwise(const DepthwiseTask& task) {
  for (std::size_t channel = 0; channel < task.channels; channel += depthwise_lanes) {
    const std::size_t channels_left = task.channels - channel;
    Strip strip = first_strip(task, channel);
    for (strip.row = 0; strip.row < task.rows; ++strip.row)
      for (strip.column = 0; strip.column < task.columns; strip.column += depthwise_strip) {
        const std::size_t left = task.columns - strip.column;
        set_count(task, strip, left < depthwise_strip ? left : depthwise_strip, channels_left);
        lay_out_columns(task, strip,
                        (strip.vectors - 1) * task.together * task.stride_columns +
                            (task.kernel_columns - 1) * task.dilation_columns + 1);
        compute_strip(task, strip);
      }
  }
}

}  // namespace podaq::runtime_detail::avx512
