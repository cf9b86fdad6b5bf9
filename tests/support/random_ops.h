#pragma once

#include <optional>

#include "podaq/graph/graph.h"
#include "support/random_graph.h"

namespace podaq::test {

/// Random attributes of ops that fit an input of the given shape; nothing where the op does not fit it.
struct WeightedOp {
  Op op;
  Shape weight;
};

/// A convolution; `keeps_shape` asks for one whose output has the input's shape.
[[nodiscard]] std::optional<WeightedOp> random_conv(Draws& draws, const Shape& input, bool keeps_shape);
[[nodiscard]] WeightedOp random_linear(Draws& draws, const Shape& input, bool keeps_shape);
[[nodiscard]] Clamp random_clamp(Draws& draws);
[[nodiscard]] std::optional<Op> random_pool(Draws& draws, const Shape& input);
[[nodiscard]] Op random_activation(Draws& draws);
[[nodiscard]] Reshape random_reshape(Draws& draws, const Shape& input);
[[nodiscard]] Shape random_input_shape(Draws& draws);

}  // namespace podaq::test
