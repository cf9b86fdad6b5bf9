#pragma once

#include <cstdint>

namespace podaq::prune_detail {

/// sums[i] += |weight[i] * gradient[i]| where the product is finite.
void add_magnitudes_of_products(const float* weight, const float* gradient, float* sums, std::int64_t count);

/// sums[i] -= weight[i] * gradient[i] where the product is finite.
void subtract_products(const float* weight, const float* gradient, float* sums, std::int64_t count);

/// values[i] = `value` where mask[i].
void write_where(const bool* mask, float value, float* values, std::int64_t count);
void write_where(const bool* mask, double value, double* values, std::int64_t count);

/// NaN and +infinity become the largest float, -infinity the lowest; what lies beyond them too.
void make_finite(double* values, std::int64_t count);

[[nodiscard]] std::int64_t count_below(const double* values, std::int64_t count, double threshold);

/// marks[i] = values[i] < threshold.
void mark_below(const double* values, std::int64_t count, double threshold, bool* marks);

}  // namespace podaq::prune_detail
