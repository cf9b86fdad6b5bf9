#include "podaq/quantize/histogram.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quantize/tensor_numbers.h"

namespace podaq {
namespace {

Histogram counted(const std::vector<std::vector<float>>& batches) {
  Histogram histogram;
  for (const std::vector<float>& batch : batches) count_values(histogram, batch);
  return histogram;
}

// The definition: one number, one bin.
std::int64_t count_between(const std::vector<float>& numbers, double low, double high) {
  return std::count_if(numbers.begin(), numbers.end(),
                       [&](float number) { return number != 0.0F && number >= low && number < high; });
}

TEST(Histogram, CountsEveryNumberInTheBinThatHoldsIt) {
  torch::manual_seed(1);
  for (const double scale : {1e-30, 1e-3, 1.0, 3e4, 1e30}) {
    std::vector<float> numbers = test::numbers_of(torch::randn({5000}) * scale);
    numbers[17] = 0.0F;
    numbers[18] = -0.0F;
    const Histogram histogram = counted({numbers});
    EXPECT_EQ(histogram.zeros, 2);
    ASSERT_EQ(std::ssize(histogram.counts), Histogram::bins);
    const double width = bin_width(histogram);
    for (std::int64_t i = 0; i < Histogram::bins; i += 37) {
      const double low = static_cast<double>(histogram.first + i) * width;
      EXPECT_EQ(histogram.counts[static_cast<std::size_t>(i)], count_between(numbers, low, low + width)) << i;
    }
    EXPECT_EQ(histogram.largest, *std::max_element(numbers.begin(), numbers.end()));
  }
}

// Growing re-bins by merging whole bins: nothing is lost, split or interpolated.
TEST(Histogram, IsTheSameHoweverTheNumbersWereBatchedAndOrdered) {
  torch::manual_seed(2);
  std::vector<std::vector<float>> batches;
  for (const double scale : {1e-20, 0.01, 1.0, 700.0, 0.5})
    batches.push_back(test::numbers_of(torch::randn({400}) * scale));
  batches.push_back(test::numbers_of(torch::rand({100}) - 40));
  std::vector<float> all;
  for (const std::vector<float>& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  const Histogram once = counted({all});
  EXPECT_EQ(counted(batches), once);
  std::reverse(batches.begin(), batches.end());
  EXPECT_EQ(counted(batches), once);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(counted({all}), once);
  EXPECT_EQ(numbers_in_bins(once), std::ssize(all));
}

TEST(Histogram, UsesMoreThanHalfOfItsBins) {
  for (const float largest : {1.0F, 1.5F, 1.999F, 2.0F, 1e-5F, 12345.6F}) {
    const Histogram histogram = counted({{largest * 0.3F, largest}});
    const double used = largest / bin_width(histogram) - static_cast<double>(histogram.first);
    EXPECT_GE(used, Histogram::bins / 2.0) << largest;
    EXPECT_LE(used, Histogram::bins) << largest;
  }
}

TEST(Histogram, TakesTheWidestAndTheSmallestFloats) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  const Histogram histogram = counted({{smallest}, {-smallest}, {largest}, {-largest}, {}});
  EXPECT_EQ(numbers_in_bins(histogram), 4);
  EXPECT_EQ(histogram.smallest, -largest);
}

}  // namespace
}  // namespace podaq
