#pragma once

#include "runtime/window.h"

namespace podaq::runtime_detail {

/// What the parts of the depthwise convolution's work take, in ns, per 64 channels, like CostCoefficients.
struct DepthwiseCoefficients {
  double call = 60.0;    ///< Fixed part, per sample.
  double column = 2.6;   ///< Laying out four kernel rows of an input column.
  double product = 1.1;  ///< Four kernel rows of a kernel column of an output.
  double output = 3.0;   ///< Rounding and storing.
};

/// Time of one sample by avx512_depthwise_conv.
[[nodiscard]] double depthwise_conv_ns(const ConvGeometry& geometry, const DepthwiseCoefficients& cost = {});

}  // namespace podaq::runtime_detail
