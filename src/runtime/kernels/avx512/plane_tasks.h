#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/window_span.h"

// Work on planar codes, one channel's positions side by side; plain data like the tasks of tasks.h.
namespace podaq::runtime_detail::avx512 {

/// Codes [rows][columns] to [columns][rows].
struct TransposeTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t rows = 1, columns = 1;
};
void transpose_codes(const TransposeTask& task);

/// The part of a plane's rows that comes from the input, for one column of the kernel.
struct PlaneColumns {
  std::size_t first = 0, count = 0;  ///< Output columns whose element lies inside the input.
  std::size_t source = 0;            ///< Input column of the first of them.
};

/// Copies one sample so that windows of neighbouring output positions are neighbours: a plane for each channel and
/// column of the kernel, [row modulo stride][row / stride][output column], with the border filled in.
struct PlaneTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* planes = nullptr;
  std::size_t channels = 1, input_height = 1, input_width = 1;
  std::size_t plane_bytes = 0;      ///< From one plane to the next.
  std::size_t rows = 1, width = 1;  ///< Of a plane; `width` is the output's.
  std::size_t reached_rows = 1;     ///< Rows of the padded input that windows reach.
  std::size_t pad_top = 0, stride_height = 1, stride_width = 1;
  const PlaneColumns* columns = nullptr;  ///< One per column of the kernel.
  std::size_t kernel_columns = 1;
  const std::uint64_t* inside =
      nullptr;           ///< [column of the kernel][64 positions of the input]: those whose element lies
                         ///< inside; null unless strides are 1 and the output is as wide as the input.
  std::size_t body = 0;  ///< Of the input's first row in a plane, then: a multiple of 64.
  std::uint8_t outside = 0;
};
void copy_planes(const PlaneTask& task);

/// Maximum over windows of planar codes. Columns [first_regular, end_regular) have windows of equal size, `stride`,
/// which is 1 or 2, apart. Loads reach up to 63 bytes past the last window.
struct PlanarMaxPoolTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t channels = 1, input_positions = 1, input_width = 1;
  const WindowSpan* row_spans = nullptr;
  const WindowSpan* column_spans = nullptr;
  std::size_t rows = 1, columns = 1, row_step = 1, column_step = 1;
  std::size_t first_regular = 0, end_regular = 0, stride = 1;
};
void pool_planar_maxima(const PlanarMaxPoolTask& task);

/// The sum of `count` codes, below 2^32.
std::uint32_t sum_codes(const std::uint8_t* codes, std::size_t count);

}  // namespace podaq::runtime_detail::avx512
