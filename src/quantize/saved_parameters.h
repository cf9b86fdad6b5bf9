#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <span>
#include <vector>

#include "podaq/numerics/qparams.h"

// What a forward pass rounds with, kept for its backward pass.
namespace podaq::quantize_detail {

inline void save(torch::autograd::AutogradContext& context, const QParams& q) {
  context.saved_data["scale"] = static_cast<double>(q.scale);
  context.saved_data["codes"] = std::vector<std::int64_t>{q.zero_point, q.lowest, q.highest};
}

[[nodiscard]] inline QParams saved_qparams(torch::autograd::AutogradContext& context) {
  const std::vector<std::int64_t> codes = context.saved_data["codes"].toIntVector();
  return {.scale = static_cast<float>(context.saved_data["scale"].toDouble()),
          .zero_point = static_cast<std::int32_t>(codes[0]),
          .lowest = static_cast<std::int32_t>(codes[1]),
          .highest = static_cast<std::int32_t>(codes[2])};
}

/// One scale per channel, zero point 0, codes [-limit, limit].
struct ChannelScales {
  std::vector<float> scales;
  std::int32_t limit = 0;
};

inline void save(torch::autograd::AutogradContext& context, std::span<const float> scales, std::int32_t limit) {
  context.saved_data["scales"] = std::vector<double>(scales.begin(), scales.end());
  context.saved_data["limit"] = static_cast<std::int64_t>(limit);
}

[[nodiscard]] inline ChannelScales saved_channel_scales(torch::autograd::AutogradContext& context) {
  const std::vector<double> scales = context.saved_data["scales"].toDoubleVector();
  return {.scales = {scales.begin(), scales.end()},
          .limit = static_cast<std::int32_t>(context.saved_data["limit"].toInt())};
}

}  // namespace podaq::quantize_detail
