#include "podaq/data/iq_frame.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace podaq {
namespace {

double power_of(const std::vector<float>& frame) {
  double energy = 0;
  for (const float value : frame) energy += double{value} * value;
  return energy / (static_cast<double>(frame.size()) / 2);
}

TEST(IqFrame, ScalesToPowerOneAndScalingTwiceChangesNothing) {
  for (const float level : {1e-30F, 1e-3F, 1.0F, 32768.0F, 1e30F}) {
    std::vector<float> frame;
    for (int i = 0; i < 4096; ++i) frame.push_back(level * static_cast<float>(std::sin(1.7 * i)));
    scale_to_unit_power(frame);
    EXPECT_NEAR(power_of(frame), 1, 1e-6) << level;
    const auto once = frame;
    scale_to_unit_power(frame);
    EXPECT_EQ(frame, once) << level;
  }
}

// In short frames the rounding of single values shows in the power.
TEST(IqFrame, ScalingShortFramesTwiceChangesNothingEither) {
  for (int start = 0; start < 2000; ++start) {
    std::vector<float> frame;
    for (int i = 0; i < 2 + 2 * (start % 3); ++i) frame.push_back(static_cast<float>(std::sin(1.7 * (start + i))));
    scale_to_unit_power(frame);
    const auto once = frame;
    scale_to_unit_power(frame);
    ASSERT_EQ(frame, once) << start;
  }
}

TEST(IqFrame, SilenceStaysSilent) {
  std::vector<float> frame(8, 0.0F);
  scale_to_unit_power(frame);
  EXPECT_EQ(frame, std::vector<float>(8, 0.0F));
}

TEST(IqFrame, FindsTheFirstSampleThatIsNotFinite) {
  std::vector<float> frame(20, 1.0F);
  EXPECT_FALSE(first_not_finite(frame));
  frame[17] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_not_finite(frame), 7U);
  frame[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_not_finite(frame), 3U);
}

}  // namespace
}  // namespace podaq
