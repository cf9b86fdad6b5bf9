#include <immintrin.h>

#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/vectors512.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t vector_bytes = 64;
constexpr std::size_t half_vector = 32;
constexpr std::size_t block = 16;  // rows and columns that are transposed at once

// Each pass interleaves rows i and i + 8; after four of them rows have become columns.
[[gnu::always_inline]] inline void interleave_block(const __m128i (&from)[block], __m128i (&to)[block]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < block / 2; ++i) {
    to[2 * i] = _mm_unpacklo_epi8(from[i], from[i + block / 2]);
    to[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + block / 2]);
  }
}

void transpose_block(const std::uint8_t* input, std::size_t input_stride, std::uint8_t* output,
                     std::size_t output_stride, std::size_t rows, std::size_t columns) {
  const __mmask16 row_mask = first_lanes(rows);
  const __mmask16 column_mask = first_lanes(columns);
  __m128i a[block];
  __m128i b[block];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < block; ++i)
    a[i] = i < rows ? _mm_maskz_loadu_epi8(column_mask, input + i * input_stride) : _mm_setzero_si128();
  interleave_block(a, b);
  interleave_block(b, a);
  interleave_block(a, b);
  interleave_block(b, a);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < block; ++i)
    if (i < columns) _mm_mask_storeu_epi8(output + i * output_stride, row_mask, a[i]);
}

// The even bytes of a vector.
[[gnu::always_inline]] inline __m256i even_bytes(__m512i bytes) {
  return _mm512_cvtepi16_epi8(bytes);
}

void copy_strided(const std::uint8_t* source, std::size_t stride, std::uint8_t* output, std::size_t count) {
  if (stride == 1) {
    for (std::size_t i = 0; i < count; i += vector_bytes) {
      const __mmask64 mask = first_bytes(count - i);
      _mm512_mask_storeu_epi8(output + i, mask, _mm512_maskz_loadu_epi8(mask, source + i));
    }
  } else if (stride == 2) {
    for (std::size_t i = 0; i < count; i += half_vector) {
      const std::size_t left = count - i;
      const __m512i bytes = _mm512_maskz_loadu_epi8(first_bytes(2 * left - 1), source + 2 * i);
      _mm256_mask_storeu_epi8(output + i, static_cast<__mmask32>(first_bytes(left < half_vector ? left : half_vector)),
                              even_bytes(bytes));
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) output[i] = source[i * stride];
  }
}

void fill(std::uint8_t* output, std::uint8_t code, std::size_t count) {
  const __m512i codes = _mm512_set1_epi8(static_cast<char>(code));
  for (std::size_t i = 0; i < count; i += vector_bytes)
    _mm512_mask_storeu_epi8(output + i, first_bytes(count - i), codes);
}

void copy_plane(const PlaneTask& task, const std::uint8_t* input, const PlaneColumns& columns, std::uint8_t* plane) {
  fill(plane, task.outside, task.rows * task.width);
  const std::size_t rows_per_phase = task.rows / task.stride_height;
  for (std::size_t y = 0; y < task.input_height && y + task.pad_top < task.reached_rows; ++y) {
    const std::size_t padded = y + task.pad_top;
    const std::size_t row = padded % task.stride_height * rows_per_phase + padded / task.stride_height;
    copy_strided(input + y * task.input_width + columns.source, task.stride_width,
                 plane + row * task.width + columns.first, columns.count);
  }
}

// All rows at once: shifting moves codes from one row into the next, where they lie outside. The plane is a multiple of
// 64 bytes.
void copy_shifted_plane(const PlaneTask& task, const std::uint8_t* input, std::size_t k, std::uint8_t* plane) {
  const __m512i border = _mm512_set1_epi8(static_cast<char>(task.outside));
  const std::size_t lines = (task.input_height * task.width + vector_bytes - 1) / vector_bytes;
  const std::uint64_t* inside = task.inside + k * lines;
  const PlaneColumns& columns = task.columns[k];
  const std::uint8_t* source =
      input + (static_cast<std::ptrdiff_t>(columns.source) - static_cast<std::ptrdiff_t>(columns.first));
  for (std::size_t i = 0; i < task.body; i += vector_bytes) _mm512_store_si512(plane + i, border);
  std::uint8_t* body = plane + task.body;
  for (std::size_t i = 0; i < lines; ++i)
    _mm512_store_si512(body + i * vector_bytes, _mm512_mask_loadu_epi8(border, inside[i], source + i * vector_bytes));
  const std::size_t end = (task.rows - task.pad_top) * task.width;
  for (std::size_t i = lines * vector_bytes; i < end; i += vector_bytes) _mm512_store_si512(body + i, border);
}

// The maximum of the windows that start at `column`, `column` + 1, ... of the input.
[[gnu::always_inline]] inline __m512i maxima(const PlanarMaxPoolTask& task, const std::uint8_t* plane, WindowSpan rows,
                                             std::size_t column, std::size_t taps) {
  __m512i largest = _mm512_setzero_si512();
  for (std::size_t y = 0; y < rows.count; ++y) {
    const std::uint8_t* row = plane + (rows.first + y * task.row_step) * task.input_width + column;
    for (std::size_t x = 0; x < taps; ++x)
      largest = _mm512_max_epu8(largest, _mm512_loadu_si512(row + x * task.column_step));
  }
  return largest;
}

