#pragma once

#include <cstddef>
#include <cstdint>

#include "podaq/graph/tensor.h"

namespace podaq::runtime_detail {

/// How the elements of one sample of a value lie in memory. Both orders are the same for values without spatial
/// dimensions.
enum class Layout : std::uint8_t {
  planar,         ///< Row-major: one channel's positions are neighbours.
  channels_last,  ///< One position's channels are neighbours.
};

/// Distances in elements between neighbouring channels (dimension 0) and positions (the other dimensions, row-major).
struct Strides {
  std::size_t channel = 1;
  std::size_t position = 1;
};

/// The number of channels of a per-sample shape: its first dimension.
[[nodiscard]] inline std::size_t channel_count(const Shape& shape) {
  return shape.empty() ? 1 : static_cast<std::size_t>(shape.front());
}

/// The number of positions of a per-sample shape: the product of all dimensions but the first.
[[nodiscard]] inline std::size_t position_count(const Shape& shape) {
  std::size_t count = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

[[nodiscard]] inline std::size_t sample_size(const Shape& shape) {
  return channel_count(shape) * position_count(shape);
}

[[nodiscard]] inline Strides strides_of(const Shape& shape, Layout layout) {
  if (layout == Layout::planar) return {.channel = position_count(shape), .position = 1};
  return {.channel = 1, .position = channel_count(shape)};
}

/// The offset of the element that row-major order would put at `index`.
[[nodiscard]] inline std::size_t offset_of(std::size_t index, std::size_t positions, Strides strides) {
  return index / positions * strides.channel + index % positions * strides.position;
}

}  // namespace podaq::runtime_detail
