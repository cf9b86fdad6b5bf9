#include "podaq/quantize/observer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "podaq/core/error.h"
#include "quantize/special_floats.h"

namespace podaq {
namespace {

ObservedRange after(const std::vector<torch::Tensor>& batches, const ObserverOptions& options) {
  ObservedRange range;
  for (const torch::Tensor& batch : batches) observe(range, batch, options, 8);
  return range;
}

std::vector<ObserverOptions> every_observer() {
  return {EmaObserver{}, MinMaxObserver{}, PercentileObserver{.percentile = 100}, LeastSquaresObserver{},
          LeastDivergenceObserver{}};
}

// C19: nni #3204.
TEST(EmaObserver, CopiesTheFirstBatchThenAverages) {
  ObservedRange range;
  const ObserverOptions options = EmaObserver{.averaging_constant = 0.01};
  observe(range, torch::tensor({0.0F, 0.5F, 1.0F}), options, 8);
  EXPECT_EQ(range.maximum, 1.0);
  for (int batch = 1; batch < 99; ++batch) observe(range, torch::tensor({0.0F, 1.0F}), options, 8);
  EXPECT_EQ(range.maximum, 1.0);
  observe(range, torch::tensor({0.0F, 10000.0F}), options, 8);
  EXPECT_NEAR(range.maximum, 100.99, 1e-9);
  EXPECT_NEAR(qparams_for(range, 8).scale, 0.39604, 1e-5);
  EXPECT_EQ(qparams_for(range, 8).zero_point, 0);
}

TEST(MinMaxObserver, KeepsTheExtremesOfAllBatches) {
  const ObservedRange range =
      after({torch::tensor({-1.0F, 2.0F}), torch::tensor({5.0F}), torch::tensor({-3.0F, 0.0F})}, MinMaxObserver{});
  EXPECT_EQ(range.minimum, -3.0);
  EXPECT_EQ(range.maximum, 5.0);
}

TEST(Observer, LeavesOutAndCountsNanAndInfinities) {
  for (const ObserverOptions& options : every_observer()) {
    const ObservedRange range =
        after({torch::tensor({test::nan, 1.0F, test::infinity, -2.0F, -test::infinity})}, options);
    EXPECT_TRUE(range.is_observed);
    EXPECT_NEAR(range.minimum, -2.0, 0.02) << name_of(options);
    EXPECT_NEAR(range.maximum, 1.0, 0.02) << name_of(options);
    EXPECT_EQ(range.not_finite_elements, 3);
  }
}

// C17: TinyNeuralNetwork #375.
TEST(Observer, IsNotObservedAfterBatchesWithoutNumbers) {
  const ObservedRange range =
      after({torch::empty({0}), torch::empty({4, 0, 2}), torch::tensor({test::nan, test::nan})}, EmaObserver{});
  EXPECT_FALSE(range.is_observed);
  EXPECT_EQ(range.not_finite_elements, 2);
}

TEST(Observer, SeesEveryElementOfAnyLayout) {
  torch::manual_seed(1);
  const torch::Tensor base = torch::randn({3, 4, 5, 6});
  const ObserverOptions options = MinMaxObserver{};
  const ObservedRange expected = after({base}, options);
  EXPECT_EQ(after({base.contiguous(torch::MemoryFormat::ChannelsLast)}, options), expected);
  EXPECT_EQ(after({base.transpose(0, 3)}, options), expected);
  const torch::Tensor sliced = base.slice(2, 1, 5, 2);
  EXPECT_EQ(after({sliced}, options), after({sliced.contiguous()}, options));
  EXPECT_EQ(after({base.to(torch::kDouble)}, options), expected);
}

// Batches of all kinds, the histogram included, leave a range that codes can be made of.
TEST(Observer, GivesARangeWithinTheExtremesThatContainsZero) {
  torch::manual_seed(2);
  const torch::Tensor batch = torch::randn({2000});
  for (const ObserverOptions& options : every_observer()) {
    const ObservedRange range = after({batch, batch * 0.5}, options);
    EXPECT_GE(range.minimum, batch.min().item<double>()) << name_of(options);
    EXPECT_LE(range.maximum, batch.max().item<double>()) << name_of(options);
    EXPECT_LT(range.minimum, 0) << name_of(options);
    EXPECT_GT(range.maximum, 0) << name_of(options);
  }
}

// Searches run after 1, 2, 4, … batches and when settled, and then know all batches.
TEST(Observer, SettlesOnAllThatItSaw) {
  torch::manual_seed(3);
  const ObserverOptions options = LeastSquaresObserver{};
  ObservedRange range = after({torch::rand({100}), torch::rand({100}), torch::rand({4000}) * 50}, options);
  EXPECT_LE(range.maximum, 1.0) << "the third batch waits for a search";
  settle(range, options, 8);
  EXPECT_GT(range.maximum, 40.0);
  const ObservedRange once = range;
  settle(range, options, 8);
  EXPECT_EQ(range, once);
}

TEST(FixedObserver, KeepsItsRangeWhateverComesBy) {
  const ObserverOptions options = FixedObserver{.minimum = -1, .maximum = 3};
  ObservedRange range = initial_range(options);
  EXPECT_TRUE(range.is_observed);
  observe(range, torch::tensor({-50.0F, test::nan, 50.0F}), options, 8);
  EXPECT_EQ(range.minimum, -1);
  EXPECT_EQ(range.maximum, 3);
  EXPECT_EQ(range.not_finite_elements, 1);
}

TEST(ObserverOptions, AreRefusedOutOfRangeByName) {
  const auto refusal = [](const ObserverOptions& options) -> std::string {
    try {
      validate(options);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal(EmaObserver{.averaging_constant = 0}).find("averaging_constant"), std::string::npos);
  EXPECT_NE(refusal(PercentileObserver{.percentile = 101}).find("percentile"), std::string::npos);
  EXPECT_NE(refusal(FixedObserver{.minimum = 1, .maximum = 0}).find("[1, 0]"), std::string::npos);
  EXPECT_NE(refusal(FixedObserver{.minimum = 0, .maximum = test::infinity}).find("finite"), std::string::npos);
  EXPECT_EQ(refusal(MinMaxObserver{}), "");
}

TEST(ObservedRange, UnitesWithAnother) {
  const ObservedRange none{.not_finite_elements = 2};
  const ObservedRange a{.minimum = -1, .maximum = 2, .is_observed = true, .not_finite_elements = 1};
  const ObservedRange b{.minimum = 0, .maximum = 3, .is_observed = true};
  EXPECT_EQ(unite(a, b), (ObservedRange{.minimum = -1, .maximum = 3, .is_observed = true, .not_finite_elements = 1}));
  EXPECT_EQ(unite(none, a),
            (ObservedRange{.minimum = -1, .maximum = 2, .is_observed = true, .not_finite_elements = 3}));
  EXPECT_FALSE(unite(none, none).is_observed);
}

}  // namespace
}  // namespace podaq
