#include "podaq/quantize/observer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "quantize/special_floats.h"

namespace podaq {
namespace {

ObservedRange after(const std::vector<torch::Tensor>& batches, const ObserverOptions& options) {
  ObservedRange range;
  for (const torch::Tensor& batch : batches) observe(range, batch, options);
  return range;
}

// C19: nni #3204.
TEST(EmaObserver, CopiesTheFirstBatchThenAverages) {
  ObservedRange range;
  const ObserverOptions options{.kind = ObserverKind::ema, .averaging_constant = 0.01};
  observe(range, torch::tensor({0.0F, 0.5F, 1.0F}), options);
  EXPECT_EQ(range.maximum, 1.0);
  for (int batch = 1; batch < 99; ++batch) observe(range, torch::tensor({0.0F, 1.0F}), options);
  EXPECT_EQ(range.maximum, 1.0);
  observe(range, torch::tensor({0.0F, 10000.0F}), options);
  EXPECT_NEAR(range.maximum, 100.99, 1e-9);
  EXPECT_NEAR(qparams_for(range, 8).scale, 0.39604, 1e-5);
  EXPECT_EQ(qparams_for(range, 8).zero_point, 0);
}

TEST(MinMaxObserver, KeepsTheExtremesOfAllBatches) {
  const ObservedRange range = after({torch::tensor({-1.0F, 2.0F}), torch::tensor({5.0F}), torch::tensor({-3.0F, 0.0F})},
                                    {.kind = ObserverKind::min_max});
  EXPECT_EQ(range.minimum, -3.0);
  EXPECT_EQ(range.maximum, 5.0);
}

TEST(Observer, LeavesOutAndCountsNanAndInfinities) {
  for (const ObserverKind kind : {ObserverKind::ema, ObserverKind::min_max}) {
    const ObservedRange range =
        after({torch::tensor({test::nan, 1.0F, test::infinity, -2.0F, -test::infinity})}, {.kind = kind});
    EXPECT_TRUE(range.is_observed);
    EXPECT_EQ(range.minimum, -2.0);
    EXPECT_EQ(range.maximum, 1.0);
    EXPECT_EQ(range.not_finite_elements, 3);
  }
}

// C17: TinyNeuralNetwork #375.
TEST(Observer, IsNotObservedAfterBatchesWithoutNumbers) {
  const ObservedRange range = after({torch::empty({0}), torch::empty({4, 0, 2}), torch::tensor({test::nan, test::nan})},
                                    {.kind = ObserverKind::ema});
  EXPECT_FALSE(range.is_observed);
  EXPECT_EQ(range.not_finite_elements, 2);
}

TEST(Observer, SeesEveryElementOfAnyLayout) {
  torch::manual_seed(1);
  const torch::Tensor base = torch::randn({3, 4, 5, 6});
  const ObserverOptions options{.kind = ObserverKind::min_max};
  const ObservedRange expected = after({base}, options);
  EXPECT_EQ(after({base.contiguous(torch::MemoryFormat::ChannelsLast)}, options), expected);
  EXPECT_EQ(after({base.transpose(0, 3)}, options), expected);
  const torch::Tensor sliced = base.slice(2, 1, 5, 2);
  EXPECT_EQ(after({sliced}, options), after({sliced.contiguous()}, options));
  EXPECT_EQ(after({base.to(torch::kDouble)}, options), expected);
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
