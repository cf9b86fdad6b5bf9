#include "podaq/quantize/range_search.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/quantize.h"
#include "quantize/tensor_numbers.h"

namespace podaq {
namespace {

Histogram histogram_of(const std::vector<float>& numbers) {
  Histogram histogram;
  count_values(histogram, numbers);
  return histogram;
}

double squared_error(const std::vector<float>& numbers, const CodeRange& range, int bits) {
  const QParams q =
      numerics::choose_activation_qparams(static_cast<float>(range.minimum), static_cast<float>(range.maximum), bits);
  double sum = 0;
  for (const float number : numbers) {
    const double error = numerics::dequantize(numerics::quantize(number, q), q) - number;
    sum += error * error;
  }
  return sum;
}

CodeRange extremes(const std::vector<float>& numbers) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  return {.minimum = std::min(*low, 0.0F), .maximum = std::max(*high, 0.0F)};
}

TEST(PercentileRange, LeavesTheShareBeyondEachEnd) {
  torch::manual_seed(1);
  std::vector<float> numbers = test::numbers_of(torch::randn({20000}));
  const Histogram histogram = histogram_of(numbers);
  std::sort(numbers.begin(), numbers.end());
  for (const double percentile : {90.0, 99.0, 99.9}) {
    const CodeRange range = percentile_range(histogram, percentile);
    const auto beyond = static_cast<std::size_t>(20000 * (1 - percentile / 100));
    EXPECT_NEAR(range.maximum, numbers[20000 - beyond - 1], bin_width(histogram) + 0.02) << percentile;
    EXPECT_NEAR(range.minimum, numbers[beyond], bin_width(histogram) + 0.02) << percentile;
  }
  EXPECT_EQ(percentile_range(histogram, 100), extremes(numbers));
}

TEST(PercentileRange, CountsZerosAndLeavesAnEmptySideAtZero) {
  std::vector<float> numbers(990, 0.0F);
  for (int i = 1; i <= 10; ++i) numbers.push_back(static_cast<float>(i));
  const Histogram histogram = histogram_of(numbers);
  EXPECT_EQ(percentile_range(histogram, 100), (CodeRange{0, 10}));
  EXPECT_NEAR(percentile_range(histogram, 99.5).maximum, 5, 1.0) << "5 of 1000 numbers lie above 5";
  EXPECT_EQ(percentile_range(histogram_of({0.0F, 0.0F}), 99), (CodeRange{0, 0}));
}

// The same search by brute force over all pairs of edges, on a histogram small enough for it.
TEST(LeastSquaresRange, FindsNoWorseThanEveryOneSidedThreshold) {
  torch::manual_seed(2);
  const std::vector<float> numbers = test::numbers_of(torch::randn({4000}).abs().pow(3));
  const Histogram histogram = histogram_of(numbers);
  const double width = bin_width(histogram);
  for (const int bits : {4, 6, 8}) {
    const double found = squared_error(numbers, least_squares_range(histogram, bits), bits);
    double best = squared_error(numbers, extremes(numbers), bits);
    for (int edge = 1; edge < Histogram::bins; ++edge)
      best = std::min(best, squared_error(numbers, {0, std::min(edge * width, histogram.largest)}, bits));
    EXPECT_LE(found, best * 1.02) << bits << " bits; centers stand for the numbers of their bins";
  }
}

// numerics.md 2.2: the peers' search stops at the first increase. Here the error rises before it falls: clipping the
// middle cluster costs much, clipping only the outlier gains.
TEST(LeastSquaresRange, LooksBeyondTheFirstRiseOfTheError) {
  std::vector<float> numbers;
  for (int i = 0; i < 20000; ++i) numbers.push_back(static_cast<float>(i % 1000) * 0.001F + 0.0005F);
  for (int i = 0; i < 3; ++i) numbers.push_back(9.0F + static_cast<float>(i) * 0.5F);
  const Histogram histogram = histogram_of(numbers);
  const CodeRange range = least_squares_range(histogram, 4);
  const double found = squared_error(numbers, range, 4);
  double best = found;
  for (double high = 0.5; high <= 10.0; high += 0.01) best = std::min(best, squared_error(numbers, {0, high}, 4));
  EXPECT_LE(found, best * 1.05) << range.maximum;
}

TEST(LeastSquaresRange, ClipsBothTailsOfATwoSidedDistribution) {
  torch::manual_seed(3);
  std::vector<float> numbers = test::numbers_of(torch::randn({20000}));
  numbers.push_back(30.0F);
  numbers.push_back(-20.0F);
  const CodeRange range = least_squares_range(histogram_of(numbers), 4);
  EXPECT_GT(range.maximum, 1.5);
  EXPECT_LT(range.maximum, 5.0);
  EXPECT_LT(range.minimum, -1.5);
  EXPECT_GT(range.minimum, -5.0);
}

// The divergence by its definition: distributions over bins, built number by number.
double divergence_by_definition(const Histogram& histogram, std::int64_t end, int bits) {
  const CodeRange range{0, std::min(static_cast<double>(end) * bin_width(histogram), histogram.largest)};
  const QParams q = numerics::choose_activation_qparams(0.0F, static_cast<float>(range.maximum), bits);
  const auto size = static_cast<std::size_t>(end);
  std::vector<double> p(size);
  std::vector<double> inside(size);
  std::vector<std::int64_t> code_of(size);
  double all = 0;
  double kept = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const auto count = static_cast<double>(histogram.counts[i]);
    all += count;
    if (i >= size) continue;
    p[i] = inside[i] = count;
    kept += count;
  }
  std::size_t outermost = size - 1;
  while (outermost > 0 && inside[outermost] == 0) --outermost;
  p[outermost] += all - kept;
  std::int64_t code = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double per_code = static_cast<double>(q.scale) / bin_width(histogram);
    while (code < q.highest &&
           std::llround((static_cast<double>(code) + 0.5) * per_code) <= static_cast<std::int64_t>(i))
      ++code;
    code_of[i] = code;
  }
  double divergence = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (p[i] == 0) continue;
    double count = 0;
    double occupied = 0;
    for (std::size_t j = 0; j < size; ++j) {
      if (code_of[j] != code_of[i]) continue;
      count += inside[j];
      occupied += inside[j] > 0 ? 1 : 0;
    }
    const double spread = inside[i] > 0 ? count / occupied / kept : 0.0;
    if (spread == 0) return std::numeric_limits<double>::infinity();
    divergence += p[i] / all * std::log(p[i] / all / spread);
  }
  return divergence;
}

