#include "podaq/numerics/requantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "podaq/numerics/activations.h"
#include "podaq/numerics/elementwise.h"

namespace podaq::numerics {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class Seeded : public testing::Test {
 protected:
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  std::int32_t integer(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(engine_);
  }
  QParams qparams() {
    QParams q{.scale = std::exp2(real(-12.0F, 4.0F)), .zero_point = 0, .lowest = 0, .highest = 255};
    q.zero_point = integer(0, 255);
    return q;
  }

 private:
  std::mt19937 engine_{20261130};
};

using RequantizeProperty = Seeded;
using ElementwiseProperty = Seeded;

// The code that exact arithmetic gives for `scaled`, or nothing where rounding errors of relative size `error` on terms
// that add up to `magnitude` could decide a tie.
std::optional<std::int32_t> exact_code(long double scaled, long double magnitude, std::int32_t zero_point,
                                       CodeBounds bounds) {
  const long double slack = 1e-6L * magnitude;
  if (std::abs(std::abs(scaled - std::nearbyint(scaled)) - 0.5L) <= slack) return std::nullopt;
  const auto low = static_cast<long double>(bounds.lowest - zero_point);
  const auto high = static_cast<long double>(bounds.highest - zero_point);
  return static_cast<std::int32_t>(std::nearbyint(std::clamp(scaled, low, high))) + zero_point;
}

constexpr CodeBounds full = {.lowest = 0, .highest = 255};

TEST_F(RequantizeProperty, AgreesWithLongDoubleAwayFromTies) {
  int compared = 0;
  for (int round = 0; round < 100000; ++round) {
    const std::int32_t accumulator = integer(std::numeric_limits<std::int32_t>::min(), 2147483647) >> integer(0, 24);
    const float input_scale = std::exp2(real(-12.0F, 0.0F));
    const float weight_scale = std::exp2(real(-14.0F, -3.0F));
    const float output_scale = std::exp2(real(-12.0F, 4.0F));
    const std::int32_t zero_point = integer(0, 255);
    const long double scaled = static_cast<long double>(accumulator) * input_scale * weight_scale / output_scale;
    const auto wanted = exact_code(scaled, std::abs(scaled), zero_point, full);
    if (!wanted) continue;
    ++compared;
    const float multiplier = requantization_multiplier(input_scale, weight_scale, output_scale);
    ASSERT_EQ(requantize(accumulator, multiplier, zero_point, full), *wanted) << accumulator << " * " << multiplier;
  }
  EXPECT_GT(compared, 50000);
}

TEST_F(RequantizeProperty, FusedAddAgreesWithLongDoubleAwayFromTies) {
  int compared = 0;
  for (int round = 0; round < 100000; ++round) {
    const std::int32_t accumulator = integer(-100000, 100000);
    const std::int32_t residual = integer(-255, 255);
    const float multiplier = std::exp2(real(-14.0F, -8.0F));
    const float residual_multiplier = std::exp2(real(-3.0F, 3.0F));
    const std::int32_t zero_point = integer(0, 255);
    const long double own = static_cast<long double>(accumulator) * multiplier;
    const long double other = static_cast<long double>(residual) * residual_multiplier;
    const auto wanted = exact_code(own + other, std::abs(own) + std::abs(other), zero_point, full);
    if (!wanted) continue;
    ++compared;
    ASSERT_EQ(requantize_add(accumulator, multiplier, residual, residual_multiplier, zero_point, full), *wanted);
  }
  EXPECT_GT(compared, 50000);
}

TEST(RequantizeGolden, TiesGoToEvenAndExtremesSaturate) {
  EXPECT_EQ(requantize(5, 0.5F, 0, full), 2);
  EXPECT_EQ(requantize(7, 0.5F, 0, full), 4);
  EXPECT_EQ(requantize(5, 0.5F, 1, full), 3);
  EXPECT_EQ(requantize(std::numeric_limits<std::int32_t>::max(), 1.0e30F, 7, full), 255);
  EXPECT_EQ(requantize(std::numeric_limits<std::int32_t>::min(), 1.0e30F, 7, full), 0);
  EXPECT_EQ(requantize(-1, 1.0F, 10, {.lowest = 10, .highest = 255}), 10) << "a folded ReLU";
}

TEST(RequantizeGolden, MultipliersAreRoundedOnce) {
  // 0.1f * 0.1f rounds to another float before the division than the double product does.
  EXPECT_EQ(requantization_multiplier(0.1F, 0.1F, 0.3F),
            static_cast<float>(static_cast<double>(0.1F) * static_cast<double>(0.1F) / static_cast<double>(0.3F)));
  EXPECT_EQ(dequantization_multiplier(0x1p-3F, 0x1p-4F), 0x1p-7F);
  EXPECT_EQ(mean_multiplier(1.0F, 1.0F, 3), static_cast<float>(1.0 / 3.0));
  EXPECT_EQ(mean_multiplier(0.1F, 0.3F, 49),
            static_cast<float>(static_cast<double>(0.1F) / static_cast<double>(0.3F) / 49.0));
}

TEST_F(RequantizeProperty, ClampingCodesIsQuantizingTheClampedNumber) {
  for (int round = 0; round < 100000; ++round) {
    const QParams q = qparams();
    const float a = integer(0, 4) == 0 ? -infinity : real(-300.0F, 300.0F) * q.scale;
    const float b = integer(0, 4) == 0 ? infinity : real(-300.0F, 300.0F) * q.scale;
    const float low = std::min(a, b);
    const float high = std::max(a, b);
    const float x = real(-400.0F, 400.0F) * q.scale;
    const CodeBounds bounds = clamp_codes(q, low, high);
    const std::int32_t wanted = quantize(std::clamp(x, low, high), q);
    ASSERT_EQ(std::clamp(quantize(x, q), bounds.lowest, bounds.highest), wanted);
    ASSERT_EQ(round_to_code(x * (1.0F / q.scale), q.zero_point, bounds), wanted);
  }
}

TEST_F(ElementwiseProperty, AddAgreesWithRealArithmeticAwayFromTies) {
  int compared = 0;
  for (int round = 0; round < 100000; ++round) {
    const QParams a = qparams();
    const QParams b = qparams();
    const QParams out = qparams();
    const std::int32_t qa = integer(0, 255);
    const std::int32_t qb = integer(0, 255);
    const long double first = static_cast<long double>(qa - a.zero_point) * a.scale / out.scale;
    const long double second = static_cast<long double>(qb - b.zero_point) * b.scale / out.scale;
    const auto wanted = exact_code(first + second, std::abs(first) + std::abs(second), out.zero_point, full);
    if (!wanted) continue;
    ++compared;
    ASSERT_EQ(add_codes(qa - a.zero_point, rescaling_multiplier(a.scale, out.scale), qb - b.zero_point,
                        rescaling_multiplier(b.scale, out.scale), out.zero_point, full),
              *wanted);
  }
  EXPECT_GT(compared, 50000);
}

TEST_F(ElementwiseProperty, MulAgreesWithRealArithmeticAwayFromTies) {
  int compared = 0;
  for (int round = 0; round < 100000; ++round) {
    const QParams a = qparams();
    const QParams b = qparams();
    const QParams out = qparams();
    const std::int32_t qa = integer(0, 255) - a.zero_point;
    const std::int32_t qb = integer(0, 255) - b.zero_point;
    const long double product = static_cast<long double>(qa) * qb * a.scale * b.scale / out.scale;
    const auto wanted = exact_code(product, std::abs(product), out.zero_point, full);
    if (!wanted) continue;
    ++compared;
    ASSERT_EQ(multiply_codes(qa, qb, product_multiplier(a.scale, b.scale, out.scale), out.zero_point, full), *wanted);
  }
  EXPECT_GT(compared, 50000);
}

TEST_F(ElementwiseProperty, MeanAgreesWithRealArithmeticAwayFromTies) {
  int compared = 0;
  for (int round = 0; round < 100000; ++round) {
    const QParams in = qparams();
    const QParams out = qparams();
    const std::int32_t count = integer(1, 4096);
    const std::int32_t sum = integer(-255 * count, 255 * count);
    const long double mean = static_cast<long double>(sum) * in.scale / out.scale / count;
    const auto wanted = exact_code(mean, std::abs(mean), out.zero_point, full);
    if (!wanted) continue;
    ++compared;
    ASSERT_EQ(mean_code(sum, mean_multiplier(in.scale, out.scale, count), out.zero_point, full), *wanted);
  }
  EXPECT_GT(compared, 50000);
}

TEST_F(ElementwiseProperty, RescalingToTheSameParametersKeepsTheCode) {
  for (int round = 0; round < 1000; ++round) {
    const QParams q = qparams();
    for (std::int32_t code = 0; code <= 255; ++code)
      ASSERT_EQ(rescale_code(code - q.zero_point, rescaling_multiplier(q.scale, q.scale), q.zero_point, full), code);
  }
}

TEST_F(ElementwiseProperty, TablesHoldTheCodesOfTheFloatFormula) {
  for (int round = 0; round < 200; ++round) {
    const QParams in = qparams();
    const QParams out = qparams();
    for (std::int32_t code = 0; code <= 255; ++code) {
      const float x = static_cast<float>(code - in.zero_point) * in.scale;
      const float y = activate(ActivationKind::silu, 0.0F, x);
      const auto entry =
          table_entry(code, in, out, [](float number) { return activate(ActivationKind::silu, 0.0F, number); });
      ASSERT_EQ(entry, quantize(y, out));
    }
  }
}

}  // namespace
}  // namespace podaq::numerics
