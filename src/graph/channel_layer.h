#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "podaq/graph/graph.h"

namespace podaq::graph_detail {

/// The weight of a convolution, or of a linear whose features are channels: {outputs, inputs of a group, taps}.
struct ChannelLayer {
  std::size_t inputs_each = 1, outputs_each = 1;  ///< Of a group.
  std::size_t outputs = 1, taps = 1;

  /// The weights by which an output reads input `i` of its group.
  template <typename Element>
  [[nodiscard]] std::span<Element> weights_of(std::span<Element> all, std::size_t output, std::size_t i) const {
    return all.subspan((output * inputs_each + i) * taps, taps);
  }
  /// The number of that input among all channels.
  [[nodiscard]] std::size_t input_of(std::size_t output, std::size_t i) const {
    return output / outputs_each * inputs_each + i;
  }
};

/// None for other ops, and for a linear that is applied to several positions.
[[nodiscard]] std::optional<ChannelLayer> channel_layer_of(const Graph& graph, const Node& node);

}  // namespace podaq::graph_detail
