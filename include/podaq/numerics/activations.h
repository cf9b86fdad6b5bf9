#pragma once

#include <cstdint>

namespace podaq {

/// The elementwise functions of the `Activation` op; `numerics::activate` gives their formulas.
enum class ActivationKind : std::uint8_t {
  sigmoid,
  tanh,
  silu,
  selu,
  elu,
  leaky_relu,
  hard_sigmoid,
  hard_swish,
  gelu,
  gelu_tanh
};

}  // namespace podaq
