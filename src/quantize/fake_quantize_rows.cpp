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

namespace {

// Sums that lie apart, so that the loop over them vectorizes; added up in one order always.
constexpr std::int64_t lanes = 16;

double total(const float (&sums)[lanes]) {
  double sum = 0;
  for (const float lane : sums) sum += lane;
  return sum;
}

// The sum of term(i) over i < count.
template <typename Term>
double sum_of(std::int64_t count, const Term& term) {
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += term(i + lane);
  for (; i < count; ++i) sums[0] += term(i);
  return total(sums);
}

float squared_error(float x, float inverse, const QParams& q) {
  const float error = numerics::fake_quantize(x, q.scale, inverse, q.zero_point, q.lowest, q.highest) - x;
  return error * error;
}

}  // namespace

double squared_error_row(const float* x, std::int64_t count, const QParams& q) {
  const float inverse = 1.0F / q.scale;
  return sum_of(count, [&](std::int64_t i) { return squared_error(x[i], inverse, q); });
}

double squared_error_row(const float* x, const float* weight, std::int64_t count, const QParams& q) {
  const float inverse = 1.0F / q.scale;
  return sum_of(count, [&](std::int64_t i) { return squared_error(x[i], inverse, q) * weight[i]; });
}

double pass_gradients_row(const float* __restrict x, const float* __restrict dy, float* __restrict dx,
                          std::int64_t count, const QParams& q) {
  const float inverse = 1.0F / q.scale;
  const auto low = static_cast<float>(q.lowest - q.zero_point);
  const auto high = static_cast<float>(q.highest - q.zero_point);
  return sum_of(count, [&](std::int64_t i) {
    const float scaled = x[i] * inverse;
    const float rounded = numerics::round_ties_to_even(numerics::clamp_or(scaled, low - 1.0F, high + 1.0F, 0.0F));
    const float gradient = dy[i];
    const bool is_number = scaled == scaled;
    const bool passes = rounded >= low && rounded <= high && is_number;
    dx[i] = passes ? gradient : 0.0F;
    const float end = rounded < low ? low : high;
    const float derivative = passes ? rounded - scaled : end;
    return gradient * (is_number ? derivative : 0.0F);
  });
}

}  // namespace podaq::quantize_detail
