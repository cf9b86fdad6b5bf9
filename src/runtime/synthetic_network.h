#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"

// Networks on codes with random weights, for measurements.
namespace podaq::runtime_detail {

/// Builds a network node after node; each method appends to `last`.
class NetworkBuilder {
 public:
  /// @param input  Per sample: channels, then one or two spatial dimensions. It is quantized first.
  explicit NetworkBuilder(const Shape& input);

  ValueId last = 0;  ///< What the next node reads.

  /// A convolution of stride 1 that keeps the plane's size, for odd kernels.
  /// @param added  A value of the result's shape that is added to it.
  void conv(std::int64_t outputs, std::int64_t kernel, bool clamps = true, std::optional<ValueId> added = {});
  /// A linear over one row.
  /// @param is_last  Whether it gives floats and clamps nothing.
  void linear(std::int64_t outputs, bool is_last = false);
  /// The maximum over windows of two along each dimension, side by side.
  void max_pool();
  void flatten();

  /// The network whose output is `last`, dequantized where that is codes; the builder is empty then.
  [[nodiscard]] Graph finish();

 private:
  void append(const Op& op, std::vector<std::string> tensors, std::optional<QParams> qparams,
              std::optional<ValueId> added = {});
  std::string weight(const Shape& shape);
  std::string bias(std::int64_t outputs);

  Graph graph_;
  std::mt19937 engine_{1};
};

/// Sets a share of the weights of each convolution and linear to 0, at random.
/// @param channels  Neighbouring output channels that lose a weight together: 1 for no pattern, 4 for 4x1 blocks.
[[nodiscard]] Graph prune(Graph graph, double sparsity, std::int64_t channels = 1);

}  // namespace podaq::runtime_detail
