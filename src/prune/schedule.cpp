#include "podaq/prune/schedule.h"

namespace podaq {

double sparsity_at(const SparsitySchedule& schedule, std::int64_t step) {
  if (step >= schedule.end) return schedule.final_sparsity;
  if (step < schedule.begin) return schedule.initial_sparsity;
  if (schedule.kind == ScheduleKind::one_shot) return schedule.final_sparsity;
  if (step == schedule.begin) return schedule.initial_sparsity;  // the formula may miss it by a rounding

  const double done = static_cast<double>(step - schedule.begin) / static_cast<double>(schedule.end - schedule.begin);
  const double left = 1.0 - done;
  return schedule.final_sparsity + (schedule.initial_sparsity - schedule.final_sparsity) * left * left * left;
}

}  // namespace podaq
