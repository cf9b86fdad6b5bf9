#include "podaq/prune/schedule.h"

#include <gtest/gtest.h>

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

TEST(CubicSchedule, StartsAtItsInitialSparsityAndNeverFalls) {
  const SparsitySchedule schedule{.initial_sparsity = 0.2, .final_sparsity = 0.8, .begin = 10, .end = 47};
  EXPECT_EQ(sparsity_at(schedule, 0), 0.2);
  EXPECT_NEAR(sparsity_at(schedule, 10), 0.2, 1e-15);
  for (std::int64_t step = 1; step < 60; ++step)
    EXPECT_GE(sparsity_at(schedule, step), sparsity_at(schedule, step - 1)) << step;
  EXPECT_EQ(sparsity_at(schedule, 47), 0.8);
}

TEST(Schedule, WithoutLengthJumpsToTheFinalSparsity) {
  for (const ScheduleKind kind : {ScheduleKind::cubic, ScheduleKind::one_shot}) {
    const SparsitySchedule schedule{.kind = kind, .final_sparsity = 0.75, .begin = 5, .end = 5};
    EXPECT_EQ(sparsity_at(schedule, 4), 0.0);
    EXPECT_EQ(sparsity_at(schedule, 5), 0.75);
  }
}

TEST(OneShotSchedule, HoldsTheFinalSparsityFromItsBegin) {
  const SparsitySchedule schedule{.kind = ScheduleKind::one_shot, .final_sparsity = 0.75, .begin = 5, .end = 50};
  EXPECT_EQ(sparsity_at(schedule, 4), 0.0);
  EXPECT_EQ(sparsity_at(schedule, 5), 0.75);
  EXPECT_EQ(sparsity_at(schedule, 49), 0.75);
}

}  // namespace
}  // namespace podaq
