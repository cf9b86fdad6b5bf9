#pragma once

#include <cstddef>
#include <vector>

#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// Where each value of a plan lies in the one block of memory that a runner holds.
struct ArenaLayout {
  static constexpr std::size_t external = static_cast<std::size_t>(-1);
  std::vector<std::size_t>
      offsets;  ///< By value; `external` for the model's inputs and outputs, which the caller owns.
  std::size_t scratch_offset = 0;
  std::size_t bytes = 0;
};

/// Gives each value a place for the time from the node that computes it to the last that reads it, first fit, all at
/// 64-byte boundaries. A node that can run in place takes over the place of an input that nobody reads afterwards.
/// Throws Error(invalid_argument) where the sizes overflow.
[[nodiscard]] ArenaLayout plan_arena(const Plan& plan, std::size_t max_batch);

}  // namespace podaq::runtime_detail
