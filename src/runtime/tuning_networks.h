#pragma once

#include <cstddef>
#include <vector>

#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// Plans whose nodes show the cost model all that it estimates: convolutions of one and two dimensions, kernels of 1, 3
/// and 3x3, 2 to 256 channels, large, small and odd planes, with residuals and poolings, by every dense kernel that
/// `isa` has and by the sparse one at several sparsities, and between both layouts.
/// @param batch  What they will run; larger ones than 1 need more time and memory and get fewer sparsities.
[[nodiscard]] std::vector<Plan> tuning_plans(Isa isa, std::size_t batch);

}  // namespace podaq::runtime_detail
