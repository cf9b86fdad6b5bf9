#include "prune/weight_rows.h"

#include <bit>
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

// By bits: the compiler makes branches of a choice here, which random masks mislead.
void write_where(const bool* __restrict mask, float value, float* __restrict values, std::int64_t count) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t keep = static_cast<std::uint32_t>(mask[i]) - 1U;
    values[i] = std::bit_cast<float>((std::bit_cast<std::uint32_t>(values[i]) & keep) | (bits & ~keep));
  }
}

void write_where(const bool* __restrict mask, double value, double* __restrict values, std::int64_t count) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t keep = static_cast<std::uint64_t>(mask[i]) - 1U;
    values[i] = std::bit_cast<double>((std::bit_cast<std::uint64_t>(values[i]) & keep) | (bits & ~keep));
  }
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

void mark_below(const double* __restrict values, std::int64_t count, double threshold, bool* __restrict marks) {
  for (std::int64_t i = 0; i < count; ++i) marks[i] = values[i] < threshold;
}

}  // namespace podaq::prune_detail
