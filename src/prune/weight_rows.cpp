#include "prune/weight_rows.h"

#include <cmath>

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

void write_zeros(const bool* __restrict mask, float* __restrict weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) weight[i] = mask[i] ? 0.0F : weight[i];
}

}  // namespace podaq::prune_detail
