#include "podaq/numerics/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "podaq/numerics/choose_qparams.h"

namespace podaq::numerics {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr QParams signed_unit = {.scale = 1.0F, .zero_point = 0, .lowest = -128, .highest = 127};

float fake_quantize(float x, const QParams& q) {
  return numerics::fake_quantize(x, q.scale, 1.0F / q.scale, q.zero_point, q.lowest, q.highest);
}

bool passes(float x) {
  return fake_quantize_passes_gradient(x, 1.0F, 0, -128, 127);
}

class Seeded : public testing::Test {
 protected:
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

  QParams qparams() {
    QParams q{.scale = std::exp2(real(-40.0F, 40.0F)), .zero_point = 0, .lowest = 0, .highest = 255};
    if (integer(0, 3) == 0) q.highest = (1 << integer(2, 7)) - 1;
    q.zero_point = integer(q.lowest, q.highest);
    return q;
  }

 private:
  std::mt19937 engine_{20261130};
};

using QuantizeProperty = Seeded;
using ChooseProperty = Seeded;

TEST(QuantizeGolden, TheReciprocalIsTakenInFloat) {
  // In double arithmetic 0.35 / 0.1 rounds to 3; the float reciprocal of 0.1 makes it 3.5, which rounds to 4.
  const QParams q{.scale = 0.1F, .zero_point = 0, .lowest = -128, .highest = 127};
  EXPECT_EQ(quantize(0.35F, q), 4);
  EXPECT_EQ(fake_quantize(0.35F, q), 4.0F * 0.1F);
}

TEST(QuantizeGolden, TheGradientMaskIsTakenOnTheRoundedUnclampedCode) {
  EXPECT_TRUE(passes(127.4F));
  EXPECT_FALSE(passes(127.5F));
  EXPECT_FALSE(passes(127.6F));
  EXPECT_TRUE(passes(-128.4F));
  EXPECT_TRUE(passes(-128.5F));
  EXPECT_FALSE(passes(-128.6F));
}

TEST(QuantizeGolden, NonFiniteNumbers) {
  const QParams q{.scale = 0.5F, .zero_point = 40, .lowest = 0, .highest = 255};
  EXPECT_EQ(quantize(not_a_number, q), 40);
  EXPECT_EQ(quantize(infinity, q), 255);
  EXPECT_EQ(quantize(-infinity, q), 0);
  EXPECT_EQ(quantize(std::numeric_limits<float>::max(), q), 255);
  EXPECT_EQ(fake_quantize(not_a_number, signed_unit), 0.0F);
  for (const float x : {not_a_number, infinity, -infinity}) EXPECT_FALSE(passes(x));
}

TEST(QuantizeGolden, TiesGoToEven) {
  for (const auto& [x, code] : std::vector<std::pair<float, int>>{
           {0.5F, 0}, {1.5F, 2}, {2.5F, 2}, {-0.5F, 0}, {-1.5F, -2}, {-2.5F, -2}, {126.5F, 126}, {-127.5F, -128}})
    EXPECT_EQ(quantize(x, signed_unit), code) << x;
}

TEST(QuantizeGolden, TheZeroPointIsAddedAfterRounding) {
  const QParams q{.scale = 1.0F, .zero_point = 1, .lowest = 0, .highest = 255};
  EXPECT_EQ(quantize(0.5F, q), 1);  // round(0.5) + 1, not round(1.5)
  EXPECT_EQ(quantize(1.5F, q), 3);
}

TEST_F(QuantizeProperty, EveryCodeSurvivesDequantizing) {
  for (int round = 0; round < 500; ++round) {
    const QParams q = qparams();
    for (std::int32_t code = q.lowest; code <= q.highest; ++code) ASSERT_EQ(quantize(dequantize(code, q), q), code);
  }
}

TEST_F(QuantizeProperty, CodesRiseWithNumbersAndStayInRange) {
  for (int round = 0; round < 20000; ++round) {
    const QParams q = qparams();
    const float a = real(-400.0F, 400.0F) * q.scale;
    const float b = real(-400.0F, 400.0F) * q.scale;
    ASSERT_LE(quantize(std::min(a, b), q), quantize(std::max(a, b), q));
    ASSERT_GE(quantize(a, q), q.lowest);
    ASSERT_LE(quantize(a, q), q.highest);
  }
}

TEST_F(QuantizeProperty, FakeQuantizingIsQuantizingAndDequantizing) {
  for (int round = 0; round < 20000; ++round) {
    const QParams q = qparams();
    const float x = real(-400.0F, 400.0F) * q.scale;
    ASSERT_EQ(fake_quantize(x, q), dequantize(quantize(x, q), q));
  }
}

TEST_F(QuantizeProperty, ErrorIsAtMostHalfAStepInsideTheRange) {
  for (int round = 0; round < 20000; ++round) {
    const QParams q = qparams();
    const auto low = static_cast<float>(q.lowest - q.zero_point);
    const auto high = static_cast<float>(q.highest - q.zero_point);
    const float x = real(low, high) * q.scale;
    ASSERT_LE(std::abs(fake_quantize(x, q) - x), 0.5001F * q.scale);
  }
}

TEST_F(QuantizeProperty, RoundingAgreesWithTheProcessorsOwn) {
  for (int round = 0; round < 100000; ++round) {
    const float x = real(-2.0e6F, 2.0e6F) * std::exp2(-static_cast<float>(integer(0, 30)));
    ASSERT_EQ(round_ties_to_even(x), std::nearbyintf(x)) << x;
    const float wide = x * 4096.0F;
    ASSERT_EQ(round_ties_to_even_wide(wide), std::nearbyintf(wide)) << wide;
    const float tie = static_cast<float>(integer(-100000, 100000)) + 0.5F;
    ASSERT_EQ(round_ties_to_even(tie), std::nearbyintf(tie)) << tie;
    ASSERT_EQ(round_ties_to_even_wide(tie), std::nearbyintf(tie)) << tie;
  }
}

TEST_F(ChooseProperty, ActivationRangesContainZeroAndReachTheEnds) {
  for (int round = 0; round < 20000; ++round) {
    const float size = std::exp2(real(-30.0F, 30.0F));
    const float a = real(-1.0F, 1.0F) * size;
    const float b = real(-1.0F, 1.0F) * size;
    const int bits = integer(2, 8);
    const QParams q = choose_activation_qparams(std::min(a, b), std::max(a, b), bits);
    ASSERT_TRUE(is_valid_scale(q.scale));
    ASSERT_GE(q.zero_point, q.lowest);
    ASSERT_LE(q.zero_point, q.highest);
    ASSERT_EQ(dequantize(quantize(0.0F, q), q), 0.0F);
    for (const float x : {a, b}) ASSERT_LE(std::abs(fake_quantize(x, q) - x), 1.01F * q.scale);
  }
}

TEST(ChooseGolden, DegenerateActivationRanges) {
  EXPECT_EQ(choose_activation_qparams(0.0F, 0.0F).scale, 1.0F);
  EXPECT_EQ(choose_activation_qparams(2.0F, 3.0F), choose_activation_qparams(0.0F, 3.0F));
  EXPECT_EQ(choose_activation_qparams(-3.0F, -2.0F).zero_point, 255);
  EXPECT_TRUE(is_valid_scale(choose_activation_qparams(0.0F, 0x1p-149F).scale));
  EXPECT_TRUE(is_valid_scale(choose_activation_qparams(-3.4e38F, 3.4e38F).scale));
}

TEST_F(ChooseProperty, WeightScalesLeaveRoomForTheBias) {
  for (int round = 0; round < 50000; ++round) {
    const float largest = integer(0, 4) == 0 ? 0.0F : std::exp2(real(-120.0F, 10.0F));
    const float bias = integer(0, 4) == 0 ? 0.0F : std::exp2(real(-60.0F, 40.0F)) * (integer(0, 1) == 0 ? 1.0F : -1.0F);
    const float input_scale = std::exp2(real(-58.0F, 20.0F));
    const int bits = integer(2, 8);
    const float scale = choose_weight_scale(largest, bits, bias, input_scale);
    ASSERT_TRUE(is_valid_scale(scale));
    const float product = accumulator_scale(input_scale, scale);
    ASSERT_TRUE(is_valid_scale(product));
    const double exact_code = std::abs(static_cast<double>(bias)) / product;
    ASSERT_LE(exact_code, bias_limit * 1.000001);
    const std::int32_t code = quantize_bias(bias, product);
    ASSERT_LE(std::abs(code), bias_limit);
    ASSERT_NEAR(code * static_cast<double>(product), bias, 0.5001 * product + 1e-6 * std::abs(bias));
    ASSERT_LE(std::abs(largest / scale), static_cast<float>(weight_code_limit(bits)) * 1.000001F);
  }
}

TEST(ChooseGolden, RoundsUpToMantissaBits) {
  EXPECT_EQ(round_up_to_mantissa(1.0F, 0), 1.0F);
  EXPECT_EQ(round_up_to_mantissa(1.0000001F, 0), 2.0F);
  EXPECT_EQ(round_up_to_mantissa(1.01F, 4), 1.0625F);
  EXPECT_EQ(round_up_to_mantissa(1.99F, 4), 2.0F);
  EXPECT_EQ(round_up_to_mantissa(0.3F, 23), 0.3F);
  EXPECT_GE(round_up_to_mantissa(smallest_scale, 4), smallest_scale);
  EXPECT_LT(round_up_to_mantissa(smallest_scale, 4), smallest_scale * 1.0626F);
  EXPECT_TRUE(is_valid_scale(round_up_to_mantissa(std::numeric_limits<float>::max() / 4.0F, 0)));
}

TEST(ChooseGolden, AChannelOfZerosGetsCodesZeroAndAValidScale) {
  for (const float bias : {0.0F, 1.0e-8F, -3.0F}) {
    const float scale = choose_weight_scale(0.0F, 8, bias, 0.02F);
    EXPECT_TRUE(is_valid_scale(scale));
    EXPECT_EQ(quantize(0.0F, {.scale = scale, .zero_point = 0, .lowest = -127, .highest = 127}), 0);
  }
}

TEST(QuantizeGolden, BiasCodes) {
  EXPECT_EQ(quantize_bias(0.5F, 1.0F), 0);
  EXPECT_EQ(quantize_bias(-1.5F, 1.0F), -2);
  EXPECT_EQ(quantize_bias(1.0e20F, 1.0F), bias_limit);
  EXPECT_EQ(quantize_bias(-infinity, 1.0F), -bias_limit);
  EXPECT_EQ(quantize_bias(not_a_number, 1.0F), 0);
  EXPECT_EQ(quantize_bias(16777217.0F * 8.0F, 8.0F), 16777216);
}

TEST(QuantizeGolden, ValidScales) {
  EXPECT_TRUE(is_valid_scale(1.0F));
  EXPECT_TRUE(is_valid_scale(std::numeric_limits<float>::min()));
  for (const float scale : {0.0F, -1.0F, 0x1p-149F, infinity, not_a_number, std::numeric_limits<float>::max()})
    EXPECT_FALSE(is_valid_scale(scale)) << scale;
}

}  // namespace
}  // namespace podaq::numerics
