#include "runtime/window.h"

#include <algorithm>

namespace podaq::runtime_detail {

namespace {

std::size_t size_at(const Shape& shape, std::size_t index) {
  return static_cast<std::size_t>(shape[index]);
}

std::size_t entry(const std::vector<std::int64_t>& entries, std::size_t index) {
  return static_cast<std::size_t>(entries[index]);
}

}  // namespace

ConvGeometry geometry_of(const Graph& graph, const Node& node) {
  const auto& conv = std::get<Conv>(node.op);
  const Shape& input = graph.values[node.inputs[0]].shape;
  const Shape& output = graph.values[node.output].shape;
  const Shape& weight = tensor_at(graph, node.tensors[0]).shape;
  ConvGeometry geometry{.input_channels = size_at(input, 0),
                        .output_channels = size_at(output, 0),
                        .groups = static_cast<std::size_t>(conv.groups)};
  const std::size_t width = input.size() - 2;  // index of the last spatial dimension among the attributes
  geometry.input_width = size_at(input, width + 1);
  geometry.output_width = size_at(output, width + 1);
  geometry.kernel_width = size_at(weight, width + 2);
  geometry.stride_width = entry(conv.stride, width);
  geometry.pad_left = entry(conv.pads_begin, width);
  geometry.dilation_width = entry(conv.dilation, width);
  if (width == 1) {
    geometry.input_height = size_at(input, 1);
    geometry.output_height = size_at(output, 1);
    geometry.kernel_height = size_at(weight, 2);
    geometry.stride_height = entry(conv.stride, 0);
    geometry.pad_top = entry(conv.pads_begin, 0);
    geometry.dilation_height = entry(conv.dilation, 0);
  }
  return geometry;
}

WindowList pool_windows(const PoolDimension& dimension) {
  WindowList windows{.spans = {}, .step = dimension.dilation};
  windows.spans.reserve(dimension.output);
  for (std::size_t i = 0; i < dimension.output; ++i) {
    WindowSpan span;
    for (std::size_t tap = 0; tap < dimension.kernel; ++tap) {
      const std::size_t padded = i * dimension.stride + tap * dimension.dilation;
      if (padded < dimension.pad_begin || padded >= dimension.pad_begin + dimension.input) continue;
      if (span.count == 0) span.first = padded - dimension.pad_begin;
      ++span.count;
    }
    windows.spans.push_back(span);
  }
  return windows;
}

WindowList adaptive_windows(std::size_t input, std::size_t output) {
  WindowList windows;
  windows.spans.reserve(output);
  for (std::size_t i = 0; i < output; ++i) {
    const std::size_t first = i * input / output;
    const std::size_t end = ((i + 1) * input + output - 1) / output;
    windows.spans.push_back({.first = first, .count = end - first});
  }
  return windows;
}

}  // namespace podaq::runtime_detail
