#include "podaq/numerics/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>

#include "podaq/numerics/activations.h"

namespace podaq::numerics {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float smallest_normal = std::numeric_limits<float>::min();

// Calls visit(x) for floats over the whole line, about 2 million of them: every 2039th bit pattern of either sign.
template <typename Visit>
void for_floats(Visit visit) {
  for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 2039) {
    visit(std::bit_cast<float>(bits));
    visit(-std::bit_cast<float>(bits));
  }
}

// And for floats evenly spaced over the range where functions bend.
template <typename Visit>
void for_interval(double low, double high, Visit visit) {
  constexpr int steps = 400000;
  for (int i = 0; i <= steps; ++i) visit(static_cast<float>(low + (high - low) * i / steps));
}

double units_in_last_place(float value, double exact) {
  const auto nearest = static_cast<float>(std::abs(exact));
  const float size = std::max(nearest, smallest_normal);
  const double unit = static_cast<double>(std::nextafter(size, infinity)) - size;
  return std::abs(value - exact) / unit;
}

template <typename Function, typename Exact>
void expect_relative(Function function, Exact exact, double low, double high) {
  double worst = 0.0;
  float where = 0.0F;
  const auto visit = [&](float x) {
    const double wanted = exact(static_cast<double>(x));
    const double error = std::abs(function(x) - wanted) / std::max<double>(std::abs(wanted), smallest_normal);
    if (!(error <= worst)) {
      worst = error;
      where = x;
    }
  };
  for_interval(low, high, visit);
  for_floats([&](float x) {
    if (x >= low && x <= high) visit(x);
  });
  EXPECT_LE(worst, 1e-6) << "at " << where;
}

TEST(MathProperty, ExpIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0.0;
  float where = 0.0F;
  const auto visit = [&](float x) {
    const double wanted = std::exp(static_cast<double>(x));
    if (wanted > std::numeric_limits<float>::max()) return;
    const double error = units_in_last_place(exp(x), wanted);
    if (!(error <= worst)) {
      worst = error;
      where = x;
    }
  };
  for_floats(visit);
  for_interval(-105.0, 88.73, visit);
  EXPECT_LE(worst, 2.0) << "at " << where;
}

TEST(MathGolden, ExpAtSpecialValues) {
  EXPECT_EQ(exp(0.0F), 1.0F);
  EXPECT_EQ(exp(-0.0F), 1.0F);
  EXPECT_EQ(exp(infinity), infinity);
  EXPECT_EQ(exp(-infinity), 0.0F);
  EXPECT_TRUE(std::isnan(exp(not_a_number)));
  EXPECT_TRUE(std::isfinite(exp(88.72F)));
  EXPECT_EQ(exp(88.73F), infinity);
  EXPECT_EQ(exp(1.0e30F), infinity);
  EXPECT_EQ(exp(-1.0e30F), 0.0F);
  EXPECT_EQ(exp(-103.0F), 0x1p-149F);
  EXPECT_EQ(exp(0x1p-149F), 1.0F);
}

TEST(MathProperty, ExpRises) {
  float before = 0.0F;
  for_interval(-105.0, 89.0, [&](float x) {
    const float here = exp(x);
    EXPECT_GE(here, before) << "at " << x;
    before = here;
  });
}

TEST(MathProperty, ExpMinusOneIsAccurateNearZeroAndFar) {
  expect_relative([](float x) { return exp_minus_one(x); }, [](double x) { return std::expm1(x); }, -120.0, 88.0);
}

TEST(MathProperty, LogIsAccurate) {
  expect_relative([](float x) { return log(x); }, [](double x) { return std::log(x); }, 0x1p-149, 3.4e38);
  expect_relative([](float x) { return log(x); }, [](double x) { return std::log(x); }, 0.5, 2.0);
}

TEST(MathGolden, LogAtSpecialValues) {
  EXPECT_EQ(log(1.0F), 0.0F);
  EXPECT_EQ(log(0.0F), -infinity);
  EXPECT_EQ(log(-0.0F), -infinity);
  EXPECT_EQ(log(infinity), infinity);
  EXPECT_TRUE(std::isnan(log(-1.0F)));
  EXPECT_TRUE(std::isnan(log(-infinity)));
  EXPECT_TRUE(std::isnan(log(not_a_number)));
  EXPECT_NEAR(log(0x1p-149F), -103.2789, 1e-4);
}

