#include "podaq/core/latency.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

TEST(Latency, TakesTurns) {
  std::string order;
  const std::vector<Contestant> contestants = {{"a", [&] { order += 'a'; }}, {"b", [&] { order += 'b'; }}};
  const std::vector<Latency> latencies = measure_latency(contestants, {.rounds = 3, .seconds_per_round = 1e-9});
  EXPECT_EQ(order, "abababab");  // the first pair is not timed
  ASSERT_EQ(latencies.size(), 2U);
  for (const Latency& latency : latencies) {
    EXPECT_LE(latency.p10_us, latency.median_us);
    EXPECT_LE(latency.median_us, latency.p90_us);
  }
}

TEST(Latency, RefusesOptionsOutsideTheirRange) {
  EXPECT_THROW((void)measure_latency({}, {.rounds = 0}), Error);
  EXPECT_THROW((void)measure_latency({}, {.seconds_per_round = 0}), Error);
}

TEST(Latency, StopsWhenTheUserAsks) {
  const CancellationScope cancellation;
  int calls = 0;
  const std::vector<Contestant> contestants = {{"a", [&] {
                                                  ++calls;
                                                  raise(SIGINT);
                                                }}};
  try {
    (void)measure_latency(contestants, {.rounds = 5, .seconds_per_round = 1e-9});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace podaq
