#pragma once

#include <cstdint>

#include "podaq/numerics/qparams.h"

// Loops over consecutive floats, compiled apart from LibTorch with the flags that let them vectorize.
namespace podaq::quantize_detail {

/// y[i] = numerics::fake_quantize(x[i]).
void fake_quantize_row(const float* x, float* y, std::int64_t count, const QParams& q);

/// dx[i] = dy[i] where numerics::fake_quantize_passes_gradient(x[i]), else 0.
void pass_gradient_row(const float* x, const float* dy, float* dx, std::int64_t count, const QParams& q);

}  // namespace podaq::quantize_detail
