#pragma once

#include <cstdint>

#include "podaq/numerics/math.h"
#include "podaq/numerics/rounding.h"

namespace podaq {

/// The elementwise functions of the `Activation` op; `numerics::activate` gives their formulas.
enum class ActivationKind : std::uint8_t {
  sigmoid,       ///< 1 / (1 + e^-x)
  tanh,          ///< tanh x
  silu,          ///< x sigmoid(x)
  selu,          ///< 1.0507… (x > 0 ? x : 1.6732… (e^x - 1))
  elu,           ///< x > 0 ? x : alpha (e^x - 1)
  leaky_relu,    ///< x > 0 ? x : alpha x
  hard_sigmoid,  ///< min(max(x + 3, 0), 6) / 6
  hard_swish,    ///< x min(max(x + 3, 0), 6) / 6
  gelu,          ///< x/2 (1 + erf(x / sqrt 2))
  gelu_tanh      ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

namespace numerics {

namespace activations_detail {

[[nodiscard]] constexpr float hard_sigmoid(float x) {
  return clamp_or(x + 3.0F, 0.0F, 6.0F, x) / 6.0F;
}

}  // namespace activations_detail

/// The elementwise function `kind` at `x`, each step rounded to float. NaN gives NaN.
/// The table of codes, the float runtime and fake-quantized training all take their values from here.
/// @param alpha  elu: alpha; leaky_relu: the slope below 0; otherwise unused.
[[nodiscard]] constexpr float activate(ActivationKind kind, float alpha, float x) {
  constexpr float selu_scale = 1.05070098735548049F;
  constexpr float selu_alpha = 1.67326324235437728F;
  constexpr float sqrt_half = 0.707106781186547524F;
  constexpr float sqrt_two_over_pi = 0.797884560802865356F;
  switch (kind) {
    case ActivationKind::sigmoid:
      return sigmoid(x);
    case ActivationKind::tanh:
      return tanh(x);
    case ActivationKind::silu:
      return x * sigmoid(x);
    case ActivationKind::selu:
      return selu_scale * (x > 0.0F ? x : selu_alpha * exp_minus_one(x));
    case ActivationKind::elu:
      return x > 0.0F ? x : alpha * exp_minus_one(x);
    case ActivationKind::leaky_relu:
      return x > 0.0F ? x : alpha * x;
    case ActivationKind::hard_sigmoid:
      return activations_detail::hard_sigmoid(x);
    case ActivationKind::hard_swish:
      return x * activations_detail::hard_sigmoid(x);
    case ActivationKind::gelu:
      return 0.5F * x * (1.0F + erf(x * sqrt_half));
    case ActivationKind::gelu_tanh:
      return 0.5F * x * (1.0F + tanh(sqrt_two_over_pi * (x + 0.044715F * x * x * x)));
  }
  return x;
}

}  // namespace numerics

}  // namespace podaq
