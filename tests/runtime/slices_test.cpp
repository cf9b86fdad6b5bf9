#include "runtime/slices.h"

#include <gtest/gtest.h>

#include "runtime/arena.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

using runtime_detail::choose_slice;
using runtime_detail::choose_workers;
using runtime_detail::Plan;
using runtime_detail::plan_arena;

TEST(SlicesProperty, TheValuesOfASliceFitInAQuarterOfTheCacheWhereOneSampleDoes) {
  constexpr std::size_t cache = 1 << 15;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Plan plan = runtime_detail::build_plan(random_integer_graph(seed), Isa::reference, SparseKernels::automatic);
    plan.weight_bytes = 0;
    for (const std::size_t most : {1U, 3U, 64U}) {
      const std::size_t slice = choose_slice(plan, most, cache);
      EXPECT_GE(slice, 1U);
      EXPECT_LE(slice, most);
      if (slice > 1) {
        EXPECT_LE(plan_arena(plan, slice).bytes, cache / 4) << "seed " << seed;
      }
      if (2 * slice <= most) {
        EXPECT_GT(plan_arena(plan, 2 * slice).bytes, cache / 4) << "seed " << seed;
      }
      plan.weight_bytes = cache + 1;
      EXPECT_GE(choose_slice(plan, most, cache), slice) << "large weights are read again by every slice";
      plan.weight_bytes = 0;
    }
  }
}

Plan plan_of(std::size_t macs) {
  Plan plan;
  plan.macs = macs;
  return plan;
}

TEST(Slices, NoThreadIsWokenForLittleWork) {
  EXPECT_EQ(choose_workers(plan_of(1000), 64, 8), 1U);
  EXPECT_EQ(choose_workers(plan_of(100'000'000), 1, 8), 1U) << "one sample is not divided";
  EXPECT_EQ(choose_workers(plan_of(100'000'000), 3, 8), 3U);
  EXPECT_EQ(choose_workers(plan_of(100'000'000), 64, 8), 8U);
  EXPECT_EQ(choose_workers(plan_of(0), 0, 8), 1U);
}

}  // namespace
}  // namespace podaq::test