TEST(LeastDivergenceRange, FindsTheLeastOfAllThresholdsByDefinition) {
  torch::manual_seed(4);
  const std::vector<float> numbers = test::numbers_of(torch::randn({3000}).abs() * torch::rand({3000}));
  const Histogram histogram = histogram_of(numbers);
  constexpr int bits = 4;
  std::int64_t best_end = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t end = Histogram::bins; end >= 16; --end) {
    if (end > 16 && end % 8 != 0) continue;  // every threshold would take long; these are among them
    if (const double d = divergence_by_definition(histogram, end, bits); d < least) {
      least = d;
      best_end = end;
    }
  }
  const CodeRange found = least_divergence_range(histogram, bits);
  const auto found_end = static_cast<std::int64_t>(std::ceil(found.maximum / bin_width(histogram) - 1e-9));
  EXPECT_EQ(found.minimum, 0.0);
  EXPECT_LE(divergence_by_definition(histogram, found_end, bits), least + 1e-9) << found_end << " against " << best_end;
}

TEST(LeastDivergenceRange, ClipsOutliersAndKeepsWhatFits) {
  torch::manual_seed(5);
  std::vector<float> numbers = test::numbers_of(torch::randn({50000}));
  const CodeRange plain = least_divergence_range(histogram_of(numbers), 8);
  EXPECT_GT(plain.maximum, 2.0);
  EXPECT_LT(plain.minimum, -2.0);
  numbers.push_back(100.0F);
  EXPECT_LT(least_divergence_range(histogram_of(numbers), 8).maximum, 50.0);
}

TEST(RangeSearch, TakesEmptyAndZeroHistograms) {
  for (const Histogram& histogram : {Histogram(), histogram_of({0.0F, 0.0F})})
    for (const CodeRange& range :
         {percentile_range(histogram, 99), least_squares_range(histogram, 8), least_divergence_range(histogram, 8)})
      EXPECT_EQ(range, CodeRange());
  EXPECT_EQ(least_squares_range(histogram_of({-2.0F}), 8).maximum, 0.0);
  EXPECT_EQ(least_squares_range(histogram_of({-2.0F}), 8).minimum, -2.0);
}

}  // namespace
}  // namespace podaq
