#pragma once

// Random sparsity for the networks and layers that benchmarks build.

#include <cstdint>
#include <random>
#include <string>

#include "podaq/graph/graph.h"

namespace podaq::benchmarks {

/// Sets a share of the weights of each convolution and linear to 0, at random.
/// @param channels  Neighbouring output channels that lose a weight together: 1 for no pattern, 4 for 4x1 blocks.
inline Graph prune(Graph graph, double sparsity, std::int64_t channels = 1) {
  std::mt19937 engine{2};
  for (auto& [name, tensor] : graph.tensors) {
    if (tensor.dtype != DType::s8) continue;
    const std::int64_t rows = tensor.shape[0];
    const std::int64_t columns = element_count(tensor.shape) / rows;
    for (std::int64_t row = 0; row < rows; row += channels)
      for (std::int64_t column = 0; column < columns; ++column) {
        if (static_cast<double>(engine()) >= sparsity * 4294967296.0) continue;
        for (std::int64_t i = row; i < std::min(row + channels, rows); ++i)
          elements<std::int8_t>(tensor)[static_cast<std::size_t>(i * columns + column)] = 0;
      }
  }
  return graph;
}

}  // namespace podaq::benchmarks
