#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/window_span.h"

// What the files of an instruction set are asked to do, as plain structs of pointers and sizes: those files are
// compiled with wider instructions, so they must not share an inline function, template or container with the rest of
// the library. What each of them offers stands in its folder's tasks.h.
namespace podaq::runtime_detail {

/// What becomes of an accumulator: see IntegerEpilogue.
struct EpilogueTask {
  bool gives_codes = true;
  bool sums_fit = false;  ///< Codes: scaled sums stay below 2^31, so that saturation can do the clamping.
  float residual_multiplier = 1.0F;
  std::int32_t residual_zero_point = 0;
  std::int32_t zero_point = 0, lowest = 0, highest = 255;
  float minimum = 0.0F, maximum = 0.0F;
};

/// A convolution of codes over one group of one sample, or a linear over a batch. Input windows are runs of bytes, read
/// four at a time; the last quads of a run may read past it, against weights of 0.
struct QuadTask {
  const std::uint8_t* input = nullptr;            ///< Of the first window.
  std::size_t rows = 1, columns = 1;              ///< Of the results.
  std::size_t pool_rows = 1, pool_columns = 1;    ///< A result is the largest of so many windows, 1, 2 or 4 of them.
  std::size_t row_stride = 0, column_stride = 0;  ///< Input bytes between neighbouring windows.
  const std::uint32_t* run_offsets = nullptr;
  std::size_t runs = 1, quads_per_run = 1;
  const std::int8_t* weights = nullptr;
  const std::int32_t* bias = nullptr;  ///< Padded to 16, like `multipliers`.
  const float* multipliers = nullptr;
  std::size_t outputs = 1;                                            ///< Output channels.
  void* output = nullptr;                                             ///< u8 codes or floats.
  std::size_t output_channel_stride = 1, output_position_stride = 1;  ///< Elements; codes have channel stride 1.
  const std::uint8_t* residual = nullptr;                             ///< Codes with channel stride 1, or null.
  std::size_t residual_position_stride = 1;
  EpilogueTask epilogue;
};

/// Up to two vectors of 8 outputs, and how many quads their sums are made of.
struct QuadBlock {
  std::uint32_t first_output = 0;  ///< Within the group.
  std::uint32_t vectors = 1;
  std::size_t quads = 0;
  bool is_wide = false;  ///< Its quads are pairs of 16-bit codes and weights.
};

/// The same in 256-bit registers, each block of outputs with a list of its own of the quads that count: where a window
/// has them, and their weights. A window's quad may be in the list twice, its weights split in two.
struct QuadListTask {
  QuadTask conv{};                           ///< But its runs.
  const std::int16_t* wide_input = nullptr;  ///< The input again, for blocks that are wide.
  const QuadBlock* blocks = nullptr;
  std::size_t block_count = 0;
  const std::uint32_t* offsets =
      nullptr;  ///< [block][quad]: bytes from a window's start; for wide blocks of the wide input.
  const std::int8_t* weights = nullptr;  ///< [block][quad][vector][8][4]; of wide blocks 16-bit numbers, [8][2].
};

/// Codes as 16-bit numbers.
struct WidenTask {
  const std::uint8_t* input = nullptr;
  std::int16_t* output = nullptr;
  std::size_t count = 0;
};

/// A float convolution over one group of one sample. The input is copied with its borders, rows split by their column's
/// remainder modulo the stride, so that neighbouring outputs read neighbouring floats.
struct FloatConvTask {
  const float* input = nullptr;  ///< Of the group's first channel.
  std::size_t channels = 1;
  std::size_t channel_stride = 0;
  std::size_t rows = 1, columns = 1;  ///< Of the output.
  std::size_t row_stride = 0;         ///< Input floats between the windows of neighbouring output rows.
  const std::uint32_t* tap_offsets = nullptr;
  std::size_t taps = 1;
  const float* weights = nullptr;  ///< [block of 4, 2 or 1 outputs][channel][tap][output of the block].
  const float* bias = nullptr;
  std::size_t outputs = 1;
  float* output = nullptr;  ///< Of the group's first output channel; row-major.
  const float* residual = nullptr;
  float minimum = 0.0F, maximum = 0.0F;
};

/// A float linear over rows of features.
struct FloatLinearTask {
  const float* input = nullptr;
  std::size_t rows = 1, inputs = 1, outputs = 1;
  const float* weights = nullptr;  ///< [block of 64 outputs][input][vector of 16 outputs][16].
  const float* bias = nullptr;     ///< Padded to 16.
  float* output = nullptr;
  const float* residual = nullptr;
  float minimum = 0.0F, maximum = 0.0F;
};

/// Maximum over windows of codes whose channels are neighbours.
struct CodeMaxPoolTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t channels = 1, input_width = 1;
  const WindowSpan* row_spans = nullptr;
  const WindowSpan* column_spans = nullptr;
  std::size_t rows = 1, columns = 1, row_step = 1, column_step = 1;
};

/// Maximum over windows of row-major floats. Columns [first_regular, end_regular) have windows of equal size, `stride`
/// apart.
struct FloatMaxPoolTask {
  const float* input = nullptr;
  float* output = nullptr;
  std::size_t channels = 1, input_positions = 1, input_width = 1;
  const WindowSpan* row_spans = nullptr;
  const WindowSpan* column_spans = nullptr;
  std::size_t rows = 1, columns = 1, row_step = 1, column_step = 1;
  std::size_t first_regular = 0, end_regular = 0, stride = 1;
};

/// Row-major floats to codes; neighbouring channels of the codes lie side by side where `interleaves`.
struct QuantizeTask {
  const float* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t channels = 1, positions = 1;
  std::size_t channel_stride = 1;  ///< Floats between neighbouring channels.
  bool interleaves = false;
  float inverse_scale = 1.0F;
  std::int32_t zero_point = 0, lowest = 0, highest = 255;
};

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

/// Codes to floats, in order.
struct DequantizeTask {
  const std::uint8_t* input = nullptr;
  float* output = nullptr;
  std::size_t count = 0;
  std::int32_t zero_point = 0;
  float scale = 1.0F;
};

}  // namespace podaq::runtime_detail
