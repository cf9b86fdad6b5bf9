#pragma once

#include <cstdint>

#include "podaq/numerics/qparams.h"

// Loops over consecutive floats, compiled apart from LibTorch with the flags that let them vectorize.
namespace podaq::quantize_detail {

/// The parameters of one channel of a weight: codes [-limit, limit] with zero point 0.
[[nodiscard]] constexpr QParams channel_parameters(float scale, std::int32_t limit) {
  return {.scale = scale, .zero_point = 0, .lowest = -limit, .highest = limit};
}

/// y[i] = numerics::fake_quantize(x[i]).
void fake_quantize_row(const float* x, float* y, std::int64_t count, const QParams& q);

/// dx[i] = dy[i] where numerics::fake_quantize_passes_gradient(x[i]), else 0.
void pass_gradient_row(const float* x, const float* dy, float* dx, std::int64_t count, const QParams& q);

/// The same as pass_gradient_row, and sum of dy[i] * d[i], where d is the derivative of numerics::fake_quantize(x[i])
/// by the scale: the end of the codes where x[i] was clipped, else round(x / s) - x / s; 0 for NaN (Esser et al.,
/// Learned Step Size Quantization, arXiv 1902.08153, eq. 3). Summed in floats, the same for the same numbers always.
double pass_gradients_row(const float* x, const float* dy, float* dx, std::int64_t count, const QParams& q);

/// Sum of (numerics::fake_quantize(x[i]) - x[i])^2, in floats; the same for the same numbers always.
double squared_error_row(const float* x, std::int64_t count, const QParams& q);

/// Sum of weight[i] * (numerics::fake_quantize(x[i]) - x[i])^2, in floats; the same for the same numbers always.
double squared_error_row(const float* x, const float* weight, std::int64_t count, const QParams& q);

}  // namespace podaq::quantize_detail
