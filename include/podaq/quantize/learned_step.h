#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/qparams.h"

// Learned step size quantization (Esser et al., arXiv 1902.08153): scales that descend the loss with the weights.

namespace podaq {

/// No learned step falls below this.
inline constexpr float smallest_step = numerics::smallest_scale;

/// The factor on a step's gradient that makes it comparable to the weights': 1 / sqrt(elements * highest).
/// @param elements  that share the step: a channel's or tensor's weights; an activation's elements per sample.
/// @param highest   the largest code above the zero point.
[[nodiscard]] double step_gradient_factor(std::int64_t elements, std::int32_t highest);

/// fake_quantize(x, q) with the scale `step` [1], which gets a gradient too: the sum over elements of
/// dy * (round(x/s) - x/s), or dy * (end of the codes - z) where x was clipped, times `gradient_factor`. NaN gives
/// none. Values and gradients of float tensors on the CPU take a single pass each, whose sums do not depend on the
/// number of threads; other devices and types compose ATen operations.
/// @param step  float, on the CPU; q.scale must equal its value.
[[nodiscard]] torch::Tensor fake_quantize_learned(const torch::Tensor& x, const torch::Tensor& step, const QParams& q,
                                                  double gradient_factor);

/// fake_quantize_channels(x, scales, limit), whose `steps` get gradients too.
/// @param steps   [channels] or, for one step for all, [1]; float, on the CPU.
/// @param scales  what the steps come to, one per channel: a channel whose scale was raised above its step passes no
///                gradient on to it.
[[nodiscard]] torch::Tensor fake_quantize_channels_learned(const torch::Tensor& x, const torch::Tensor& steps,
                                                           std::span<const float> scales, std::int32_t limit,
                                                           double gradient_factor);

/// Steps that learn by themselves, apart from the user's optimizer.
struct LearnedSteps {
  torch::Tensor steps;     ///< [n] float on the CPU, 0 where learning has not begun; undefined before it has anywhere.
  torch::Tensor momentum;  ///< [n] float on the CPU.
};

/// Steps that begin at `values`, at least smallest_step unless 0.
[[nodiscard]] LearnedSteps begin_steps(std::span<const float> values);

/// Takes the gradient gathered since the last call: momentum := 0.9 momentum + gradient, step := step - learning_rate *
/// momentum. The momentum is clipped so that a step changes by at most 1 % of itself (as the gradients of weights are
/// in adaptive gradient clipping, Brock et al., arXiv 2102.06171): with many bits, steps are small and the gradients of
/// clipped elements large, and one batch could throw a step out of its weights' range. Steps stay within
/// [smallest_step, largest float / 4]. A step whose gradient is no finite number stays and forgets its momentum; steps
/// at 0 stay there.
void descend(LearnedSteps& learned, double learning_rate);

/// The present values.
[[nodiscard]] std::span<const float> values_of(const LearnedSteps& learned);

}  // namespace podaq
