#pragma once

#include <cstdint>

namespace podaq::prune_detail {

/// sums[i] += |weight[i] * gradient[i]| where the product is finite.
void add_magnitudes_of_products(const float* weight, const float* gradient, float* sums, std::int64_t count);

/// sums[i] -= weight[i] * gradient[i] where the product is finite.
void subtract_products(const float* weight, const float* gradient, float* sums, std::int64_t count);

/// weight[i] = +0 where mask[i].
void write_zeros(const bool* mask, float* weight, std::int64_t count);

}  // namespace podaq::prune_detail