TEST(MathProperty, TanhIsAccurateAndOdd) {
  expect_relative([](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }, -40.0, 40.0);
  for_floats([](float x) { ASSERT_EQ(tanh(x), -tanh(-x)) << x; });
}

TEST(MathGolden, TanhAtSpecialValues) {
  EXPECT_EQ(tanh(0.0F), 0.0F);
  EXPECT_TRUE(std::signbit(tanh(-0.0F)));
  EXPECT_EQ(tanh(infinity), 1.0F);
  EXPECT_EQ(tanh(-infinity), -1.0F);
  EXPECT_TRUE(std::isnan(tanh(not_a_number)));
  EXPECT_EQ(tanh(0x1p-149F), 0x1p-149F);
}

TEST(MathProperty, SigmoidIsAccurateOnBothSides) {
  expect_relative([](float x) { return sigmoid(x); }, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, -104.0,
                  104.0);
}

TEST(MathGolden, SigmoidAtSpecialValues) {
  EXPECT_EQ(sigmoid(0.0F), 0.5F);
  EXPECT_EQ(sigmoid(infinity), 1.0F);
  EXPECT_EQ(sigmoid(-infinity), 0.0F);
  EXPECT_TRUE(std::isnan(sigmoid(not_a_number)));
}

TEST(MathProperty, ErfIsAccurateAndOdd) {
  expect_relative([](float x) { return erf(x); }, [](double x) { return std::erf(x); }, -10.0, 10.0);
  for_floats([](float x) { ASSERT_EQ(erf(x), -erf(-x)) << x; });
}

TEST(MathGolden, ErfAtSpecialValues) {
  EXPECT_EQ(erf(0.0F), 0.0F);
  EXPECT_EQ(erf(infinity), 1.0F);
  EXPECT_EQ(erf(-infinity), -1.0F);
  EXPECT_TRUE(std::isnan(erf(not_a_number)));
}

TEST(MathGolden, WorksAtCompileTime) {
  static_assert(exp(0.0F) == 1.0F);
  static_assert(log(1.0F) == 0.0F);
  static_assert(activate(ActivationKind::sigmoid, 0.0F, 0.0F) == 0.5F);
}

struct ActivationCase {
  ActivationKind kind;
  float alpha;
  double (*exact)(double x, double alpha);

  friend void PrintTo(const ActivationCase& example, std::ostream* out) {
    *out << "activation " << static_cast<int>(example.kind);
  }
};

class ActivationFormula : public testing::TestWithParam<ActivationCase> {};

TEST_P(ActivationFormula, AgreesWithDoubleArithmetic) {
  const auto [kind, alpha, exact] = GetParam();
  for_interval(-30.0, 30.0, [&, kind = kind, alpha = alpha, exact = exact](float x) {
    const double wanted = exact(x, alpha);
    ASSERT_NEAR(activate(kind, alpha, x), wanted, 1e-6 * std::max(1.0, std::abs(wanted))) << x;
  });
  EXPECT_TRUE(std::isnan(activate(kind, alpha, not_a_number)));
}

double clamp6(double x) {
  return std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0;
}

INSTANTIATE_TEST_SUITE_P(
    All, ActivationFormula,
    testing::Values(
        ActivationCase{ActivationKind::sigmoid, 0.0F, [](double x, double) { return 1.0 / (1.0 + std::exp(-x)); }},
        ActivationCase{ActivationKind::tanh, 0.0F, [](double x, double) { return std::tanh(x); }},
        ActivationCase{ActivationKind::silu, 0.0F, [](double x, double) { return x / (1.0 + std::exp(-x)); }},
        ActivationCase{ActivationKind::selu, 0.0F,
                       [](double x, double) {
                         return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x));
                       }},
        ActivationCase{ActivationKind::elu, 0.7F, [](double x, double a) { return x > 0 ? x : a * std::expm1(x); }},
        ActivationCase{ActivationKind::leaky_relu, 0.01F, [](double x, double a) { return x > 0 ? x : a * x; }},
        ActivationCase{ActivationKind::hard_sigmoid, 0.0F, [](double x, double) { return clamp6(x); }},
        ActivationCase{ActivationKind::hard_swish, 0.0F, [](double x, double) { return x * clamp6(x); }},
        ActivationCase{ActivationKind::gelu, 0.0F,
                       [](double x, double) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
        ActivationCase{ActivationKind::gelu_tanh, 0.0F, [](double x, double) {
                         return 0.5 * x *
                                (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
                       }}));

}  // namespace
}  // namespace podaq::numerics
