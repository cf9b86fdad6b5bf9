#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/avx512/tasks.h"

// The depthwise convolution, plain data like the tasks of tasks.h. Channels are computed 64 at a time. For a strip of
// outputs, the codes of four kernel rows are first laid side by side, for each input column that the strip reaches;
// then each output takes as many of those columns as the kernel has.
namespace podaq::runtime_detail::avx512 {

inline constexpr std::size_t depthwise_channels = 64;
inline constexpr std::size_t depthwise_strip = 32;  ///< Outputs of a row that are computed together at most.
inline constexpr std::size_t depthwise_column_bytes = 4 * depthwise_channels;  ///< Of four kernel rows.

/// A convolution of each channel by itself over one sample, channels last.
struct DepthwiseTask {
  const std::uint8_t* input = nullptr;          ///< Of the first window; 64 bytes behind it are readable.
  std::size_t channels = 1;                     ///< Of input and output.
  std::size_t row_bytes = 0, column_bytes = 0;  ///< Input bytes between neighbouring rows and columns.
  std::size_t rows = 1, columns = 1;            ///< Of the output.
  std::size_t kernel_rows = 1, kernel_columns = 1;
  std::size_t stride_rows = 1, stride_columns = 1;
  std::size_t dilation_rows = 1, dilation_columns = 1;
  const std::int8_t* weights = nullptr;  ///< [64 channels][kernel column][4 kernel rows][channel, in order][4].
  const std::int32_t* bias = nullptr;    ///< [64 channels][channel, in order], like `multipliers`.
  const float* multipliers = nullptr;
  void* output = nullptr;                                             ///< u8 codes or floats.
  std::size_t output_channel_stride = 1, output_position_stride = 1;  ///< Elements; codes have channel stride 1.
  const std::uint8_t* residual = nullptr;                             ///< Codes with channel stride 1, or null.
  std::size_t residual_position_stride = 1;
  std::uint8_t* laid_out = nullptr;  ///< Room for the columns of a strip, aligned to 64.
  EpilogueTask epilogue;             ///< Scaled sums of codes stay below 2^31.
};
void convolve_depthwise(const DepthwiseTask& task);

/// Where the order of weights, bias and multipliers has a channel of 64: unpacking interleaves within quarters of a
/// register.
[[nodiscard]] std::size_t depthwise_place(std::size_t channel);

}  // namespace podaq::runtime_detail::avx512
