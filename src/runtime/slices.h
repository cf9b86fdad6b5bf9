#pragma once

#include <cstddef>

#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// How many samples of a batch run through the network together: as many as keep the values between the nodes in a part
/// of the second-level cache, a power of two up to `max_batch`. Where the weights do not fit in that cache, every slice
/// reads them again from beyond it: the values may then take all of it, or half as much as the weights.
/// @param cache_bytes  Size of the second-level cache.
[[nodiscard]] std::size_t choose_slice(const Plan& plan, std::size_t max_batch, std::size_t cache_bytes);

/// The second-level cache of this CPU; 1 MiB where the system does not tell.
[[nodiscard]] std::size_t second_level_cache_bytes();

/// How many threads work on a batch: no more than let each one have samples and enough work to be worth waking it.
[[nodiscard]] std::size_t choose_workers(const Plan& plan, std::size_t batch, std::size_t threads);

}  // namespace podaq::runtime_detail