// The largest of 64 codes.
[[gnu::always_inline]] inline std::uint8_t largest_of(__m512i codes) {
  const __m256i half = _mm256_max_epu8(_mm512_castsi512_si256(codes), _mm512_extracti64x4_epi64(codes, 1));
  const __m128i quarter = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  // The smallest of inverted words, of which each holds a pair's larger code alone.
  const __m128i pairs = _mm_max_epu8(quarter, _mm_srli_epi16(quarter, 8));
  const __m128i inverted = _mm_xor_si128(_mm_and_si128(pairs, _mm_set1_epi16(0xFF)), _mm_set1_epi16(0xFF));
  return static_cast<std::uint8_t>(0xFF - (_mm_cvtsi128_si32(_mm_minpos_epu16(inverted)) & 0xFF));
}

std::uint8_t window_maximum(const PlanarMaxPoolTask& task, const std::uint8_t* plane, WindowSpan rows,
                            WindowSpan columns) {
  __m512i largest = _mm512_setzero_si512();
  std::uint8_t scattered = 0;
  for (std::size_t y = 0; y < rows.count; ++y) {
    const std::uint8_t* row = plane + (rows.first + y * task.row_step) * task.input_width + columns.first;
    if (task.column_step == 1)
      for (std::size_t x = 0; x < columns.count; x += vector_bytes)
        largest = _mm512_max_epu8(largest, _mm512_maskz_loadu_epi8(first_bytes(columns.count - x), row + x));
    else
      for (std::size_t x = 0; x < columns.count; ++x) {
        const std::uint8_t code = row[x * task.column_step];
        scattered = code > scattered ? code : scattered;
      }
  }
  return task.column_step == 1 ? largest_of(largest) : scattered;
}

void pool_regular_columns(const PlanarMaxPoolTask& task, const std::uint8_t* plane, WindowSpan rows,
                          std::uint8_t* output) {
  const WindowSpan first = task.column_spans[task.first_regular];
  const std::size_t outputs_per_vector = task.stride == 1 ? vector_bytes : half_vector;
  for (std::size_t i = task.first_regular; i < task.end_regular; i += outputs_per_vector) {
    const std::size_t left = task.end_regular - i;
    const std::size_t column = first.first + (i - task.first_regular) * task.stride;
    const __m512i largest = maxima(task, plane, rows, column, first.count);
    if (task.stride == 1)
      _mm512_mask_storeu_epi8(output + i, first_bytes(left), largest);
    else
      _mm256_mask_storeu_epi8(output + i, static_cast<__mmask32>(first_bytes(left < half_vector ? left : half_vector)),
                              even_bytes(largest));
  }
}

}  // namespace

void transpose_codes(const TransposeTask& task) {
  for (std::size_t row = 0; row < task.rows; row += block)
    for (std::size_t column = 0; column < task.columns; column += block)
      transpose_block(task.input + row * task.columns + column, task.columns, task.output + column * task.rows + row,
                      task.rows, task.rows - row, task.columns - column);
}

void copy_planes(const PlaneTask& task) {
  std::uint8_t* plane = task.planes;
  for (std::size_t channel = 0; channel < task.channels; ++channel) {
    const std::uint8_t* input = task.input + channel * task.input_height * task.input_width;
    for (std::size_t k = 0; k < task.kernel_columns; ++k, plane += task.plane_bytes)
      if (task.inside == nullptr)
        copy_plane(task, input, task.columns[k], plane);
      else
        copy_shifted_plane(task, input, k, plane);
  }
}

void pool_planar_maxima(const PlanarMaxPoolTask& task) {
  std::uint8_t* output = task.output;
  for (std::size_t channel = 0; channel < task.channels; ++channel) {
    const std::uint8_t* plane = task.input + channel * task.input_positions;
    for (std::size_t row = 0; row < task.rows; ++row, output += task.columns) {
      const WindowSpan rows = task.row_spans[row];
      for (std::size_t i = 0; i < task.first_regular; ++i)
        output[i] = window_maximum(task, plane, rows, task.column_spans[i]);
      if (task.first_regular < task.end_regular) pool_regular_columns(task, plane, rows, output);
      for (std::size_t i = task.end_regular; i < task.columns; ++i)
        output[i] = window_maximum(task, plane, rows, task.column_spans[i]);
    }
  }
}

std::uint32_t sum_codes(const std::uint8_t* codes, std::size_t count) {
  const __m512i zero = _mm512_setzero_si512();
  __m512i sums = zero;
  for (std::size_t i = 0; i < count; i += vector_bytes)
    sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_maskz_loadu_epi8(first_bytes(count - i), codes + i), zero));
  return static_cast<std::uint32_t>(_mm512_reduce_add_epi64(sums));
}

}  // namespace podaq::runtime_detail::avx512
