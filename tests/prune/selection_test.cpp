#include "podaq/prune/selection.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "podaq/core/error.h"

namespace podaq {
namespace {

torch::Tensor scores_of(const torch::Tensor& weight, const torch::Tensor& pruned = {}) {
  return with_pruned_first(weight.abs().reshape({-1}), pruned.defined() ? pruned.reshape({-1}) : pruned);
}

torch::Tensor chosen(const torch::Tensor& weight, std::int64_t zeros, const torch::Tensor& pruned = {}) {
  return lowest_units(std::vector{scores_of(weight, pruned)}, zeros).at(0).reshape(weight.sizes());
}

std::vector<torch::Tensor> rows_of(const std::vector<torch::Tensor>& weights) {
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& weight : weights) rows.push_back(scores_of(weight));
  return rows;
}

std::int64_t count(const torch::Tensor& mask) {
  return mask.sum().item<std::int64_t>();
}

// C25: Torch-Pruning #204.
TEST(ZeroCount, IsRoundedAndNeverEmptiesALayer) {
  EXPECT_EQ(zeros_at(0.0, 100), 0);
  EXPECT_EQ(zeros_at(1e-9, 100), 0);
  EXPECT_EQ(zeros_at(0.001, 100), 0);
  EXPECT_EQ(zeros_at(0.005, 100), 1);
  EXPECT_EQ(zeros_at(0.5, 101), 51);
  EXPECT_EQ(zeros_at(0.999, 100), 99);
  EXPECT_EQ(zeros_at(0.99, 1), 0);
  EXPECT_EQ(zeros_at(0.9, 0), 0);
  EXPECT_EQ(zeros_at(0.999, 104, 3), 101);
  EXPECT_EQ(zeros_at(0.5, 104, 3), 52);
}

TEST(LowestUnits, PrunesTheSmallestAndBreaksTiesByIndex) {
  const torch::Tensor weight = torch::tensor({-1.0F, 1.0F, 0.5F, 1.0F, -1.0F, 2.0F});
  const auto expected = [](std::vector<int> bits) { return torch::tensor(bits).to(torch::kBool); };
  EXPECT_TRUE(chosen(weight, 0).equal(expected({0, 0, 0, 0, 0, 0})));
  EXPECT_TRUE(chosen(weight, 1).equal(expected({0, 0, 1, 0, 0, 0})));
  EXPECT_TRUE(chosen(weight, 2).equal(expected({1, 0, 1, 0, 0, 0})));
  EXPECT_TRUE(chosen(weight, 4).equal(expected({1, 1, 1, 1, 0, 0})));
}

TEST(LowestUnits, CountsNanAsLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const torch::Tensor weight = torch::tensor({nan, 3.0F, nan, 1.0F});
  EXPECT_TRUE(chosen(weight, 2).equal(torch::tensor({0, 1, 0, 1}).to(torch::kBool)));
  EXPECT_EQ(count(chosen(weight, 3)), 3);
}

TEST(LowestUnits, NeverTakesWhatIsSpared) {
  const double spared = std::numeric_limits<double>::infinity();
  const torch::Tensor scores = torch::tensor({spared, 1.0, spared, 2.0, spared}, torch::kDouble);
  EXPECT_TRUE(lowest_units(std::vector{scores}, 2).at(0).equal(torch::tensor({0, 1, 0, 1, 0}).to(torch::kBool)));
  EXPECT_THROW((void)lowest_units(std::vector{scores}, 3), Error);
}

TEST(LowestUnits, RefusesToEmptyALayer) {
  EXPECT_THROW((void)chosen(torch::ones({3}), 3), Error);
  EXPECT_THROW((void)chosen(torch::ones({3}), -1), Error);
}

// Against a plain sort, for tie-rich and tie-free weights of odd shapes.
TEST(LowestUnitsProperty, EqualsAStableSortForEveryCount) {
  torch::manual_seed(7);
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{1}, {7}, {3, 5}, {4, 3, 3}, {2, 3, 1, 5}}) {
    for (const bool ties : {false, true}) {
      torch::Tensor weight = torch::randn(shape);
      if (ties) weight = (weight * 2).round();
      const torch::Tensor row = weight.abs().reshape({-1});
      std::vector<std::int64_t> order(static_cast<std::size_t>(row.numel()));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return row[a].item<float>() < row[b].item<float>(); });
      for (std::int64_t zeros = 0; zeros < row.numel(); ++zeros) {
        torch::Tensor expected = torch::zeros_like(row, torch::kBool);
        for (std::int64_t i = 0; i < zeros; ++i) expected[order[static_cast<std::size_t>(i)]] = true;
        EXPECT_TRUE(chosen(weight, zeros).equal(expected.reshape(shape))) << zeros << " of " << row.numel();
      }
    }
  }
}

TEST(LowestUnitsProperty, GrowsWithTheCountWhateverTheWeightsBecome) {
  torch::manual_seed(8);
  torch::Tensor previous;
  for (std::int64_t zeros = 0; zeros < 60; zeros += 7) {
    const torch::Tensor mask = chosen(torch::randn({4, 15}), zeros, previous);
    EXPECT_EQ(count(mask), zeros);
    if (previous.defined()) {
      EXPECT_TRUE(previous.logical_and(mask.logical_not()).sum().item<std::int64_t>() == 0);
    }
    previous = mask;
  }
}

// C25: layers of 1, 3 and 100 weights.
TEST(LowestUnitsOfLayersProperty, HasTheExactCountAndLeavesNoLayerEmpty) {
  torch::manual_seed(9);
  for (int trial = 0; trial < 20; ++trial) {
    const std::vector<torch::Tensor> weights = {torch::randn({1}) * 0.001, torch::randn({3}) * 0.01,
                                                torch::randn({10, 10}).round()};
    for (const std::int64_t zeros : {0, 1, 50, 100, 101}) {
      const std::vector<torch::Tensor> masks = lowest_units(rows_of(weights), zeros);
      std::int64_t pruned = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_EQ(masks[i].numel(), weights[i].numel());
        EXPECT_LT(count(masks[i]), weights[i].numel()) << "layer " << i;
        pruned += count(masks[i]);
      }
      EXPECT_EQ(pruned, zeros);
    }
    EXPECT_THROW((void)lowest_units(rows_of(weights), 102), Error);
  }
}

TEST(LowestUnitsOfLayers, ComparesScoresAcrossLayers) {
  const std::vector<torch::Tensor> weights = {torch::tensor({0.1F, 5.0F}), torch::tensor({0.2F, 0.3F, 7.0F}),
                                              torch::tensor({4.0F, 6.0F})};
  const std::vector<torch::Tensor> masks = lowest_units(rows_of(weights), 3);
  EXPECT_TRUE(masks[0].equal(torch::tensor({1, 0}).to(torch::kBool)));
  EXPECT_TRUE(masks[1].equal(torch::tensor({1, 1, 0}).to(torch::kBool)));
  EXPECT_TRUE(masks[2].equal(torch::tensor({0, 0}).to(torch::kBool)));
}

}  // namespace
}  // namespace podaq
