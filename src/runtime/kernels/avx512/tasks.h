#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/window_span.h"

// The entry points of the AVX-512 files, as plain structs of pointers and sizes: those files are compiled with wider
// instructions, so they must not share an inline function, template or container with the rest of the library.
namespace podaq::runtime_detail::avx512 {

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
void convolve_quads(const QuadTask& task);

/// Turns one sample's sums of a linear, bias included and padded to 16, into its outputs.
/// @param sample  Which of the task's samples.
void finish_sums(const QuadTask& task, const std::int32_t* sums, std::size_t sample);

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
void convolve_floats(const FloatConvTask& task);

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
void multiply_floats(const FloatLinearTask& task);

/// Maximum over windows of codes whose channels are neighbours.
struct CodeMaxPoolTask {
  const std::uint8_t* input = nullptr;
  std::uint8_t* output = nullptr;
  std::size_t channels = 1, input_width = 1;
  const WindowSpan* row_spans = nullptr;
  const WindowSpan* column_spans = nullptr;
  std::size_t rows = 1, columns = 1, row_step = 1, column_step = 1;
};
void pool_code_maxima(const CodeMaxPoolTask& task);

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
void quantize_floats(const QuantizeTask& task);

}  // namespace podaq::runtime_detail::avx512
