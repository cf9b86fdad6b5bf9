#include "quantize/fake_quantize_rows.h"

#include "podaq/numerics/quantize.h"

namespace podaq::quantize_detail {

void fake_quantize_row(const float* __restrict x, float* __restrict y, std::int64_t count, const QParams& q) {
  const float inverse = 1.0F / q.scale;
  const QParams copy = q;  // so that the loop need not expect writes to y to change it
  for (std::int64_t i = 0; i < count; ++i)
    y[i] = numerics::fake_quantize(x[i], copy.scale, inverse, copy.zero_point, copy.lowest, copy.highest);
}

void pass_gradient_row(const float* __restrict x, const float* __restrict dy, float* __restrict dx, std::int64_t count,
                       const QParams& q) {
  const float inverse = 1.0F / q.scale;
  const QParams copy = q;
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = dy[i];  // loaded always: a conditional load keeps the loop scalar
    const bool passes =
        numerics::fake_quantize_passes_gradient(x[i], inverse, copy.zero_point, copy.lowest, copy.highest);
    dx[i] = passes ? gradient : 0.0F;
  }
}

}  // namespace podaq::quantize_detail
