#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "podaq/graph/graph.h"
#include "runtime/window_span.h"

namespace podaq::runtime_detail {

/// Sizes of a convolution, always as two spatial dimensions: a 1-D one has height 1.
struct ConvGeometry {
  std::size_t input_channels = 1, output_channels = 1, groups = 1;
  std::size_t input_height = 1, input_width = 1;
  std::size_t output_height = 1, output_width = 1;
  std::size_t kernel_height = 1, kernel_width = 1;
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_top = 0, pad_left = 0;
  std::size_t dilation_height = 1, dilation_width = 1;

  [[nodiscard]] std::size_t channels_per_group() const { return input_channels / groups; }
  [[nodiscard]] std::size_t outputs_per_group() const { return output_channels / groups; }
  [[nodiscard]] std::size_t taps() const { return kernel_height * kernel_width; }
  [[nodiscard]] std::size_t input_positions() const { return input_height * input_width; }
  [[nodiscard]] std::size_t output_positions() const { return output_height * output_width; }
  /// Rows and columns of the input that any window reaches, borders included.
  [[nodiscard]] std::size_t reached_height() const {
    return (output_height - 1) * stride_height + (kernel_height - 1) * dilation_height + 1;
  }
  [[nodiscard]] std::size_t reached_width() const {
    return (output_width - 1) * stride_width + (kernel_width - 1) * dilation_width + 1;
  }
};

/// The geometry of `node`, which holds a Conv.
[[nodiscard]] ConvGeometry geometry_of(const Graph& graph, const Node& node);

/// The windows of a pooling along one dimension.
struct WindowList {
  std::vector<WindowSpan> spans;  ///< One per output index.
  std::size_t step = 1;           ///< Distance between taps.
};

/// The windows of a pooling with fixed kernels.
struct PoolDimension {
  std::size_t input = 1, output = 1, kernel = 1, stride = 1, pad_begin = 0, dilation = 1;
};
[[nodiscard]] WindowList pool_windows(const PoolDimension& dimension);

/// The windows of an adaptive pooling: [floor(i*in/out), ceil((i+1)*in/out)).
[[nodiscard]] WindowList adaptive_windows(std::size_t input, std::size_t output);

}  // namespace podaq::runtime_detail
