#include "podaq/prune/pattern.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace podaq {
namespace {

torch::Tensor bits(const std::vector<int>& values, torch::IntArrayRef shape) {
  return torch::tensor(values).to(torch::kBool).reshape(shape);
}

TEST(Pattern, HasOneSpellingThatReadsBack) {
  for (const Pattern& pattern : std::vector<Pattern>{
           UnstructuredPattern{}, ChannelPattern{}, NOfMPattern{.n = 2, .m = 4}, NOfMPattern{.n = 4, .m = 8},
           BlockPattern{.rows = 4, .columns = 1}, BlockPattern{.rows = 1, .columns = 4}})
    EXPECT_EQ(parse_pattern(name_of(pattern)), pattern) << name_of(pattern);
  for (const char* text :
       {"", "4", "4x", "x4", "4:2", "0:4", "2:2", "2:4:8", "0x4", "4x-1", "2000x1", "4 x 1", "blocks"})
    EXPECT_FALSE(parse_pattern(text).has_value()) << text;
}

// Four output channels at one input and tap, as the sparse runtime joins them.
TEST(BlockPattern, FourByOneJoinsNeighbouringOutputsAtOneInputAndTap) {
  const Pattern pattern = BlockPattern{.rows = 4, .columns = 1};
  const torch::Tensor scores = torch::arange(6 * 2 * 3, torch::kFloat).reshape({6, 2, 3});
  EXPECT_EQ(count_units(pattern, scores.sizes(), 1), 12);
  const torch::Tensor sums = sum_units(pattern, scores, 1);
  EXPECT_TRUE(sums.narrow(0, 0, 6).equal(scores.narrow(0, 0, 4).sum(0).reshape({-1})));
  EXPECT_TRUE(sums.narrow(0, 6, 6).equal(scores.narrow(0, 4, 2).sum(0).reshape({-1}))) << "a short last block";
}

TEST(BlockPattern, NeverCrossesConvGroups) {
  const Pattern pattern = BlockPattern{.rows = 4, .columns = 1};
  EXPECT_EQ(count_units(pattern, {12, 2, 3}, 2), 2 * 2 * 2 * 3);
  torch::Tensor units = torch::zeros({24}, torch::kBool);
  units[6] = true;  // group 0, second block of rows, input 0, tap 0
  const torch::Tensor mask = mask_of_units(pattern, units, {12, 2, 3}, 2);
  torch::Tensor expected = torch::zeros({12, 2, 3}, torch::kBool);
  expected[4][0][0] = expected[5][0][0] = true;
  EXPECT_TRUE(mask.equal(expected));
}

TEST(BlockPattern, OneByFourJoinsNeighbouringInputsAtOneTap) {
  const Pattern pattern = BlockPattern{.rows = 1, .columns = 4};
  torch::Tensor units = torch::zeros({2 * 2 * 3}, torch::kBool);
  units[4] = true;  // output 0, second block of inputs, tap 1
  const torch::Tensor mask = mask_of_units(pattern, units, {2, 6, 3}, 1);
  torch::Tensor expected = torch::zeros({2, 6, 3}, torch::kBool);
  expected[0][4][1] = expected[0][5][1] = true;
  EXPECT_TRUE(mask.equal(expected));
}

TEST(ChannelPattern, JoinsAllWeightsOfAnOutput) {
  const torch::Tensor weight = torch::ones({3, 2, 2});
  EXPECT_EQ(count_units(ChannelPattern{}, weight.sizes(), 1), 3);
  EXPECT_TRUE(sum_units(ChannelPattern{}, weight, 1).equal(torch::full({3}, 4.0F)));
  EXPECT_TRUE(mask_of_units(ChannelPattern{}, bits({0, 1, 0}, {3}), {3, 2, 2}, 1)
                  .equal(bits({0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}, {3, 2, 2})));
}

TEST(NOfMPattern, SparesTheHighestOfEachGroupAlongTheInputs) {
  const torch::Tensor scores = torch::tensor({1.0F, 4.0F, 3.0F, 2.0F, 7.0F, 5.0F, 6.0F}).reshape({1, 7, 1});
  EXPECT_TRUE(spared_weights({.n = 2, .m = 4}, scores).equal(bits({0, 1, 1, 0, 1, 0, 1}, {1, 7, 1})));
  const torch::Tensor ties = torch::ones({1, 5, 1});
  EXPECT_TRUE(spared_weights({.n = 1, .m = 4}, ties).equal(bits({0, 0, 0, 1, 1}, {1, 5, 1})))
      << "of equals the later stay; a short group keeps n too";
}

TEST(NOfMPattern, LeavesRowsOfUpToNInputsWhole) {
  EXPECT_EQ(count_prunable_units(NOfMPattern{.n = 2, .m = 4}, {8, 1, 3}, 8), 0) << "depthwise";
  EXPECT_EQ(count_prunable_units(NOfMPattern{.n = 2, .m = 4}, {8, 2, 3}, 1), 0);
  EXPECT_EQ(count_prunable_units(NOfMPattern{.n = 2, .m = 4}, {8, 7, 3}, 1), 8 * 3 * (2 + 1));
  EXPECT_TRUE(spared_weights({.n = 2, .m = 4}, torch::randn({8, 1, 3})).all().item<bool>());
}

TEST(PatternProperty, UnitsAndMasksCorrespond) {
  torch::manual_seed(11);
  const std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> layers = {
      {{1, 1}, 1}, {{7, 5}, 1}, {{6, 3, 3}, 2}, {{8, 1, 3, 3}, 8}, {{10, 4, 2, 3}, 2}, {{0, 3}, 1}};
  const std::vector<Pattern> patterns = {UnstructuredPattern{}, NOfMPattern{},      BlockPattern{4, 1},
                                         BlockPattern{1, 4},    BlockPattern{3, 2}, BlockPattern{100, 100},
                                         ChannelPattern{}};
  for (const auto& [shape, groups] : layers)
    for (const Pattern& pattern : patterns) {
      const std::int64_t count = count_units(pattern, shape, groups);
      EXPECT_EQ(sum_units(pattern, torch::ones(shape), groups).numel(), count);
      EXPECT_LE(count_prunable_units(pattern, shape, groups), std::max<std::int64_t>(count - 1, 0));
      const torch::Tensor units = torch::rand({count}) < 0.5;
      const torch::Tensor mask = mask_of_units(pattern, units, shape, groups);
      EXPECT_EQ(mask.sizes(), torch::IntArrayRef(shape));
      EXPECT_TRUE(units_of_mask(pattern, mask, groups).equal(units)) << name_of(pattern);
      EXPECT_TRUE(sum_units(pattern, mask.to(torch::kFloat), groups).gt(0).equal(units)) << name_of(pattern);
      const torch::Tensor sizes = sum_units(pattern, torch::ones(shape), groups);
      EXPECT_EQ(sizes.masked_select(units).sum().item<double>(), mask.sum().item<double>()) << "units do not overlap";
    }
}

}  // namespace
}  // namespace podaq
