#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/avx512/tasks.h"

// The depthwise convolution, plain data like the tasks of tasks.h. A vector of 64 codes holds 64 channels of an output,
// or, of layers with fewer, several neighbouring outputs. For a strip of outputs, the codes of four kernel rows are
// first laid side by side, for each input column that the strip reaches; then each vector of outputs takes as many of
// those columns as the kernel has.
namespace podaq::runtime_detail::avx512 {

inline constexpr std::size_t depthwise_lanes = 64;
inline constexpr std::size_t depthwise_strip = 32;  ///< Outputs of a row that are computed together at most.
inline constexpr std::size_t depthwise_column_bytes = 4 * depthwise_lanes;  ///< Of four kernel rows.

/// A convolution of each channel by itself over one sample, channels last.
struct DepthwiseTask {
  const std::uint8_t* input = nullptr;  ///< 64 bytes behind its last code are readable.
  std::size_t channels = 1;             ///< Of input and output.
  std::size_t input_rows = 1, input_columns = 1;
  std::size_t pad_rows = 0, pad_columns = 0;  ///< Before the first row and column.
  std::uint8_t outside = 0;                   ///< The code of the border.
  std::size_t rows = 1, columns = 1;          ///< Of the output.
  std::size_t kernel_rows = 1, kernel_columns = 1;
  std::size_t stride_rows = 1, stride_columns = 1;
  std::size_t dilation_rows = 1, dilation_columns = 1;
  std::size_t together =
      1;  ///< Outputs of a row in a vector: if not 1, then channels divide 64, columns have stride 1.
  const std::int8_t* weights = nullptr;  ///< [64 lanes][kernel column][4 kernel rows][lane, in order][4].
  const std::int32_t* bias = nullptr;    ///< [64 lanes][lane, in order], like `multipliers`.
  const float* multipliers = nullptr;
  void* output = nullptr;                                             ///< u8 codes or floats.
  std::size_t output_channel_stride = 1, output_position_stride = 1;  ///< Elements; codes have channel stride 1.
  const std::uint8_t* residual = nullptr;                             ///< Codes with channel stride 1, or null.
  std::size_t residual_position_stride = 1;
  std::uint8_t* laid_out = nullptr;  ///< Room for the columns of a strip, aligned to 64.
  EpilogueTask epilogue;             ///< Scaled sums of codes stay below 2^31.
};
void convolve_depthwise(const DepthwiseTask& task);

/// Where the order of weights, bias and multipliers has a lane of 64: unpacking interleaves within quarters of a
/// register.
[[nodiscard]] std::size_t depthwise_place(std::size_t lane);

}  // namespace podaq::runtime_detail::avx512
