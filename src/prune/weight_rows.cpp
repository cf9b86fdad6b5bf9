#include "prune/weight_rows.h"

#include <cmath>
#include <limits>

namespace podaq::prune_detail {
namespace {

// Infinity minus itself is NaN, which equals nothing.
float if_finite(float product) {
  return product - product == 0.0F ? product : 0.0F;
}

}  // namespace

void add_magnitudes_of_products(const float* __restrict weight, const float* __restrict gradient,
                                float* __restrict sums, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += std::abs(if_finite(weight[i] * gradient[i]));
}

void subtract_products(const float* __restrict weight, const float* __restrict gradient, float* __restrict sums,
                       std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] -= if_finite(weight[i] * gradient[i]);
}

void write_where(const bool* __restrict mask, float value, float* __restrict values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = mask[i] ? value : values[i];
}

void write_where(const bool* __restrict mask, double value, double* __restrict values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = mask[i] ? value : values[i];
}

void make_finite(double* values, std::int64_t count) {
  constexpr double largest = std::numeric_limits<float>::max();
  for (std::int64_t i = 0; i < count; ++i) {
    const double limited = values[i] < largest ? values[i] : largest;  // NaN is not less
    values[i] = limited > -largest ? limited : -largest;
  }
}

std::int64_t count_below(const double* values, std::int64_t count, double threshold) {
  std::int64_t below = 0;
  for (std::int64_t i = 0; i < count; ++i) below += values[i] < threshold ? 1 : 0;
  return below;
}

}  // namespace podaq::prune_detail
