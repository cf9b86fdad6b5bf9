// The arithmetic of Goldbarg's quantizer: reference/amc.md 1.2.

#include "podaq/quantize/threshold_step.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "quantize/tensor_numbers.h"

namespace podaq {
namespace {

using test::numbers_of;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

TEST(ThresholdStep, DividesWhatLiesAboveTheThreshold) {
  const torch::Tensor weight = torch::tensor({0.0F, -4.0F, 1.0F});
  EXPECT_FLOAT_EQ(threshold_step(weight, 0.5, {.bits = 8}), 3.5F / 127);
  EXPECT_FLOAT_EQ(threshold_step(weight, 0, {.bits = 3}), 4.0F / 3);
  EXPECT_FLOAT_EQ(threshold_step(weight, 0.75, {.bits = 2}), 3.25F);
  EXPECT_FLOAT_EQ(threshold_step(weight, 0.75, {.bits = 16}), 3.25F / 32767);
}

TEST(ThresholdStep, IsNoneWhereNothingCanBeRounded) {
  EXPECT_EQ(threshold_step(torch::zeros({4}), 0, {.bits = 8}), 0);
  EXPECT_EQ(threshold_step(torch::zeros({0}), 0, {.bits = 8}), 0);
  EXPECT_EQ(threshold_step(torch::tensor({1e-44F}), 0, {.bits = 8}), 0) << "no normal float";
  EXPECT_EQ(threshold_step(torch::tensor({not_a_number}), 0, {.bits = 8}), 0);
  EXPECT_FLOAT_EQ(threshold_step(torch::tensor({not_a_number, infinity, 2.0F}), 0, {.bits = 3}), 2.0F / 3);
  EXPECT_FLOAT_EQ(threshold_step(torch::tensor({2.0F}), 3, {.bits = 3}), 2.0F / 3) << "nothing above the threshold";
}

// A two-class bias, say, whose numbers are nearly opposite, at alpha = 1: b is nearly the largest of them.
TEST(ThresholdStep, IsNoneWhereVerbatimCodesWouldPassWhatFloatsCanTell) {
  const torch::Tensor weight = torch::tensor({1.0F, -0.998F, 0.0F});
  const ThresholdQuantization verbatim{.bits = 16};
  const float step = threshold_step(weight, 0.99, verbatim);
  EXPECT_GT(step, 0);
  EXPECT_TRUE(round_to_step(weight, step, verbatim).allclose(weight, 1e-6));
  const float finest = threshold_step(weight, 0.997, verbatim);
  EXPECT_EQ(finest, 0);
  EXPECT_TRUE(round_to_step(weight, finest, verbatim).equal(weight));
  EXPECT_FLOAT_EQ(threshold_step(weight, 0.997, {.bits = 16, .codes = ThresholdCodes::clamped}), 0.003F / 32767);
}

// max = 4 sigma, alpha = 0.75, 8 bits: code 156, which is 9 bits signed.
TEST(RoundToStep, VerbatimCodesPassTheRangeAndClampedOnesStay) {
  const torch::Tensor weight = torch::tensor({4.0F, -4.0F, 0.76F, 0.0F});
  const float step = threshold_step(weight, 0.75, {.bits = 8});
  const std::vector<float> verbatim = numbers_of(round_to_step(weight, step, {.bits = 8}));
  EXPECT_FLOAT_EQ(verbatim[0], 156 * step);
  EXPECT_FLOAT_EQ(verbatim[1], -156 * step);
  EXPECT_FLOAT_EQ(verbatim[2], 30 * step);
  EXPECT_EQ(verbatim[3], 0);
  const std::vector<float> clamped =
      numbers_of(round_to_step(weight, step, {.bits = 8, .codes = ThresholdCodes::clamped}));
  EXPECT_FLOAT_EQ(clamped[0], 127 * step);
  EXPECT_FLOAT_EQ(clamped[1], -127 * step);
  EXPECT_FLOAT_EQ(clamped[2], 30 * step);
}

TEST(RoundToStep, PassesGradientsStraightThroughEvenWhereCodesAreClamped) {
  const torch::Tensor weight = torch::tensor({4.0F, -0.3F, 0.0F}).set_requires_grad(true);
  const torch::Tensor rounded = round_to_step(weight, 0.5F, {.bits = 2, .codes = ThresholdCodes::clamped});
  EXPECT_TRUE(rounded.equal(torch::tensor({0.5F, -0.5F, 0.0F})));
  (rounded * torch::tensor({3.0F, 5.0F, 7.0F})).sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::tensor({3.0F, 5.0F, 7.0F})));
}

TEST(RoundToStep, AStepOfZeroLeavesTheTensorAsItIs) {
  const torch::Tensor weight = torch::tensor({1e-44F, 0.0F});
  EXPECT_TRUE(round_to_step(weight, 0, {}).is_same(weight));
}

TEST(RoundToStepProperty, RoundingTwiceChangesNothing) {
  torch::manual_seed(5);
  for (const int bits : {2, 3, 4, 8, 12, 16})
    for (const double share : {0.0, 0.3, 0.9}) {
      const torch::Tensor weight = torch::randn({400}) * 0.37;
      const float step = threshold_step(weight, share * weight.abs().max().item<double>(), {.bits = bits});
      const torch::Tensor once = round_to_step(weight, step, {.bits = bits});
      EXPECT_TRUE(round_to_step(once, step, {.bits = bits}).equal(once)) << bits << " bits, " << share;
    }
}

TEST(EncodeSteps, GivesTheNumbersOfRoundingInAsFewBitsAsHoldThem) {
  torch::manual_seed(6);
  for (const int bits : {2, 3, 4, 8})
    for (const ThresholdCodes codes : {ThresholdCodes::verbatim, ThresholdCodes::clamped}) {
      const torch::Tensor weight = torch::randn({6, 5, 3});
      const double threshold = bits == 8 && codes == ThresholdCodes::verbatim ? 0 : 0.4;
      const float step = threshold_step(weight, threshold, {.bits = bits});
      const ThresholdQuantization quantization{.bits = bits, .codes = codes};
      const std::optional<Tensor> encoded = encode_steps(weight, step, quantization);
      ASSERT_TRUE(encoded.has_value());
      const torch::Tensor rounded = round_to_step(weight, step, quantization);
      const std::vector<float> numbers = numbers_of(*encoded);
      EXPECT_TRUE(torch::tensor(numbers).reshape({6, 5, 3}).equal(rounded));
      const auto largest = static_cast<int>(std::lround(rounded.abs().max().item<double>() / step));
      EXPECT_LE(largest, (1 << (encoded->bits - 1)) - 1);
      EXPECT_TRUE(encoded->bits == 2 || largest > (1 << (encoded->bits - 2)) - 1) << "one bit less would do";
      if (codes == ThresholdCodes::clamped || threshold == 0) {
        EXPECT_EQ(encoded->bits, bits);
      }
    }
}

TEST(EncodeSteps, HasNoneForLongerCodesAndNumbersThatAreNone) {
  const torch::Tensor weight = torch::tensor({4.0F, 0.76F});
  const float step = threshold_step(weight, 0.75, {.bits = 8});
  EXPECT_FALSE(encode_steps(weight, step, {.bits = 8}).has_value());
  EXPECT_TRUE(encode_steps(weight, step, {.bits = 8, .codes = ThresholdCodes::clamped}).has_value());
  EXPECT_FALSE(encode_steps(weight, 0, {.bits = 8}).has_value());
  EXPECT_FALSE(encode_steps(torch::tensor({not_a_number, 1.0F}), 0.1F, {.bits = 8}).has_value());
}

}  // namespace
}  // namespace podaq
