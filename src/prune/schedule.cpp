#include "podaq/prune/schedule.h"

#include <cmath>

namespace podaq {
namespace {

double exponential(const SparsitySchedule& schedule, double done) {
  const double left = 1.0 - schedule.initial_sparsity;
  return 1.0 - left * std::pow((1.0 - schedule.final_sparsity) / left, done);
}

}  // namespace

std::int64_t updated_step(const SparsitySchedule& schedule, std::int64_t step) {
  if (step <= schedule.begin || step >= schedule.end) return step;
  return step - (step - schedule.begin) % schedule.update_every;
}

std::int64_t rounds_at(const SparsitySchedule& schedule, std::int64_t step) {
  if (schedule.kind != ScheduleKind::iterative || step < schedule.begin) return 0;
  if (step >= schedule.end) return schedule.rounds;
  return (updated_step(schedule, step) - schedule.begin) * schedule.rounds / (schedule.end - schedule.begin);
}

double sparsity_at(const SparsitySchedule& schedule, std::int64_t step) {
  if (step >= schedule.end) return schedule.final_sparsity;
  if (step < schedule.begin) return schedule.initial_sparsity;
  if (schedule.kind == ScheduleKind::constant) return schedule.final_sparsity;
  const std::int64_t taken = updated_step(schedule, step);
  const std::int64_t rounds = rounds_at(schedule, step);
  const bool has_begun = schedule.kind == ScheduleKind::iterative ? rounds > 0 : taken > schedule.begin;
  if (schedule.kind == ScheduleKind::one_shot || !has_begun) return schedule.initial_sparsity;

  const double change = schedule.initial_sparsity - schedule.final_sparsity;
  const double done = static_cast<double>(taken - schedule.begin) / static_cast<double>(schedule.end - schedule.begin);
  const double left = 1.0 - done;
  switch (schedule.kind) {
    case ScheduleKind::linear:
      return schedule.final_sparsity + change * left;
    case ScheduleKind::exponential:
      return exponential(schedule, done);
    case ScheduleKind::iterative:
      return exponential(schedule, static_cast<double>(rounds) / static_cast<double>(schedule.rounds));
    default:
      return schedule.final_sparsity + change * left * left * left;
  }
}

}  // namespace podaq
