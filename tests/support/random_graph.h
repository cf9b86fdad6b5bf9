#pragma once

#include <cstdint>
#include <random>

#include "podaq/graph/graph.h"

namespace podaq::test {

/// A deterministic source of draws, the same on every standard library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}

  /// An integer in [lowest, highest].
  std::int64_t integer(std::int64_t lowest, std::int64_t highest) {
    return lowest + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(highest - lowest + 1));
  }
  /// A float in [lowest, highest).
  float real(float lowest, float highest) {
    return lowest + (highest - lowest) * static_cast<float>(engine_() >> 40U) * 0x1p-24F;
  }
  bool chance(double probability) { return static_cast<double>(engine_() >> 11U) * 0x1p-53 < probability; }

 private:
  std::mt19937_64 engine_;
};

/// A float graph that verifies: any of the float ops on one or two inputs, with odd sizes, groups, strides, dilations,
/// pads, residual adds, convolutions with a fused add or clamp, tied weights, and one or more outputs.
[[nodiscard]] Graph random_float_graph(std::uint64_t seed);

/// An integer graph that verifies, as `convert` makes them: float inputs, quantized; ops on codes with zero points,
/// reduced bits, per-channel scales, dead channels, fused residuals; float outputs (of a conv or linear, or
/// dequantized), and sometimes float ops in between.
[[nodiscard]] Graph random_integer_graph(std::uint64_t seed);

/// The graph with the weights, and some of the biases, of about half of its float convs and linears as codes.
[[nodiscard]] Graph with_weight_codes(const Graph& graph, Draws& draws);

/// The same network with every code of `with_weight_codes` as the float that it stands for.
[[nodiscard]] Graph without_weight_codes(const Graph& graph);

}  // namespace podaq::test
