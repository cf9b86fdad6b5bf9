#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::peers {

/// The names that `build_network` knows: vgg10_1d, resnet_1d, cnn_a, vgg16.
[[nodiscard]] std::vector<std::string> network_names();

/// A float network as it is trained, batch norms included, with random weights of He's variance:
/// - vgg10_1d {2, 1024}: 7 x [conv 64 k3, batch norm, ReLU, max pool 2], linear 128, 128 with batch norm and ReLU, 24.
/// - resnet_1d {2, 1024}: 6 x [conv 32 k1, 2 residual units of two conv 32 k3, max pool 2], linear 128, 128, 24.
/// - cnn_a {1, 28, 28}: 3 x [2 x (conv k3, batch norm, ReLU), max pool 2] of 32, 64, 128 channels, linear 1024 with
///   batch norm and ReLU, 10.
/// - vgg16 {3, 32, 32}: 13 conv k3 with ReLU, 5 max pools, linear 4096, 4096, 10; no batch norm.
/// Throws Error(invalid_argument) for another name.
[[nodiscard]] Graph build_network(std::string_view name, std::mt19937_64& random);

/// Which weights are zero.
enum class Pattern {
  dense,         ///< None.
  unstructured,  ///< Any.
  block_4x1,     ///< The same input-and-tap positions in each 4 consecutive output channels.
};

/// Zeroes floor(n * sparsity + 0.5) of the n weights (or blocks) of each conv and linear layer, chosen at random, and
/// scales those left so that activations keep their variance.
void prune_weights(Graph& graph, Pattern pattern, double sparsity, std::mt19937_64& random);

}  // namespace podaq::peers
