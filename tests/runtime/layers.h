#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::test {

/// A network of one layer on codes: quantize, a conv or linear, and, where the layer gives codes, dequantize.
struct CodeLayer {
  Shape input;
  Op op;  ///< Conv or Linear.
  Shape weight_shape;
  std::vector<std::int8_t> weights;
  std::vector<std::int32_t> bias;  ///< Empty: absent.
  std::vector<float> weight_scales = {1.0F};
  QParams input_qparams;
  std::optional<QParams> output_qparams;
  std::optional<QParams> added_qparams = std::nullopt;  ///< Set: a second input, quantized like this, is added.
};
[[nodiscard]] Graph graph_of(const CodeLayer& layer);

/// A network of one float conv or linear.
struct FloatLayer {
  Shape input;
  Op op;
  Shape weight_shape;
  std::vector<float> weights;
  std::vector<float> bias;
};
[[nodiscard]] Graph graph_of(const FloatLayer& layer);

/// A convolution of the given number of spatial dimensions with the same attributes along each.
struct ConvShape {
  std::size_t spatial = 1;
  std::int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
};
[[nodiscard]] Conv conv_of(const ConvShape& shape);

}  // namespace podaq::test
