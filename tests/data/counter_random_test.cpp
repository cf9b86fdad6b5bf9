#include "podaq/data/counter_random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace podaq {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the algorithm's authors publish with their Random123 library (kat_vectors).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF}),
            (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(CounterRandom, DrawNumberNIsAFunctionOfStreamAndNAlone) {
  const RandomStream stream{.seed = 0x123456789ABCDEF0, .words = {7, 8, 9}};
  CounterRandom random(stream);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const auto expected = philox({block, 7, 8, 9}, {0x9ABCDEF0, 0x12345678});
    for (const auto word : expected) EXPECT_EQ(random.word(), word);
  }
}

TEST(CounterRandom, EveryPartOfTheStreamNameMatters) {
  const RandomStream base{.seed = 1, .words = {2, 3, 4}};
  std::vector<RandomStream> others(5, base);
  others[0].seed ^= 1;
  others[1].seed ^= std::uint64_t{1} << 63;
  for (std::size_t word = 0; word < 3; ++word) others[2 + word].words[word] ^= 1;
  const auto first = CounterRandom(base).word();
  for (const auto& other : others) EXPECT_NE(CounterRandom(other).word(), first);
}

TEST(CounterRandom, IntegersAreUnbiasedAndBelowTheirBound) {
  CounterRandom random({.seed = 5});
  for (const std::uint32_t bound : {1U, 2U, 3U, 7U, 0x80000001U, 0xFFFFFFFFU}) {
    for (int draw = 0; draw < 1000; ++draw) ASSERT_LT(random.below(bound), bound);
  }
  // 6 cells, 60 000 draws: chi-squared with 5 degrees of freedom stays below 25.7 with probability 0.9999.
  std::map<std::uint32_t, int> counts;
  for (int draw = 0; draw < 60000; ++draw) ++counts[random.below(6)];
  double chi_squared = 0;
  for (const auto& [value, count] : counts) chi_squared += std::pow(count - 10000.0, 2) / 10000.0;
  EXPECT_LT(chi_squared, 25.7);
  // With multiplication alone, a bound of 3·2^30 would give each third value twice as often.
  int residue_zero = 0;
  for (int draw = 0; draw < 30000; ++draw) residue_zero += random.below(3U << 30) % 3 == 0;
  EXPECT_NEAR(residue_zero, 10000, 400);
}

TEST(CounterRandom, UniformFillsTheUnitInterval) {
  CounterRandom random({.seed = 6});
  double sum = 0;
  float lowest = 1;
  float highest = 0;
  constexpr int draws = 100000;
  for (int draw = 0; draw < draws; ++draw) {
    const float value = random.uniform();
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += value;
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  EXPECT_NEAR(sum / draws, 0.5, 5 * std::sqrt(1.0 / 12 / draws));
  EXPECT_LT(lowest, 2e-4F);
  EXPECT_GT(highest, 1 - 2e-4F);
}

TEST(CounterRandom, GaussianHasTheMomentsAndTailsOfTheNormalDistribution) {
  CounterRandom random({.seed = 7});
  constexpr int draws = 400000;
  std::vector<float> values(draws);
  random.fill_gaussian(values);
  double mean = 0, square = 0, cube = 0, fourth = 0, lag = 0;
  int beyond_three = 0;
  for (int i = 0; i < draws; ++i) {
    const double value = values[static_cast<std::size_t>(i)];
    mean += value;
    square += value * value;
    cube += value * value * value;
    fourth += value * value * value * value;
    beyond_three += std::abs(value) > 3;
    if (i > 0) lag += value * values[static_cast<std::size_t>(i - 1)];
  }
  // Five standard errors each.
  EXPECT_NEAR(mean / draws, 0, 5 * std::sqrt(1.0 / draws));
  EXPECT_NEAR(square / draws, 1, 5 * std::sqrt(2.0 / draws));
  EXPECT_NEAR(cube / draws, 0, 5 * std::sqrt(15.0 / draws));
  EXPECT_NEAR(fourth / draws, 3, 5 * std::sqrt(96.0 / draws));
  EXPECT_NEAR(lag / draws, 0, 5 * std::sqrt(1.0 / draws));
  EXPECT_NEAR(beyond_three, 0.0026998 * draws, 5 * std::sqrt(0.0026998 * draws));
}

TEST(CounterRandom, FillOfOddLengthStopsInMidPair) {
  std::vector<float> odd(3), even(4);
  CounterRandom({.seed = 8}).fill_gaussian(odd);
  CounterRandom({.seed = 8}).fill_gaussian(even);
  EXPECT_TRUE(std::equal(odd.begin(), odd.end(), even.begin()));
}

}  // namespace
}  // namespace podaq
