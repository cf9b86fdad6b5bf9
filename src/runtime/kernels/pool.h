#pragma once

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// Whether a pooling op takes the largest element; else it takes the mean.
[[nodiscard]] bool is_max(const Op& op);

/// Packs a node that holds MaxPool, AvgPool, AdaptivePool, GlobalMean or GlobalMax.
[[nodiscard]] Packed prepare_pool(const NodeView& view);

}  // namespace podaq::runtime_detail
