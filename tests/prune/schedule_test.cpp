#include "podaq/prune/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace podaq {
namespace {

// C22: accelerate #963, optimum-intel PR #138.
TEST(CubicSchedule, HasTheValuesOfItsFormula) {
  const SparsitySchedule schedule{.final_sparsity = 0.9, .begin = 0, .end = 100};
  EXPECT_EQ(sparsity_at(schedule, 0), 0.0);
  EXPECT_DOUBLE_EQ(sparsity_at(schedule, 25), 0.5203125);
  EXPECT_DOUBLE_EQ(sparsity_at(schedule, 50), 0.7875);
  EXPECT_EQ(sparsity_at(schedule, 100), 0.9);
  EXPECT_EQ(sparsity_at(schedule, 1000), 0.9);
}

constexpr std::array all_kinds = {ScheduleKind::constant, ScheduleKind::one_shot,    ScheduleKind::linear,
                                  ScheduleKind::cubic,    ScheduleKind::exponential, ScheduleKind::iterative};

TEST(ScheduleProperty, OfEveryKindStartsAtItsInitialSparsityNeverFallsAndEndsExactly) {
  for (const ScheduleKind kind : all_kinds)
    for (const std::int64_t update_every : {1, 4}) {
      const SparsitySchedule schedule{.kind = kind,
                                      .initial_sparsity = 0.2,
                                      .final_sparsity = 0.8,
                                      .begin = 10,
                                      .end = 47,
                                      .update_every = update_every,
                                      .rounds = 3};
      EXPECT_EQ(sparsity_at(schedule, 9), 0.2);
      EXPECT_EQ(sparsity_at(schedule, 47), 0.8);
      EXPECT_EQ(sparsity_at(schedule, 1000), 0.8);
      for (std::int64_t step = 1; step < 60; ++step) {
        EXPECT_GE(sparsity_at(schedule, step), sparsity_at(schedule, step - 1)) << step;
        if (step > 10 && step < 47 && (step - 10) % update_every != 0) {
          EXPECT_EQ(sparsity_at(schedule, step), sparsity_at(schedule, step - 1)) << step;
        }
      }
    }
}

TEST(ScheduleProperty, OfEveryKindJumpsToTheFinalSparsityWhereItHasNoLength) {
  for (const ScheduleKind kind : all_kinds) {
    const SparsitySchedule schedule{.kind = kind, .final_sparsity = 0.75, .begin = 5, .end = 5, .rounds = 2};
    EXPECT_EQ(sparsity_at(schedule, 4), 0.0);
    EXPECT_EQ(sparsity_at(schedule, 5), 0.75);
  }
}

double value(ScheduleKind kind, std::int64_t step, double initial = 0.0) {
  return sparsity_at(
      {.kind = kind, .initial_sparsity = initial, .final_sparsity = 0.75, .begin = 0, .end = 100, .rounds = 4}, step);
}

TEST(ConstantSchedule, HoldsTheFinalSparsityFromItsBegin) {
  EXPECT_EQ(value(ScheduleKind::constant, 0), 0.75);
  EXPECT_EQ(value(ScheduleKind::constant, 50), 0.75);
}

TEST(OneShotSchedule, PrunesAllAtItsEnd) {
  EXPECT_EQ(value(ScheduleKind::one_shot, 0), 0.0);
  EXPECT_EQ(value(ScheduleKind::one_shot, 99, 0.25), 0.25);
  EXPECT_EQ(value(ScheduleKind::one_shot, 100), 0.75);
}

TEST(LinearSchedule, RisesEvenly) {
  EXPECT_DOUBLE_EQ(value(ScheduleKind::linear, 20), 0.15);
  EXPECT_DOUBLE_EQ(value(ScheduleKind::linear, 50, 0.25), 0.5);
}

// reference: NNCF's 1 - (1 - s0)((1 - s1)/(1 - s0))^(e/E).
TEST(ExponentialSchedule, LeavesEqualRatios) {
  EXPECT_DOUBLE_EQ(value(ScheduleKind::exponential, 50), 0.5);
  EXPECT_DOUBLE_EQ(value(ScheduleKind::exponential, 25), 1 - std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(value(ScheduleKind::exponential, 50, 0.2), 1 - 0.8 * std::sqrt(0.25 / 0.8));
}

TEST(IterativeSchedule, JumpsAtTheEndOfEachRound) {
  EXPECT_EQ(value(ScheduleKind::iterative, 24), 0.0);
  EXPECT_DOUBLE_EQ(value(ScheduleKind::iterative, 25), 1 - std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(value(ScheduleKind::iterative, 49), 1 - std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(value(ScheduleKind::iterative, 50), 0.5);
  EXPECT_EQ(value(ScheduleKind::iterative, 100), 0.75);
  const SparsitySchedule thirds{
      .kind = ScheduleKind::iterative, .final_sparsity = 0.9, .begin = 5, .end = 15, .rounds = 3};
  const std::vector<std::int64_t> rounds = {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3};
  for (std::int64_t step = 5; step <= 15; ++step)
    EXPECT_EQ(rounds_at(thirds, step), rounds.at(static_cast<std::size_t>(step - 5))) << step;
}

}  // namespace
}  // namespace podaq
