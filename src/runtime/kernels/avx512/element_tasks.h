#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/window_span.h"

// Entry points of avx512/elements.cpp; see tasks.h.
namespace podaq::runtime_detail::avx512 {

/// Where codes end up: NaN gives the zero point, everything is rounded, shifted by it and limited.
struct CodeRange {
  std::int32_t zero_point = 0, lowest = 0, highest = 255;
};

/// Each code replaced by a table's entry; input and output may be the same.
struct TableTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t count = 0;
  const std::uint8_t* table = nullptr;  ///< 256 entries.
};
void map_codes(const TableTask& task);

/// Sum or product of two runs of codes; see IntegerBinary.
struct CodeBinaryTask {
  const std::uint8_t* first = nullptr;
  const std::uint8_t* second = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t count = 0;
  bool multiplies = false;
  std::int32_t first_zero_point = 0, second_zero_point = 0;
  float first_multiplier = 1.0F, second_multiplier = 1.0F;
  CodeRange range{};
};
void combine_codes(const CodeBinaryTask& task);

/// The mean over one window of codes whose channels are neighbours.
struct CodeMeanTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t channels = 1, input_width = 1;
  WindowSpan rows{}, columns{};
  std::size_t row_step = 1, column_step = 1;
  std::int32_t input_zero_point = 0;
  float multiplier = 1.0F;  ///< m/n.
  CodeRange range{};
};
void average_codes(const CodeMeanTask& task);

/// Codes to floats, in order.
struct DequantizeTask {
  const std::uint8_t* input = nullptr;
  float* output = nullptr;
  std::size_t count = 0;
  std::int32_t zero_point = 0;
  float scale = 1.0F;
};
void dequantize_codes(const DequantizeTask& task);

}  // namespace podaq::runtime_detail::avx512
