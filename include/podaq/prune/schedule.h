#pragma once

#include <cstdint>

namespace podaq {

/// How the target sparsity grows with the optimizer's steps.
enum class ScheduleKind : std::uint8_t {
  one_shot,  ///< The final sparsity from step `begin` on.
  cubic,     ///< Fast at first, slow at the end: Zhu & Gupta's ramp, arXiv 1710.01878.
};

/// A sparsity that depends on the number of optimizer steps done.
struct SparsitySchedule {
  ScheduleKind kind = ScheduleKind::cubic;  ///< The ramp's form.
  double initial_sparsity = 0.0;            ///< Until `begin`; in [0, 1).
  double final_sparsity = 0.0;              ///< From `end` on; in [0, 1).
  std::int64_t begin = 0;                   ///< Steps done when the ramp starts.
  std::int64_t end = 0;                     ///< Steps done when the ramp has reached its end; >= begin.
};

/// The target sparsity after `step` optimizer steps:
/// final + (initial - final) * (1 - clip((step - begin) / (end - begin), 0, 1))^3, exactly `final_sparsity` from `end`
/// on. With begin == end it jumps there.
[[nodiscard]] double sparsity_at(const SparsitySchedule& schedule, std::int64_t step);

}  // namespace podaq
